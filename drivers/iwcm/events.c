// SPDX-License-Identifier: GPL-2.0
/* What endpoints tell iw_cm, in the order it demands. */
#include <linux/module.h>
#include <linux/slab.h>

#include "endpoint.h"

static u8 event_depth(u16 peer, u16 local)
{
	return min_t(u16, peer == MPA2_DEPTH_NONE ? local : peer, U8_MAX);
}

/* ird and ord of an event are the peer's view (requirements Annex A L3). */
static void set_depths(struct iw_cm_event *event, const struct mpa2_info *info)
{
	if (info->peer_data) {
		event->ird = event_depth(info->peer_ird, info->local_ord);
		event->ord = event_depth(info->peer_ord, info->local_ird);
	} else {
		event->ird = min_t(u16, info->local_ord, U8_MAX);
		event->ord = min_t(u16, info->local_ird, U8_MAX);
	}
}

static void set_private_data(struct iw_cm_event *event,
			     const struct mpa2_info *info)
{
	/* iw_cm copies it before event_handler() returns. */
	event->private_data = (void *)info->ulp_pd;
	event->private_data_len = min_t(u16, info->ulp_pd_len, U8_MAX);
}

/**
 * mpa2_ep_raise_reply() - the one CONNECT_REPLY of a connect
 * @ep: an initiator's endpoint
 * @status: 0 or -errno
 *
 * Context: may sleep, ep->lock held.
 */
void mpa2_ep_raise_reply(struct mpa2_endpoint *ep, int status)
{
	struct mpa2_info info = mpa2_ep_info(ep);
	struct iw_cm_event event = {
		.event = IW_CM_EVENT_CONNECT_REPLY,
		.status = status,
	};

	if (WARN_ON(ep->told))
		return;
	ep->told = true;
	mpa2_ep_observe_result(ep, status);
	if (!status) {
		event.local_addr = ep->local;
		event.remote_addr = ep->remote;
		set_depths(&event, &info);
	}
	if (!status || info.peer_reject)
		set_private_data(&event, &info);
	if (ep->cm_id->event_handler(ep->cm_id, &event) &&
	    event.private_data_len) {
		/* No memory for a copy: the event matters more. */
		event.private_data_len = 0;
		ep->cm_id->event_handler(ep->cm_id, &event);
	}
}

/**
 * mpa2_ep_established_event() - the ESTABLISHED of an accept
 * @ep: a responder's endpoint
 * @status: 0 or -errno
 *
 * Context: ep->lock held.
 * Return: the event, to be raised.
 */
struct iw_cm_event mpa2_ep_established_event(struct mpa2_endpoint *ep,
					     int status)
{
	struct mpa2_info info = mpa2_ep_info(ep);
	struct iw_cm_event event = {
		.event = IW_CM_EVENT_ESTABLISHED,
		.status = status,
		.local_addr = ep->local,
		.remote_addr = ep->remote,
	};

	set_depths(&event, &info);
	return event;
}

static void ep_raise(struct mpa2_endpoint *ep, enum iw_cm_event_type type)
{
	struct iw_cm_event event = { .event = type };

	ep->cm_id->event_handler(ep->cm_id, &event);
}

/* After an accept that returned 0: ESTABLISHED first, whatever happens (L5). */
static void ep_raise_end(struct mpa2_endpoint *ep, int status)
{
	if (!ep->told) {
		struct iw_cm_event event = mpa2_ep_established_event(ep, status);

		ep->told = true;
		ep->cm_id->event_handler(ep->cm_id, &event);
	}
	ep_raise(ep, IW_CM_EVENT_DISCONNECT);
	ep_raise(ep, IW_CM_EVENT_CLOSE);
}

static int failure_status(struct mpa2_endpoint *ep, u32 failure)
{
	switch (failure) {
	case MPA2_FAIL_RESET:
		return ep->tcp_error ? ep->tcp_error : -ECONNRESET;
	case MPA2_FAIL_TIMEOUT:
		return -ETIMEDOUT;
	case MPA2_FAIL_PROTOCOL:
		return -EPROTO;
	case MPA2_FAIL_ABORTED:
		return -ECONNABORTED;
	default:
		return ep->local_error ? ep->local_error : -ENOMEM;
	}
}

/* rdma_cm's users know three words for the end of an accepted request. */
static int established_status(int status)
{
	if (status == -ETIMEDOUT || status == -EPROTO)
		return status;
	return -ECONNRESET;
}

/**
 * mpa2_ep_fail() - the handshake has failed: say so where somebody listens
 * @ep: the endpoint; without id and QP afterwards
 * @failure: enum mpa2_failure
 *
 * In an op the error is what the op returns, later it is an event.
 *
 * Context: may sleep, ep->lock held.
 */
void mpa2_ep_fail(struct mpa2_endpoint *ep, u32 failure)
{
	int status = failure_status(ep, failure);

	if (failure != MPA2_FAIL_ABORTED && !ep->told)
		mpa2_ep_log_failure(ep, status);
	mpa2_ep_observe_result(ep, status);
	if (ep->in_op && !ep->told)
		ep->op_error = status;
	else if (!ep->cm_id || ep->silent)
		;
	else if (ep->role == MPA2_INITIATOR)
		mpa2_ep_raise_reply(ep, status);
	else
		ep_raise_end(ep, established_status(status));
	mpa2_ep_take_back(ep);
	mpa2_ep_drop_ids(ep);
}

/**
 * mpa2_ep_raise_request() - raise CONNECT_REQUEST on the listening id
 * @ep: a responder's endpoint with a listener
 *
 * It is raised now, or by mpa2_ep_take_turn().  What iw_cm cannot take becomes the
 * machine's next event, a reject.
 *
 * Context: may sleep, ep->lock held.
 */
void mpa2_ep_raise_request(struct mpa2_endpoint *ep)
{
	struct mpa2_info info = mpa2_ep_info(ep);
	struct iw_cm_event event = {
		.event = IW_CM_EVENT_CONNECT_REQUEST,
		.local_addr = ep->local,
		.remote_addr = ep->remote,
		.provider_data = ep->handle,
	};
	struct iw_cm_id *id = ep->listener->cm_id;

	if (!mpa2_listener_take_turn(ep))
		return;
	ep->next = (struct mpa2_event){ .type = MPA2_EV_REJECT };
	if (info.ulp_pd_len > U8_MAX) {
		/* rdma_cm cannot carry more; cut data would be a lie. */
		ep->next.cause = MPA2_CAUSE_ULP_PD_TOO_LONG;
		return;
	}
	set_depths(&event, &info);
	set_private_data(&event, &info);
	if (id->event_handler(id, &event)) {
		ep->next.cause = MPA2_CAUSE_NOT_TAKEN;
		return;
	}
	ep->next = (struct mpa2_event){ .type = MPA2_EV_NR };
	ep->raised = true;
	mpa2_ep_arm(ep, MPA2_EP_DELIVER_TIMER, MPA2_DELIVER_TIMEOUT_MS);
}

/**
 * mpa2_ep_take_turn() - raise a Request that others were before
 * @ep: a responder's endpoint; may be finished afterwards
 *
 * Its machine has waited in the state for the ULP.
 *
 * Context: may sleep, ep->lock held.
 */
void mpa2_ep_take_turn(struct mpa2_endpoint *ep)
{
	lockdep_assert_held(&ep->lock);
	if (ep->raised || !ep->listener)
		return;
	ep->next.type = MPA2_EV_NR;
	mpa2_ep_raise_request(ep);
	if (ep->next.type != MPA2_EV_NR)
		mpa2_ep_feed(ep, ep->next);
}
