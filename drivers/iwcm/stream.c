// SPDX-License-Identifier: GPL-2.0
/* What an endpoint's socket has to say: callbacks, octets, ends. */
#include <linux/module.h>
#include <linux/slab.h>

#include "endpoint.h"

#define RECEIVE_CHUNK 128

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
		mpa2_ep_wake(ep, MPA2_EP_SOCKET);
	read_unlock_bh(&sk->sk_callback_lock);
}

static void no_event(struct sock *sk)
{
}

const struct mpa2_sock_ops mpa2_pending_ops = {
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
		owner = mpa2_siw_fence_owner(sk);
	if (owner)
		mpa2_ep_wake(container_of(owner, struct mpa2_endpoint, fence_owner),
			     MPA2_EP_SOCKET);
	read_unlock_bh(&sk->sk_callback_lock);
}

const struct mpa2_sock_ops mpa2_fence_ops = {
	.state_change = fence_event,
	.data_ready = fence_event,
	.write_space = no_event,
	.error_report = fence_event,
};

static void ep_tcp_progress(struct mpa2_endpoint *ep)
{
	switch (mpa2_tcp_state(ep->sock)) {
	case MPA2_TCP_CONNECTING:
		return;
	case MPA2_TCP_DOWN:
		ep->tcp_error = mpa2_tcp_error(ep->sock);
		if (ep->tcp_error == -ECONNREFUSED)
			ep->tcp_error = -ECONNRESET;
		mpa2_ep_feed_type(ep, MPA2_EV_CONNECT_FAILED);
		return;
	default:
		/* Tell the socket layer, too, that it is connected. */
		mpa2_tcp_connect(ep->sock, &ep->remote);
		mpa2_ep_feed_type(ep, MPA2_EV_CONNECTED);
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
		mpa2_ep_feed_type(ep, MPA2_EV_EOF);
	} else if (ret < 0) {
		mpa2_ep_feed_type(ep, MPA2_EV_RESET);
	} else {
		event.octets = octets;
		event.octets_len = ret;
		event.more_queued = ep->role == MPA2_RESPONDER &&
				    mpa2_tcp_queued(ep->sock);
		mpa2_ep_feed(ep, event);
	}
	return true;
}

/**
 * mpa2_ep_watch_for_end() - while the ULP decides only an end can come
 * @ep: the endpoint
 *
 * Nothing legal can come in that state (AMB-19).
 *
 * Context: may sleep, ep->lock held.
 */
void mpa2_ep_watch_for_end(struct mpa2_endpoint *ep)
{
	enum mpa2_tcp_state state;

	lockdep_assert_held(&ep->lock);
	if (ep->input_seen || !ep->sock)
		return;
	state = mpa2_tcp_state(ep->sock);
	if (state == MPA2_TCP_UP && !mpa2_tcp_queued(ep->sock))
		return;
	ep->input_seen = true;
	mpa2_ep_feed_type(ep, state == MPA2_TCP_DOWN ? MPA2_EV_RESET : MPA2_EV_EOF);
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
	sock = mpa2_ep_enter(ep);
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
	mpa2_ep_leave(ep);

	if (ret == 0) {
		mpa2_ep_feed_type(ep, MPA2_EV_EOF);
	} else if (ret == -ENOMEM) {
		mpa2_ep_feed_type(ep, MPA2_EV_LOCAL_FAILURE);
	} else if (ret < 0 && ret != -EAGAIN) {
		mpa2_ep_feed_type(ep, MPA2_EV_RESET);
	} else if (ret > 0) {
		event.octets = octets;
		event.octets_len = ret;
		mpa2_ep_feed(ep, event);
	}
	if (octets != small)
		kvfree(octets);
	return ret != -EAGAIN;
}

static void ep_discard(struct mpa2_endpoint *ep)
{
	if (ep->sock && mpa2_tcp_discard(ep->sock) != -EAGAIN)
		mpa2_ep_feed_type(ep, MPA2_EV_EOF);
}

/**
 * mpa2_ep_socket() - take from the socket what it has for this state
 * @ep: the endpoint; may be finished afterwards
 *
 * Context: may sleep, ep->lock held.
 */
void mpa2_ep_socket(struct mpa2_endpoint *ep)
{
	bool again = true;

	lockdep_assert_held(&ep->lock);
	while (again && !ep->closed) {
		u8 state = mpa2_ep_info(ep).state;

		again = false;
		switch (state) {
		case MPA2_ST_TCP:
			ep_tcp_progress(ep);
			again = mpa2_ep_info(ep).state != MPA2_ST_TCP;
			break;
		case MPA2_ST_W_HDR:
		case MPA2_ST_W_PD:
			again = ep_read_frame(ep);
			break;
		case MPA2_ST_ULP:
			mpa2_ep_watch_for_end(ep);
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
