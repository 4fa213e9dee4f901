// SPDX-License-Identifier: GPL-2.0
/*
 * Endpoints: one per connection, from the first octet until siw owns it or it
 * is over.  An endpoint feeds its core machine with what happens (ops, socket,
 * timer) and carries out the actions the machine answers with.
 *
 * Everything runs under ep->lock: in the work item, or in the op that iw_cm
 * calls.  Socket callbacks and the timer only set a flag and queue the work.
 *
 * References: the first one belongs to the endpoint itself and goes in
 * finish(); a queued work item, an armed timer and a shim id hold one each.
 * An unfinished endpoint holds a module reference.
 */
#include <linux/module.h>
#include <linux/slab.h>
#include <net/ipv6.h>

#include "mpa2.h"

/* An event that iw_cm has not delivered by then was dropped by it. */
#define DELIVER_TIMEOUT_MS 60000
#define DROPPED_TIMEOUT_MS 5000
/* A fence that holds work longer than this is worth a line. */
#define LONG_HOLD_MS 1000
#define RECEIVE_CHUNK 128

struct workqueue_struct *mpa2_wq;

static void ep_feed(struct mpa2_endpoint *ep, struct mpa2_event event);

/* ---- references and wake-ups ---- */

static void endpoint_release(struct kref *ref)
{
	struct mpa2_endpoint *ep = container_of(ref, struct mpa2_endpoint, ref);

	WARN_ON(!ep->done || ep->sock || ep->qp || ep->cm_id);
	mpa2_device_put(ep->dev);
	kfree(ep);
}

void mpa2_endpoint_get(struct mpa2_endpoint *ep)
{
	kref_get(&ep->ref);
}

void mpa2_endpoint_put(struct mpa2_endpoint *ep)
{
	kref_put(&ep->ref, endpoint_release);
}

static void get_endpoint(void *ep)
{
	mpa2_endpoint_get(ep);
}

/* Context: any; the caller keeps the endpoint alive. */
static void ep_wake(struct mpa2_endpoint *ep, enum mpa2_ep_flag flag)
{
	set_bit(flag, &ep->flags);
	mpa2_endpoint_get(ep);
	if (!queue_work(mpa2_wq, &ep->work))
		mpa2_endpoint_put(ep);
}

/*
 * Our callbacks while the socket is ours.  A callback may have been fetched
 * before another one took its place, so it looks whether it is still in force.
 */
static void pending_event(struct sock *sk)
{
	struct mpa2_endpoint *ep;

	read_lock_bh(&sk->sk_callback_lock);
	ep = mpa2_tcp_user_data(sk);
	if (sk->sk_data_ready == pending_event && ep)
		ep_wake(ep, MPA2_EP_SOCKET);
	read_unlock_bh(&sk->sk_callback_lock);
}

static void no_event(struct sock *sk)
{
}

static const struct mpa2_sock_ops pending_ops = {
	.state_change = pending_event,
	.data_ready = pending_event,
	.write_space = no_event,
	.error_report = pending_event,
};

/* And while siw's cep owns the socket but the fence is closed. */
static void fence_event(struct sock *sk)
{
	struct mpa2_fence_owner *owner = NULL;

	read_lock_bh(&sk->sk_callback_lock);
	if (sk->sk_data_ready == fence_event && sk->sk_user_data)
		owner = mpa2_siw_fence_owner(sk->sk_user_data);
	if (owner)
		ep_wake(container_of(owner, struct mpa2_endpoint, fence_owner),
			MPA2_EP_SOCKET);
	read_unlock_bh(&sk->sk_callback_lock);
}

static const struct mpa2_sock_ops fence_ops = {
	.state_change = fence_event,
	.data_ready = fence_event,
	.write_space = no_event,
	.error_report = fence_event,
};

/* siw let go of the shim id; drops the reference taken for it. */
static void fence_released(struct mpa2_fence_owner *owner)
{
	struct mpa2_endpoint *ep =
		container_of(owner, struct mpa2_endpoint, fence_owner);

	ep_wake(ep, MPA2_EP_RELEASED);
	mpa2_endpoint_put(ep);
}

/* ---- the timer ---- */

static void ep_timer(struct timer_list *timer)
{
	struct mpa2_endpoint *ep = from_timer(ep, timer, timer);

	ep_wake(ep, MPA2_EP_TIMER);
	mpa2_endpoint_put(ep);
}

static void ep_arm(struct mpa2_endpoint *ep, enum mpa2_ep_timer kind,
		   unsigned int timeout_ms)
{
	ep->timer_kind = kind;
	ep->deadline = jiffies + msecs_to_jiffies(timeout_ms);
	if (!mod_timer(&ep->timer, ep->deadline))
		mpa2_endpoint_get(ep);
}

static void ep_stop_timer(struct mpa2_endpoint *ep)
{
	ep->timer_kind = MPA2_EP_NO_TIMER;
	if (timer_delete(&ep->timer))
		mpa2_endpoint_put(ep);
}

/* ---- what is said of a connection ---- */

static struct mpa2_info ep_info(struct mpa2_endpoint *ep)
{
	struct mpa2_info info;

	mpa2_conn_info(&ep->conn, &info);
	return info;
}

static void ep_log_failure(struct mpa2_endpoint *ep, int status)
{
	struct mpa2_info info = ep_info(ep);

	pr_info_ratelimited("%s: %s %pISpc, peer %pISpc: %s (%d)\n",
			    dev_name(&ep->dev->ibdev->dev),
			    ep->role == MPA2_INITIATOR ? "initiator" :
							 "responder",
			    &ep->local, &ep->remote,
			    mpa2_cause_text(info.cause), status);
}

/* One line per peer: a fleet of stock initiators must not fill the log. */
static bool first_hold_of_peer(const struct sockaddr_storage *peer)
{
	static DEFINE_SPINLOCK(lock);
	static struct in6_addr seen[64];
	static unsigned int next;
	struct in6_addr addr = {};
	unsigned int i;
	bool first = true;

	if (peer->ss_family == AF_INET)
		ipv6_addr_set_v4mapped(
			((const struct sockaddr_in *)peer)->sin_addr.s_addr,
			&addr);
	else
		addr = ((const struct sockaddr_in6 *)peer)->sin6_addr;
	spin_lock(&lock);
	for (i = 0; i < ARRAY_SIZE(seen) && first; i++)
		first = !ipv6_addr_equal(&seen[i], &addr);
	if (first)
		seen[next++ % ARRAY_SIZE(seen)] = addr;
	spin_unlock(&lock);
	return first;
}

/* The fence has been closed for a while: does it hold anything? */
static void ep_check_hold(struct mpa2_endpoint *ep)
{
	if (ep->hold_counted || !ep->up || !ep->qp ||
	    !time_after_eq(jiffies, ep->replied_at +
					    msecs_to_jiffies(LONG_HOLD_MS)) ||
	    !mpa2_siw_fence_holds_work(ep->qp))
		return;
	ep->hold_counted = true;
	atomic64_inc(&ep->dev->nr_long_holds);
	if (first_hold_of_peer(&ep->remote))
		pr_notice("%s: work posted to peer %pISpc is held: the initiator has sent nothing for %u ms (RFC 5044 lets it speak first)\n",
			  dev_name(&ep->dev->ibdev->dev), &ep->remote,
			  jiffies_to_msecs(jiffies - ep->replied_at));
}

/* ---- leaving ---- */

static void ep_leave_listener(struct mpa2_endpoint *ep)
{
	struct mpa2_listener *listener = ep->listener;

	if (!listener)
		return;
	ep->listener = NULL;
	spin_lock(&listener->lock);
	list_del_init(&ep->request_node);
	spin_unlock(&listener->lock);
	mpa2_listener_request_done(listener);
	mpa2_listener_put(listener);
}

static void ep_drop_ids(struct mpa2_endpoint *ep)
{
	struct iw_cm_id *id = ep->cm_id;
	struct ib_qp *qp = ep->qp;

	ep->cm_id = NULL;
	ep->qp = NULL;
	if (qp) {
		xa_erase(&ep->dev->pending_qps, ep->qp_num);
		ep->dev->saved.iw_rem_ref(qp);
	}
	if (id)
		id->rem_ref(id);
}

/* Whether iw_cm still has, or will have, a child id with our handle. */
static bool ep_is_owed_an_answer(const struct mpa2_endpoint *ep)
{
	return ep->raised && !ep->answered;
}

/* Everything goes but the caller's reference. */
static void ep_finish(struct mpa2_endpoint *ep)
{
	if (ep->done || ep_is_owed_an_answer(ep))
		return;
	ep->done = true;
	ep_stop_timer(ep);
	ep_leave_listener(ep);
	mpa2_owned_del(ep->handle);
	mpa2_siw_unbind(&ep->binding);
	ep_drop_ids(ep);
	spin_lock(&ep->dev->lock);
	list_del_init(&ep->node);
	spin_unlock(&ep->dev->lock);
	atomic_dec(&ep->dev->nr_pending);
	mpa2_endpoint_put(ep);
	/* The work queue and SRCU keep this code until we are out of it. */
	module_put(THIS_MODULE);
}

/*
 * The socket alone again: what siw had of it is torn down, with the QP in
 * ERROR.  Nothing to do when siw did that itself.
 */
static void ep_take_back(struct mpa2_endpoint *ep)
{
	if (!ep->up)
		return;
	ep->up = false;
	if (!ep->released)
		ep->sock = mpa2_siw_take_back(&ep->binding, ep->qp,
					      &pending_ops, ep);
	mpa2_siw_unbind(&ep->binding);
}

static struct socket *ep_take_socket(struct mpa2_endpoint *ep)
{
	struct socket *sock;

	ep_take_back(ep);
	sock = ep->sock;
	ep->sock = NULL;
	if (sock)
		mpa2_tcp_restore(sock, &ep->original);
	return sock;
}

static void ep_close(struct mpa2_endpoint *ep)
{
	struct socket *sock = ep_take_socket(ep);

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

/* ---- events to iw_cm ---- */

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

/* The one CONNECT_REPLY of a connect. */
static void ep_raise_reply(struct mpa2_endpoint *ep, int status)
{
	struct mpa2_info info = ep_info(ep);
	struct iw_cm_event event = {
		.event = IW_CM_EVENT_CONNECT_REPLY,
		.status = status,
	};

	if (WARN_ON(ep->told))
		return;
	ep->told = true;
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

static struct iw_cm_event established_event(struct mpa2_endpoint *ep,
					    int status)
{
	struct mpa2_info info = ep_info(ep);
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
		struct iw_cm_event event = established_event(ep, status);

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

static void ep_fail(struct mpa2_endpoint *ep, u32 failure)
{
	int status = failure_status(ep, failure);

	if (failure != MPA2_FAIL_ABORTED && !ep->told)
		ep_log_failure(ep, status);
	if (ep->in_op && !ep->told)
		ep->op_error = status;
	else if (!ep->cm_id || ep->silent)
		;
	else if (ep->role == MPA2_INITIATOR)
		ep_raise_reply(ep, status);
	else
		ep_raise_end(ep, established_status(status));
	ep_take_back(ep);
	ep_drop_ids(ep);
}

static void ep_raise_request(struct mpa2_endpoint *ep)
{
	struct mpa2_info info = ep_info(ep);
	struct iw_cm_event event = {
		.event = IW_CM_EVENT_CONNECT_REQUEST,
		.local_addr = ep->local,
		.remote_addr = ep->remote,
		.provider_data = ep->handle,
	};
	struct iw_cm_id *id = ep->listener->cm_id;

	set_depths(&event, &info);
	set_private_data(&event, &info);
	/* rdma_cm cannot carry more; cut data would be a lie. */
	if (info.ulp_pd_len <= U8_MAX && !id->event_handler(id, &event)) {
		ep->raised = true;
		ep_arm(ep, MPA2_EP_DELIVER_TIMER, DELIVER_TIMEOUT_MS);
		return;
	}
	ep->next = (struct mpa2_event){ .type = MPA2_EV_REJECT };
}

/* ---- actions ---- */

static int ep_open_tcp(struct mpa2_endpoint *ep)
{
	struct net_device *netdev;
	int ret;

	if (ep->sock) {
		/* The Rev 1 retry uses the same addresses again. */
		mpa2_tcp_restore(ep->sock, &ep->original);
		mpa2_tcp_reset(ep->sock);
		ep->sock = NULL;
		atomic64_inc(&ep->dev->nr_fallbacks);
	}
	netdev = mpa2_siw_netdev(ep->dev->ibdev);
	if (!netdev)
		return -ENODEV;
	ret = mpa2_tcp_socket(dev_net(netdev), &ep->local, ep->cm_id->afonly,
			      ep->cm_id->tos, ep->cm_id->tos_set, &ep->sock);
	dev_put(netdev);
	if (ret)
		return ret;
	mpa2_siw_set_lock_class(ep->sock);
	mpa2_tcp_install(ep->sock, &pending_ops, ep, &ep->original);
	ret = mpa2_tcp_bind(ep->sock, &ep->local);
	if (ret)
		return ret;
	ret = mpa2_tcp_connect(ep->sock, &ep->remote);
	if (ret && ret != -EINPROGRESS)
		return ret;
	ep_wake(ep, MPA2_EP_SOCKET);
	return 0;
}

/* The socket, wherever it is; NULL once siw has let go of it. */
static struct socket *ep_enter(struct mpa2_endpoint *ep)
{
	if (!ep->up)
		return ep->sock;
	return mpa2_siw_fence_enter(&ep->binding);
}

static void ep_leave(struct mpa2_endpoint *ep)
{
	if (ep->up)
		mpa2_siw_fence_leave(&ep->binding);
}

static int ep_send(struct mpa2_endpoint *ep, const u8 *octets, u32 len)
{
	struct socket *sock = ep_enter(ep);
	int ret;

	if (!sock)
		return -ENOTCONN;
	ret = mpa2_tcp_send(sock, octets, len);
	ep_leave(ep);
	return ret;
}

static void ep_consume(struct mpa2_endpoint *ep, u32 len)
{
	struct socket *sock = ep_enter(ep);
	u8 rtr[MPA2_RTR_MAX];

	if (!sock)
		return;
	/* They were all there when the core looked at them. */
	if (WARN_ON(len > sizeof(rtr)) ||
	    mpa2_tcp_receive(sock, rtr, len) != len)
		pr_warn_ratelimited("RTR vanished from the stream\n");
	ep_leave(ep);
}

static int ep_bind(struct mpa2_endpoint *ep)
{
	struct mpa2_info info = ep_info(ep);
	struct mpa2_handover h = {
		.qp = ep->qp,
		.cm_id = ep->cm_id,
		.sock = ep->sock,
		.original = &ep->original,
		.ird = info.local_ird,
		.ord = info.local_ord,
		.rtr = info.rtr,
		.crc = info.crc,
	};
	int ret;

	if (ep->role == MPA2_INITIATOR) {
		ret = mpa2_siw_attach_initiator(&ep->binding, &h);
	} else {
		/* One reference for siw, ours stays until the fence opens. */
		ep->dev->saved.iw_add_ref(ep->qp);
		mpa2_endpoint_get(ep);	/* for the shim id */
		ret = mpa2_siw_attach_responder(&ep->binding, &h, &fence_ops,
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
	ep_raise_reply(ep, 0);
	xa_erase(&ep->dev->pending_qps, ep->qp_num);
	ep->qp = NULL;
	mpa2_siw_finish_initiator(&ep->binding);
	ep_given_away(ep);
}

static void ep_open_fence(struct mpa2_endpoint *ep, u8 rtr)
{
	struct iw_cm_event event = established_event(ep, 0);
	int ret;

	ep_check_hold(ep);
	if (ep->wants_more) {
		struct socket *sock = ep_enter(ep);

		if (sock) {
			mpa2_tcp_want(sock, 1);
			ep_leave(ep);
		}
	}
	ret = mpa2_siw_open_fence(&ep->binding, ep->qp, ep->cm_id,
				  ep->told ? NULL : &event, rtr);
	if (ret) {
		/* siw was faster: a death like any other before the FPDU. */
		ep_fail(ep, MPA2_FAIL_RESET);
		ep_close(ep);
		return;
	}
	ep->told = true;
	mpa2_endpoint_put(ep);	/* the shim id's */
	ep_given_away(ep);
}

static void ep_responder_established(struct mpa2_endpoint *ep)
{
	struct iw_cm_event event;

	/* Raised with the fence where that came first. */
	if (ep->told || !ep->cm_id)
		return;
	event = established_event(ep, 0);
	ep->told = true;
	ep->cm_id->event_handler(ep->cm_id, &event);
	if (ep->settings.fence == MPA2_FENCE_P2P)
		ep_open_fence(ep, MPA2_RTR_NONE);
	else
		ep_arm(ep, MPA2_EP_HOLD_TIMER, LONG_HOLD_MS);
}

static void ep_shutdown(struct mpa2_endpoint *ep)
{
	ep_take_back(ep);
	if (!ep->sock) {
		ep->closed = true;
		return;
	}
	mpa2_tcp_shutdown(ep->sock);
	ep_wake(ep, MPA2_EP_SOCKET);
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
		ep_arm(ep, MPA2_EP_CORE_TIMER,
		       ep->settings.timeout_ms[act->arg]);
		break;
	case MPA2_ACT_STOP_TIMER:
		ep_stop_timer(ep);
		break;
	case MPA2_ACT_CONNECT_REQUEST:
		ep_raise_request(ep);
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
		ep_log_failure(ep, -ECONNREFUSED);
		ep_raise_reply(ep, -ECONNREFUSED);
		ep_drop_ids(ep);
		break;
	case MPA2_ACT_FAILED:
		ep_fail(ep, act->arg);
		break;
	case MPA2_ACT_SHUTDOWN:
		ep_shutdown(ep);
		break;
	case MPA2_ACT_CLOSE:
		ep_close(ep);
		break;
	case MPA2_ACT_RESET:
		ep_reset(ep);
		break;
	default:
		WARN_ONCE(1, "iw_mpa2: action %u\n", act->type);
	}
}

/*
 * Feed one event, and those that the actions bring about.  ep->lock held; the
 * endpoint may be finished afterwards.
 */
static void ep_feed(struct mpa2_endpoint *ep, struct mpa2_event event)
{
	struct mpa2_actions actions;
	u32 i;

	do {
		ep->next.type = MPA2_EV_NR;
		mpa2_conn_event(&ep->conn, &event, &actions);
		for (i = 0; i < actions.count; i++)
			ep_act(ep, &actions.list[i]);
		event = ep->next;
	} while (event.type != MPA2_EV_NR && !ep->closed);
	if (ep->closed)
		ep_finish(ep);
}

static void ep_feed_type(struct mpa2_endpoint *ep, enum mpa2_event_type type)
{
	ep_feed(ep, (struct mpa2_event){ .type = type });
}

/* ---- what the socket has to say ---- */

static void ep_tcp_progress(struct mpa2_endpoint *ep)
{
	switch (mpa2_tcp_state(ep->sock)) {
	case MPA2_TCP_CONNECTING:
		return;
	case MPA2_TCP_DOWN:
		ep->tcp_error = mpa2_tcp_error(ep->sock);
		if (ep->tcp_error == -ECONNREFUSED)
			ep->tcp_error = -ECONNRESET;
		ep_feed_type(ep, MPA2_EV_CONNECT_FAILED);
		return;
	default:
		/* Tell the socket layer, too, that it is connected. */
		mpa2_tcp_connect(ep->sock, &ep->remote);
		ep_feed_type(ep, MPA2_EV_CONNECTED);
	}
}

/* Octets of a Request or Reply; false when there is nothing to do for now. */
static bool ep_read_frame(struct mpa2_endpoint *ep)
{
	u32 wanted = mpa2_conn_wanted(&ep->conn);
	struct mpa2_event event = { .type = MPA2_EV_OCTETS };
	u8 octets[RECEIVE_CHUNK];
	int ret;

	if (!wanted)
		return false;
	ret = mpa2_tcp_receive(ep->sock, octets,
			       min_t(u32, wanted, sizeof(octets)));
	if (ret == -EAGAIN)
		return false;
	if (ret == 0) {
		ep_feed_type(ep, MPA2_EV_EOF);
	} else if (ret < 0) {
		ep_feed_type(ep, MPA2_EV_RESET);
	} else {
		event.octets = octets;
		event.octets_len = ret;
		event.more_queued = ep->role == MPA2_RESPONDER &&
				    mpa2_tcp_queued(ep->sock);
		ep_feed(ep, event);
	}
	return true;
}

/* While the ULP decides nothing legal can come (AMB-19), only an end. */
static void ep_watch_for_end(struct mpa2_endpoint *ep)
{
	enum mpa2_tcp_state state;

	if (ep->input_seen || !ep->sock)
		return;
	state = mpa2_tcp_state(ep->sock);
	if (state == MPA2_TCP_UP && !mpa2_tcp_queued(ep->sock))
		return;
	ep->input_seen = true;
	ep_feed_type(ep, state == MPA2_TCP_DOWN ? MPA2_EV_RESET : MPA2_EV_EOF);
}

/*
 * Look at the first FPDU without taking it.  Returns octets seen, 0 at the
 * peer's FIN, or -errno; -EAGAIN while the whole FPDU is not there yet.
 */
static int ep_peek_fpdu(struct mpa2_endpoint *ep, struct socket *sock, u8 *octets,
			u32 wanted)
{
	int ret = mpa2_tcp_peek(sock, octets, wanted);

	if (ret <= 0 || ret >= wanted)
		return ret;
	/* A part, and nothing will follow it. */
	if (mpa2_tcp_state(sock) != MPA2_TCP_UP)
		return mpa2_tcp_state(sock) == MPA2_TCP_DOWN ? -ECONNRESET : 0;
	return -EAGAIN;
}

static bool ep_read_fpdu(struct mpa2_endpoint *ep)
{
	u32 wanted = mpa2_conn_wanted(&ep->conn);
	struct mpa2_event event = { .type = MPA2_EV_FPDU };
	u8 small[MPA2_RTR_MAX], *octets = small;
	struct socket *sock;
	int ret;

	if (!wanted)
		return false;
	sock = ep_enter(ep);
	if (!sock)
		return false;	/* MPA2_EP_RELEASED follows */
	if (wanted > sizeof(small)) {
		/* Bounded by MPA2_FPDU_MAX, and only once it is all there. */
		ep->wants_more = true;
		mpa2_tcp_want(sock, wanted);
		if (mpa2_tcp_queued(sock) >= wanted) {
			octets = kvmalloc(wanted, GFP_KERNEL);
			ret = octets ? ep_peek_fpdu(ep, sock, octets, wanted) :
				       -ENOMEM;
		} else {
			ret = mpa2_tcp_state(sock) == MPA2_TCP_UP ? -EAGAIN : 0;
		}
	} else {
		ret = ep_peek_fpdu(ep, sock, octets, wanted);
	}
	ep_leave(ep);

	if (ret == 0) {
		ep_feed_type(ep, MPA2_EV_EOF);
	} else if (ret == -ENOMEM) {
		ep_feed_type(ep, MPA2_EV_LOCAL_FAILURE);
	} else if (ret < 0 && ret != -EAGAIN) {
		ep_feed_type(ep, MPA2_EV_RESET);
	} else if (ret > 0) {
		event.octets = octets;
		event.octets_len = ret;
		ep_feed(ep, event);
	}
	if (octets != small)
		kvfree(octets);
	return ret != -EAGAIN;
}

static void ep_discard(struct mpa2_endpoint *ep)
{
	if (ep->sock && mpa2_tcp_discard(ep->sock) != -EAGAIN)
		ep_feed_type(ep, MPA2_EV_EOF);
}

static void ep_socket(struct mpa2_endpoint *ep)
{
	bool again = true;

	while (again && !ep->closed) {
		u8 state = ep_info(ep).state;

		again = false;
		switch (state) {
		case MPA2_ST_TCP:
			ep_tcp_progress(ep);
			again = ep_info(ep).state != MPA2_ST_TCP;
			break;
		case MPA2_ST_W_HDR:
		case MPA2_ST_W_PD:
			again = ep_read_frame(ep);
			break;
		case MPA2_ST_ULP:
			ep_watch_for_end(ep);
			break;
		case MPA2_ST_W_FPDU:
			again = ep_read_fpdu(ep);
			break;
		case MPA2_ST_REJ:
		case MPA2_ST_TERM:
			ep_discard(ep);
			break;
		}
	}
}

static void ep_timeout(struct mpa2_endpoint *ep)
{
	enum mpa2_ep_timer kind = ep->timer_kind;

	if (kind == MPA2_EP_NO_TIMER || time_before(jiffies, ep->deadline))
		return;	/* stopped or armed again since */
	ep->timer_kind = MPA2_EP_NO_TIMER;
	switch (kind) {
	case MPA2_EP_CORE_TIMER:
		if (ep->up)
			ep_check_hold(ep);
		ep_feed_type(ep, MPA2_EV_TIMER);
		break;
	case MPA2_EP_DELIVER_TIMER:
		/* iw_cm has dropped the request: nobody will answer it. */
		ep->answered = true;
		ep_feed_type(ep, MPA2_EV_ABORT);
		break;
	case MPA2_EP_HOLD_TIMER:
		ep_check_hold(ep);
		if (!ep->hold_counted)
			ep_arm(ep, MPA2_EP_HOLD_TIMER, LONG_HOLD_MS);
		break;
	default:
		break;
	}
}

static void ep_abort(struct mpa2_endpoint *ep)
{
	ep_feed_type(ep, MPA2_EV_ABORT);
	/* A request that iw_cm may never deliver is not waited for long. */
	if (!ep->done && ep->raised && !ep->delivered)
		ep_arm(ep, MPA2_EP_DELIVER_TIMER, DROPPED_TIMEOUT_MS);
}

static void ep_work(struct work_struct *work)
{
	struct mpa2_endpoint *ep =
		container_of(work, struct mpa2_endpoint, work);

	mutex_lock(&ep->lock);
	if (test_and_clear_bit(MPA2_EP_RELEASED, &ep->flags) && ep->up) {
		ep->released = true;
		ep_abort(ep);
	}
	if (test_and_clear_bit(MPA2_EP_ABORT, &ep->flags) && !ep->closed)
		ep_abort(ep);
	if (test_and_clear_bit(MPA2_EP_TIMER, &ep->flags) && !ep->done)
		ep_timeout(ep);
	clear_bit(MPA2_EP_SOCKET, &ep->flags);
	if (!ep->closed)
		ep_socket(ep);
	mutex_unlock(&ep->lock);
	mpa2_endpoint_put(ep);
}

/* ---- beginnings ---- */

static struct mpa2_endpoint *endpoint_alloc(struct mpa2_device *dev,
					    enum mpa2_role role,
					    const struct mpa2_settings *settings)
{
	struct mpa2_endpoint *ep = kzalloc(sizeof(*ep), GFP_KERNEL);
	struct mpa2_policy policy = settings->policy;

	if (!ep)
		return NULL;
	kref_init(&ep->ref);
	ep->dev = mpa2_device_get(dev);
	INIT_LIST_HEAD(&ep->node);
	INIT_LIST_HEAD(&ep->request_node);
	INIT_WORK(&ep->work, ep_work);
	timer_setup(&ep->timer, ep_timer, 0);
	mutex_init(&ep->lock);
	ep->settings = *settings;
	ep->role = role;
	ep->fence_owner.released = fence_released;

	policy.cap_ird = mpa2_device_cap_ird(dev);
	policy.cap_ord = mpa2_device_cap_ord(dev);
	mpa2_conn_init(&ep->conn, role, &policy);

	spin_lock(&dev->lock);
	list_add_tail(&ep->node, &dev->endpoints);
	spin_unlock(&dev->lock);
	atomic_inc(&dev->nr_pending);
	return ep;
}

/* An endpoint that never began: the module reference stays the caller's. */
static void endpoint_discard(struct mpa2_endpoint *ep)
{
	__module_get(THIS_MODULE);
	mutex_lock(&ep->lock);
	ep->closed = true;
	ep_finish(ep);
	mutex_unlock(&ep->lock);
	mpa2_endpoint_put(ep);
}

/* Tie a QP to its one pending endpoint; takes a reference of its own. */
static int ep_use_qp(struct mpa2_endpoint *ep, u32 qpn)
{
	struct mpa2_device *dev = ep->dev;
	struct ib_qp *qp;
	int ret;

	/* iw_cm holds a reference for the length of this call. */
	qp = dev->saved.iw_get_qp(dev->ibdev, qpn);
	if (!qp)
		return -EINVAL;
	ret = mpa2_siw_check_qp(qp);
	if (ret)
		return ret;
	ret = xa_insert(&dev->pending_qps, qpn, ep, GFP_KERNEL);
	if (ret)
		return ret == -EBUSY ? -EINVAL : ret;
	dev->saved.iw_add_ref(qp);
	ep->qp = qp;
	ep->qp_num = qpn;
	return 0;
}

static void ep_use_id(struct mpa2_endpoint *ep, struct iw_cm_id *id)
{
	id->add_ref(id);
	ep->cm_id = id;
}

/**
 * mpa2_endpoint_connect() - iw_connect
 * @dev: the device
 * @id: the id; a reference is taken
 * @param: depths, private data and QP number
 *
 * Never waits for the network.  Context: may sleep.  On success the caller's
 * module reference goes to the endpoint.
 * Return: 0 and then exactly one CONNECT_REPLY, or -errno and no event.
 */
int mpa2_endpoint_connect(struct mpa2_device *dev, struct iw_cm_id *id,
			  struct iw_cm_conn_param *param)
{
	struct mpa2_event event = {
		.type = MPA2_EV_START,
		.ulp_ird = param->ird,
		.ulp_ord = param->ord,
		.ulp_pd = param->private_data,
		.ulp_pd_len = param->private_data_len,
	};
	struct mpa2_settings settings;
	struct mpa2_endpoint *ep;
	int ret;

	if (param->private_data_len > MPA2_PD_MAX - MPA2_ENHANCED_LEN)
		return -EINVAL;
	if (param->ird > mpa2_device_cap_ird(dev) ||
	    param->ord > mpa2_device_cap_ord(dev))
		return -ENOMEM;	/* what stock siw says */
	mpa2_settings_get(&settings);
	ep = endpoint_alloc(dev, MPA2_INITIATOR, &settings);
	if (!ep)
		return -ENOMEM;
	ret = ep_use_qp(ep, param->qpn);
	if (ret) {
		mpa2_endpoint_get(ep);
		endpoint_discard(ep);
		return ret;
	}
	ep_use_id(ep, id);
	ep->local = id->local_addr;	/* siw uses no port mapper on its side */
	ep->remote = id->m_remote_addr;

	mpa2_endpoint_get(ep);
	__module_get(THIS_MODULE);	/* ep_finish() drops one */
	mutex_lock(&ep->lock);
	ep->in_op = true;
	ep_feed(ep, event);
	ep->in_op = false;
	ret = ep->op_error;
	if (ret && !ep->done) {
		ep_close(ep);
		ep_finish(ep);
	}
	mutex_unlock(&ep->lock);
	mpa2_endpoint_put(ep);
	if (!ret)
		module_put(THIS_MODULE);
	return ret;
}

/**
 * mpa2_endpoint_passive() - an endpoint for a connection that was accepted
 * @listener: where it came in; its room for one request is taken
 * @sock: the connection; the endpoint's on success
 *
 * Context: the listener's work item.
 * Return: the endpoint, without a reference, or NULL.
 */
struct mpa2_endpoint *mpa2_endpoint_passive(struct mpa2_listener *listener,
					    struct socket *sock)
{
	struct mpa2_settings settings;
	struct mpa2_endpoint *ep;
	bool closing;

	mpa2_settings_get(&settings);
	ep = endpoint_alloc(listener->dev, MPA2_RESPONDER, &settings);
	if (!ep)
		return NULL;
	mpa2_endpoint_get(ep);
	/* The listener holds one for itself as long as its work can run. */
	__module_get(THIS_MODULE);
	mutex_lock(&ep->lock);
	ep->cm_handler = listener->cm_handler;
	ep->original = listener->original;
	mpa2_tcp_addresses(sock, &ep->local, &ep->remote);
	ep->handle = mpa2_owned_add(ep);

	spin_lock(&listener->lock);
	closing = listener->closing;
	if (!closing && ep->handle) {
		list_add_tail(&ep->request_node, &listener->requests);
		mpa2_listener_get(listener);
		ep->listener = listener;
	}
	spin_unlock(&listener->lock);
	if (!ep->listener) {
		ep->closed = true;
		ep_finish(ep);
		mutex_unlock(&ep->lock);
		mpa2_endpoint_put(ep);
		return NULL;
	}
	ep->sock = sock;
	mpa2_tcp_prepare(sock);
	mpa2_tcp_install(sock, &pending_ops, ep, NULL);
	ep_feed_type(ep, MPA2_EV_CONNECTED);
	/* What came before our callbacks has to be seen, too. */
	ep_wake(ep, MPA2_EP_SOCKET);
	mutex_unlock(&ep->lock);
	mpa2_endpoint_put(ep);
	return ep;
}

/**
 * mpa2_endpoint_deliver() - iw_cm delivers a CONNECT_REQUEST
 * @child: the new id
 * @event: the event, whose provider_data is our handle
 *
 * Context: iw_cm's work queue.
 * Return: what rdma_cm's handler says; -ECONNRESET when the request is gone,
 * which makes iw_cm reject and destroy the child.
 */
int mpa2_endpoint_deliver(struct iw_cm_id *child, struct iw_cm_event *event)
{
	int idx = mpa2_srcu_enter(), ret = -ECONNRESET;
	iw_cm_handler handler = NULL;
	struct mpa2_endpoint *ep;

	ep = mpa2_owned_find(event->provider_data, get_endpoint);
	if (ep) {
		mutex_lock(&ep->lock);
		if (ep->raised && !ep->answered) {
			ep->delivered = true;
			ep_stop_timer(ep);
			ep_leave_listener(ep);
			handler = ep->cm_handler;
		}
		mutex_unlock(&ep->lock);
		mpa2_endpoint_put(ep);
	}
	if (handler) {
		child->cm_handler = handler;
		ret = handler(child, event);
	}
	mpa2_srcu_leave(idx);
	return ret;
}

/* The ULP answers: from here the child id is done with our handle. */
static bool ep_take_answer(struct mpa2_endpoint *ep)
{
	if (ep->answered)
		return false;
	ep->answered = true;
	ep_stop_timer(ep);
	ep_leave_listener(ep);
	if (ep->closed) {
		ep_finish(ep);
		return false;
	}
	return true;
}

/* A second answer to one request: silently the end, or iw_cm would BUG(). */
static int ep_second_accept(struct mpa2_endpoint *ep)
{
	if (ep->done)
		return -ECONNRESET;
	/* ESTABLISHED is on its way: an error now would make it illegal. */
	if (ep->told)
		return 0;
	ep->silent = true;
	ep_abort(ep);
	return -EINVAL;
}

static int ep_accept(struct mpa2_endpoint *ep, struct iw_cm_id *id,
		     struct iw_cm_conn_param *param)
{
	struct mpa2_event event = {
		.type = MPA2_EV_ACCEPT,
		.ulp_ird = param->ird,
		.ulp_ord = param->ord,
		.ulp_pd = param->private_data,
		.ulp_pd_len = param->private_data_len,
	};
	u32 room = MPA2_PD_MAX - (ep_info(ep).enhanced ? MPA2_ENHANCED_LEN : 0);
	struct mpa2_info info;
	int ret = 0;

	ep_watch_for_end(ep);
	if (param->private_data_len > room ||
	    param->ird > mpa2_device_cap_ird(ep->dev) ||
	    param->ord > mpa2_device_cap_ord(ep->dev))
		ret = -EINVAL;
	if (!ret)
		ret = ep_use_qp(ep, param->qpn);
	if (ret) {
		/* iw_cm sends no reject for us: the request ends here. */
		ep_feed_type(ep, MPA2_EV_ABORT);
		return ret;
	}
	ep_use_id(ep, id);
	ep->in_op = true;
	ep->op_error = -ECONNREFUSED;	/* unless the machine accepts */
	ep->replied_at = jiffies;
	mpa2_endpoint_get(ep);
	ep_feed(ep, event);
	ep->in_op = false;
	info = ep_info(ep);
	if (ep->up || ep->told) {
		ret = 0;
		param->ird = info.local_ird;
		param->ord = info.local_ord;
		if (!ep->closed)
			ep_wake(ep, MPA2_EP_SOCKET);
	} else {
		ret = ep->op_error;
		ep_drop_ids(ep);
	}
	mpa2_endpoint_put(ep);
	return ret;
}

/**
 * mpa2_endpoint_accept() - iw_accept
 * @dev: the device
 * @id: the child id; a reference is taken
 * @param: depths, private data, QP number; depths are set to the negotiated
 *
 * Context: may sleep; waits for no event of iw_cm and not for the network.
 * Return: 0 and then exactly one ESTABLISHED, or -errno and no event.
 */
int mpa2_endpoint_accept(struct mpa2_device *dev, struct iw_cm_id *id,
			 struct iw_cm_conn_param *param)
{
	struct mpa2_endpoint *ep =
		mpa2_owned_find(id->provider_data, get_endpoint);
	int ret = -ECONNRESET;

	if (!ep)
		return ret;
	mutex_lock(&ep->lock);
	if (ep->answered)
		ret = ep_second_accept(ep);
	else if (ep_take_answer(ep))
		ret = ep_accept(ep, id, param);
	mutex_unlock(&ep->lock);
	mpa2_endpoint_put(ep);
	return ret;
}

/**
 * mpa2_endpoint_reject() - iw_reject
 * @id: the child id
 * @pd: the ULP's private data
 * @pd_len: its octets
 *
 * May come after an accept that succeeded; then it is silently the end.
 *
 * Context: may sleep.  No event follows.
 * Return: 0, or -ECONNRESET if there was nothing left to reject.
 */
int mpa2_endpoint_reject(struct iw_cm_id *id, const void *pd, u8 pd_len)
{
	struct mpa2_endpoint *ep =
		mpa2_owned_find(id->provider_data, get_endpoint);
	struct mpa2_event event = {
		.type = MPA2_EV_REJECT,
		.ulp_pd = pd,
		.ulp_pd_len = pd_len,
	};
	int ret = -ECONNRESET;

	if (!ep)
		return ret;
	mutex_lock(&ep->lock);
	if (ep->answered) {
		if (!ep->done) {
			ep->silent = true;
			ep_abort(ep);
		}
	} else if (ep_take_answer(ep)) {
		ep_feed(ep, event);
		ret = 0;
	}
	mutex_unlock(&ep->lock);
	mpa2_endpoint_put(ep);
	return ret;
}

/* ---- ends from outside ---- */

static struct mpa2_endpoint *find_by_qp(struct mpa2_device *dev,
					struct ib_qp *qp)
{
	struct mpa2_endpoint *ep;

	xa_lock(&dev->pending_qps);
	ep = xa_load(&dev->pending_qps, qp->qp_num);
	if (ep)
		mpa2_endpoint_get(ep);
	xa_unlock(&dev->pending_qps);
	return ep;
}

/**
 * mpa2_endpoint_abort_qp() - a QP is destroyed or moved to ERROR
 * @dev: its device
 * @qp: the QP
 *
 * Ends its handshake at once: siw would wait for our QP reference.  Behind a
 * closed fence siw tears the connection down itself and tells us.
 *
 * Context: may sleep.
 */
void mpa2_endpoint_abort_qp(struct mpa2_device *dev, struct ib_qp *qp)
{
	struct mpa2_endpoint *ep = find_by_qp(dev, qp);

	if (!ep)
		return;
	mutex_lock(&ep->lock);
	if (!ep->closed && !ep->up && ep->qp == qp)
		ep_abort(ep);
	mutex_unlock(&ep->lock);
	mpa2_endpoint_put(ep);
}

/* The listener goes: waits until the endpoint cannot raise a request. */
void mpa2_endpoint_abort(struct mpa2_endpoint *ep)
{
	mutex_lock(&ep->lock);
	if (!ep->done)
		ep_abort(ep);
	mutex_unlock(&ep->lock);
}

/* The device goes: every pending endpoint gets its one final event. */
void mpa2_endpoint_abort_all(struct mpa2_device *dev)
{
	struct mpa2_endpoint *ep;

	spin_lock(&dev->lock);
	list_for_each_entry(ep, &dev->endpoints, node)
		ep_wake(ep, MPA2_EP_ABORT);
	spin_unlock(&dev->lock);
}
