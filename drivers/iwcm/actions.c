// SPDX-License-Identifier: GPL-2.0
/* Carrying out what the core's machine answers. */
#include <linux/module.h>
#include <linux/slab.h>

#include "endpoint.h"

/**
 * mpa2_ep_take_back() - the socket alone again
 * @ep: the endpoint
 *
 * What siw had of it is torn down, with the QP in ERROR.  Nothing to do when siw
 * did that itself.
 *
 * Context: may sleep, ep->lock held.
 */
void mpa2_ep_take_back(struct mpa2_endpoint *ep)
{
	lockdep_assert_held(&ep->lock);
	if (!ep->up)
		return;
	ep->up = false;
	if (!ep->released)
		ep->sock = mpa2_siw_take_back(&ep->binding, ep->qp,
					      &mpa2_pending_ops, ep);
	mpa2_siw_unbind(&ep->binding);
}

static struct socket *ep_take_socket(struct mpa2_endpoint *ep)
{
	struct socket *sock;

	mpa2_ep_take_back(ep);
	sock = ep->sock;
	ep->sock = NULL;
	if (sock)
		mpa2_tcp_restore(sock, &ep->original);
	return sock;
}

/**
 * mpa2_ep_close() - close TCP by FIN
 * @ep: the endpoint; mpa2_ep_finish() is due
 *
 * Context: may sleep, ep->lock held.
 */
void mpa2_ep_close(struct mpa2_endpoint *ep)
{
	struct socket *sock = ep_take_socket(ep);

	lockdep_assert_held(&ep->lock);
	if (sock)
		mpa2_tcp_close(sock);
	ep->closed = true;
}

static void ep_reset(struct mpa2_endpoint *ep)
{
	struct socket *sock = ep_take_socket(ep);

	if (sock)
		mpa2_tcp_reset(sock);
	ep->closed = true;
}

static int ep_open_tcp(struct mpa2_endpoint *ep)
{
	struct net_device *netdev;
	int ret;

	if (ep->sock) {
		/* The Rev 1 retry uses the same addresses again. */
		mpa2_tcp_restore(ep->sock, &ep->original);
		mpa2_tcp_reset(ep->sock);
		ep->sock = NULL;
		mpa2_ep_count(ep, MPA2_COUNT_fallbacks);
	}
	netdev = mpa2_siw_netdev(ep->dev->ibdev);
	if (!netdev)
		return -ENODEV;
	ret = mpa2_tcp_socket(dev_net(netdev), &ep->local, ep->cm_id->afonly,
			      ep->cm_id->tos, ep->cm_id->tos_set, &ep->sock);
	dev_put(netdev);
	if (ret)
		return ret;
	mpa2_tcp_install(ep->sock, &mpa2_pending_ops, ep, &ep->original);
	mpa2_tcp_share_port(ep->sock);
	ret = mpa2_tcp_bind(ep->sock, &ep->local);
	if (ret)
		return ret;
	ret = mpa2_tcp_connect(ep->sock, &ep->remote);
	if (ret && ret != -EINPROGRESS)
		return ret;
	mpa2_ep_wake(ep, MPA2_EP_SOCKET);
	return 0;
}

/**
 * mpa2_ep_enter() - use the socket, wherever it is
 * @ep: the endpoint
 *
 * Context: may sleep, ep->lock held.
 * Return: the socket until mpa2_ep_leave(); NULL once siw has let go of it.
 */
struct socket *mpa2_ep_enter(struct mpa2_endpoint *ep)
{
	lockdep_assert_held(&ep->lock);
	if (!ep->up)
		return ep->sock;
	return mpa2_siw_fence_enter(&ep->binding);
}

/**
 * mpa2_ep_leave() - done with the socket of mpa2_ep_enter()
 * @ep: the endpoint
 *
 * Context: ep->lock held since then.
 */
void mpa2_ep_leave(struct mpa2_endpoint *ep)
{
	lockdep_assert_held(&ep->lock);
	if (ep->up)
		mpa2_siw_fence_leave(&ep->binding);
}

static int ep_send(struct mpa2_endpoint *ep, const u8 *octets, u32 len)
{
	struct socket *sock = mpa2_ep_enter(ep);
	int ret;

	if (!sock)
		return -ENOTCONN;
	ret = mpa2_tcp_send(sock, octets, len);
	mpa2_ep_leave(ep);
	if (!ret)
		mpa2_ep_observe_sent(ep, octets, len);
	return ret;
}

static void ep_consume(struct mpa2_endpoint *ep, u32 len)
{
	struct socket *sock = mpa2_ep_enter(ep);
	u8 rtr[MPA2_RTR_MAX];

	if (!sock)
		return;
	/* They were all there when the core looked at them. */
	if (WARN_ON(len > sizeof(rtr)) ||
	    mpa2_tcp_receive(sock, rtr, len) != len)
		pr_warn_ratelimited("RTR vanished from the stream\n");
	mpa2_ep_leave(ep);
}

static int ep_bind(struct mpa2_endpoint *ep)
{
	struct mpa2_info info = mpa2_ep_info(ep);
	struct mpa2_handover h = {
		.qp = ep->qp,
		.cm_id = ep->cm_id,
		.sock = ep->sock,
		.original = &ep->original,
		.ird = info.local_ird,
		.ord = info.local_ord,
		.rtr = info.rtr,
		.crc = info.crc,
		.record = mpa2_ep_record(ep),
	};
	int ret;

	if (ep->role == MPA2_INITIATOR) {
		ret = mpa2_siw_attach_initiator(&ep->binding, &h);
	} else {
		/* One reference for siw, ours stays until the fence opens. */
		ep->dev->saved.iw_add_ref(ep->qp);
		mpa2_endpoint_get(ep);	/* for the shim id */
		ret = mpa2_siw_attach_responder(&ep->binding, &h, &mpa2_fence_ops,
						&ep->fence_owner);
		if (ret) {
			ep->dev->saved.iw_rem_ref(ep->qp);
			mpa2_endpoint_put(ep);
		}
	}
	if (ret) {
		ep->local_error = ret;
		return ret;
	}
	ep->up = true;
	ep->sock = NULL;
	if (ep->role == MPA2_RESPONDER) {
		ep->fenced_at = ktime_get();
		mpa2_ep_count(ep, MPA2_COUNT_fence_holds);
	}
	return 0;
}

/* The connection is siw's from here: forget what was given to it. */
static void ep_given_away(struct mpa2_endpoint *ep)
{
	ep->up = false;
	ep->cm_id = NULL;
	ep->closed = true;
}

static void ep_initiator_established(struct mpa2_endpoint *ep)
{
	mpa2_ep_raise_reply(ep, 0);
	xa_erase(&ep->dev->pending_qps, ep->qp_num);
	ep->qp = NULL;
	mpa2_siw_finish_initiator(&ep->binding);
	ep_given_away(ep);
}

static void ep_open_fence(struct mpa2_endpoint *ep, u8 rtr)
{
	struct iw_cm_event event = mpa2_ep_established_event(ep, 0);
	int ret;

	mpa2_ep_check_hold(ep);
	if (ep->wants_more) {
		struct socket *sock = mpa2_ep_enter(ep);

		if (sock) {
			mpa2_tcp_want(sock, 1);
			mpa2_ep_leave(ep);
		}
	}
	ret = mpa2_siw_open_fence(&ep->binding, ep->qp, ep->cm_id,
				  ep->told ? NULL : &event, rtr);
	if (ret) {
		/* siw was faster: a death like any other before the FPDU. */
		mpa2_ep_fail(ep, MPA2_FAIL_RESET);
		mpa2_ep_close(ep);
		return;
	}
	ep->told = true;
	mpa2_ep_observe_fence(ep, rtr);
	mpa2_ep_observe_result(ep, 0);
	mpa2_ep_leave_room(ep);
	mpa2_endpoint_put(ep);	/* the shim id's */
	ep_given_away(ep);
}

static void ep_responder_established(struct mpa2_endpoint *ep)
{
	struct iw_cm_event event;

	/* Raised with the fence where that came first. */
	if (ep->told || !ep->cm_id)
		return;
	event = mpa2_ep_established_event(ep, 0);
	ep->told = true;
	mpa2_ep_observe_result(ep, 0);
	mpa2_ep_leave_room(ep);
	ep->cm_id->event_handler(ep->cm_id, &event);
	if (ep->settings.fence == MPA2_FENCE_P2P)
		ep_open_fence(ep, MPA2_RTR_NONE);
	else
		mpa2_ep_arm(ep, MPA2_EP_HOLD_TIMER, MPA2_LONG_HOLD_MS);
}

static void ep_shutdown(struct mpa2_endpoint *ep)
{
	mpa2_ep_take_back(ep);
	if (!ep->sock) {
		ep->closed = true;
		return;
	}
	mpa2_tcp_shutdown(ep->sock);
	mpa2_ep_wake(ep, MPA2_EP_SOCKET);
}

static void ep_next(struct mpa2_endpoint *ep, bool good,
		    enum mpa2_event_type yes, enum mpa2_event_type no)
{
	ep->next = (struct mpa2_event){ .type = good ? yes : no };
}

static void ep_act(struct mpa2_endpoint *ep, const struct mpa2_action *act)
{
	switch (act->type) {
	case MPA2_ACT_CONNECT:
		ep->tcp_error = ep_open_tcp(ep);
		if (ep->tcp_error)
			ep_next(ep, false, 0, MPA2_EV_CONNECT_FAILED);
		break;
	case MPA2_ACT_SEND:
		ep_next(ep, !ep_send(ep, act->octets, act->octets_len),
			MPA2_EV_SENT, MPA2_EV_SEND_FAILED);
		break;
	case MPA2_ACT_ARM_TIMER:
		mpa2_ep_arm(ep, MPA2_EP_CORE_TIMER,
			    ep->settings.timeout_ms[act->arg]);
		break;
	case MPA2_ACT_STOP_TIMER:
		mpa2_ep_stop_timer(ep);
		break;
	case MPA2_ACT_CONNECT_REQUEST:
		mpa2_ep_raise_request(ep);
		break;
	case MPA2_ACT_BIND:
		ep_next(ep, !ep_bind(ep), MPA2_EV_BOUND,
			MPA2_EV_LOCAL_FAILURE);
		break;
	case MPA2_ACT_CONSUME:
		ep_consume(ep, act->arg);
		break;
	case MPA2_ACT_OPEN_FENCE:
		ep_open_fence(ep, act->arg);
		break;
	case MPA2_ACT_ESTABLISHED:
		if (ep->role == MPA2_INITIATOR)
			ep_initiator_established(ep);
		else
			ep_responder_established(ep);
		break;
	case MPA2_ACT_REJECTED:
		mpa2_ep_log_failure(ep, -ECONNREFUSED);
		mpa2_ep_raise_reply(ep, -ECONNREFUSED);
		mpa2_ep_drop_ids(ep);
		break;
	case MPA2_ACT_FAILED:
		mpa2_ep_fail(ep, act->arg);
		break;
	case MPA2_ACT_SHUTDOWN:
		ep_shutdown(ep);
		break;
	case MPA2_ACT_CLOSE:
		mpa2_ep_close(ep);
		break;
	case MPA2_ACT_RESET:
		ep_reset(ep);
		break;
	default:
		WARN_ONCE(1, "iw_mpa2: action %u\n", act->type);
	}
}

/**
 * mpa2_ep_feed() - feed one event, and those that the actions bring about
 * @ep: the endpoint; may be finished afterwards
 * @event: the event
 *
 * Context: may sleep, ep->lock held.
 */
void mpa2_ep_feed(struct mpa2_endpoint *ep, struct mpa2_event event)
{
	struct mpa2_actions actions;
	struct mpa2_info before;
	u32 i;

	lockdep_assert_held(&ep->lock);
	do {
		ep->next.type = MPA2_EV_NR;
		before = mpa2_ep_info(ep);
		mpa2_conn_event(&ep->conn, &event, &actions);
		mpa2_ep_observe(ep, &before, &event);
		for (i = 0; i < actions.count; i++)
			ep_act(ep, &actions.list[i]);
		event = ep->next;
	} while (event.type != MPA2_EV_NR && !ep->closed);
	if (ep->closed)
		mpa2_ep_finish(ep);
}

/**
 * mpa2_ep_feed_type() - feed an event that is only its type
 * @ep: the endpoint; may be finished afterwards
 * @type: the event
 *
 * Context: may sleep, ep->lock held.
 */
void mpa2_ep_feed_type(struct mpa2_endpoint *ep, enum mpa2_event_type type)
{
	mpa2_ep_feed(ep, (struct mpa2_event){ .type = type });
}
