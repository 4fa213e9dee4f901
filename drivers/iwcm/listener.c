// SPDX-License-Identifier: GPL-2.0
/*
 * Listeners: one TCP socket each, accepted from by a work item.
 *
 * A Request that is complete becomes a CONNECT_REQUEST event.  iw_cm may drop
 * that event silently (the listener is being destroyed, no memory), so our own
 * cm_handler stands before rdma_cm's to see whether it was delivered: what was
 * not is closed with the listener, what was belongs to the ULP, which answers.
 *
 * Two bounds.  At most max_pending connections of a device are on their way to
 * ESTABLISHED, and at most a backlog of Requests of a listener on their way to
 * the ULP.  Beyond either the listener stops accepting: the rest waits in TCP's
 * backlog, and nobody is accepted only to be closed.  Connections that became
 * Requests meanwhile wait for their turn.
 */
#include <linux/module.h>
#include <linux/slab.h>
#include <net/ipv6.h>

#include "endpoint.h"

/* After an accept for which there was no memory. */
#define ACCEPT_AGAIN_MS 100

static void listener_release(struct kref *ref)
{
	struct mpa2_listener *listener =
		container_of(ref, struct mpa2_listener, ref);

	mpa2_device_put(listener->dev);
	kfree(listener);
}

/**
 * mpa2_listener_get() - take a reference
 * @listener: one that the caller has a reference on, or finds under a lock
 *
 * Context: any.
 */
void mpa2_listener_get(struct mpa2_listener *listener)
{
	kref_get(&listener->ref);
}

/**
 * mpa2_listener_put() - drop a reference
 * @listener: the listener; the last one frees it
 *
 * Context: any.
 */
void mpa2_listener_put(struct mpa2_listener *listener)
{
	kref_put(&listener->ref, listener_release);
}

static void get_listener(void *listener)
{
	mpa2_listener_get(listener);
}

static void queue_accept(struct mpa2_listener *listener)
{
	mpa2_listener_get(listener);
	if (mod_delayed_work(mpa2_wq, &listener->work, 0))
		mpa2_listener_put(listener);
}

/* TCP keeps the connection and will not tell us of it again. */
static void queue_accept_later(struct mpa2_listener *listener)
{
	mpa2_listener_get(listener);
	if (!queue_delayed_work(mpa2_wq, &listener->work,
				msecs_to_jiffies(ACCEPT_AGAIN_MS)))
		mpa2_listener_put(listener);
}

/*
 * On the listening socket: a child is ready.  A child inherits the callback
 * but not the pointer, until its endpoint has its own.
 */
static void listener_data_ready(struct sock *sk)
{
	struct mpa2_listener *listener;

	read_lock_bh(&sk->sk_callback_lock);
	listener = mpa2_tcp_user_data(sk);
	if (listener && sk->sk_state == TCP_LISTEN)
		queue_accept(listener);
	read_unlock_bh(&sk->sk_callback_lock);
}

static void listener_quiet(struct sock *sk)
{
}

static const struct mpa2_sock_ops listener_ops = {
	.state_change = listener_quiet,
	.data_ready = listener_data_ready,
	.write_space = listener_quiet,
	.error_report = listener_quiet,
};

/* Context: process; listener->lock held, so that no closing one gets starved. */
static bool device_room_take(struct mpa2_listener *listener)
{
	struct mpa2_device *dev = listener->dev;
	bool room;

	lockdep_assert_held(&listener->lock);
	spin_lock(&dev->lock);
	room = dev->nr_passive < mpa2_max_pending();
	if (room)
		dev->nr_passive++;
	else if (list_empty(&listener->starved_node))
		list_add_tail(&listener->starved_node, &dev->starved);
	spin_unlock(&dev->lock);
	return room;
}

/* The one that has waited longest for room looks what TCP has for it. */
static void wake_starved(struct mpa2_device *dev)
{
	struct mpa2_listener *next =
		list_first_entry_or_null(&dev->starved, struct mpa2_listener,
					 starved_node);

	lockdep_assert_held(&dev->lock);
	if (!next)
		return;
	list_del_init(&next->starved_node);
	queue_accept(next);
}

/* A listener is done, and may have left room that it was woken for. */
static void pass_room_on(struct mpa2_device *dev)
{
	spin_lock(&dev->lock);
	if (dev->nr_passive < mpa2_max_pending())
		wake_starved(dev);
	spin_unlock(&dev->lock);
}

/**
 * mpa2_listener_room_put() - a connection no longer counts to max_pending
 * @dev: its device
 *
 * The listener that has waited longest gets it, and gives it back, and so on to
 * the next one, when TCP has nothing for it.
 *
 * Context: process.
 */
void mpa2_listener_room_put(struct mpa2_device *dev)
{
	spin_lock(&dev->lock);
	dev->nr_passive--;
	wake_starved(dev);
	spin_unlock(&dev->lock);
}

static bool take_room(struct mpa2_listener *listener)
{
	bool room;

	spin_lock(&listener->lock);
	room = !listener->closing && listener->nr_ready < listener->backlog &&
	       device_room_take(listener);
	spin_unlock(&listener->lock);
	return room;
}

/**
 * mpa2_listener_take_turn() - may a Request be raised now?
 * @ep: the endpoint, whose Request is complete
 *
 * Context: process, ep->lock held.
 * Return: true, or false: MPA2_EP_TURN will say when.
 */
bool mpa2_listener_take_turn(struct mpa2_endpoint *ep)
{
	struct mpa2_listener *listener = ep->listener;
	bool turn;

	lockdep_assert_held(&ep->lock);
	spin_lock(&listener->lock);
	if (!ep->ready) {
		ep->ready = true;
		listener->nr_ready++;
		ep->turn = listener->nr_raised < listener->backlog;
		if (ep->turn)
			listener->nr_raised++;
		else
			list_add_tail(&ep->turn_node, &listener->waiting);
	}
	turn = ep->turn;
	spin_unlock(&listener->lock);
	return turn;
}

/* listener->lock held: the turn of one goes to the next. */
static void give_turn(struct mpa2_listener *listener)
{
	struct mpa2_endpoint *next =
		list_first_entry_or_null(&listener->waiting,
					 struct mpa2_endpoint, turn_node);

	lockdep_assert_held(&listener->lock);
	if (!next) {
		listener->nr_raised--;
		return;
	}
	list_del_init(&next->turn_node);
	next->turn = true;
	mpa2_ep_wake(next, MPA2_EP_TURN);
}

/**
 * mpa2_listener_leave() - the listener has nothing to do with it any more
 * @ep: an endpoint whose Request is delivered, or that is over
 *
 * Context: process, ep->lock held.
 */
void mpa2_listener_leave(struct mpa2_endpoint *ep)
{
	struct mpa2_listener *listener = ep->listener;

	lockdep_assert_held(&ep->lock);
	if (!listener)
		return;
	ep->listener = NULL;
	spin_lock(&listener->lock);
	list_del_init(&ep->request_node);
	listener->nr_requests--;
	list_del_init(&ep->turn_node);
	if (ep->ready) {
		listener->nr_ready--;
		if (!listener->closing)
			queue_accept(listener);
	}
	if (ep->turn)
		give_turn(listener);
	spin_unlock(&listener->lock);
	mpa2_listener_put(listener);
}

static bool accept_one(struct mpa2_listener *listener)
{
	struct socket *sock;
	int ret;

	if (!take_room(listener))
		return false;
	ret = mpa2_tcp_accept(listener->sock, &sock);
	if (ret) {
		mpa2_listener_room_put(listener->dev);
		if (ret == -ENOMEM || ret == -ENFILE || ret == -ENOBUFS)
			queue_accept_later(listener);
		return false;
	}
	if (!mpa2_endpoint_passive(listener, sock)) {
		mpa2_tcp_restore(sock, &listener->original);
		mpa2_tcp_reset(sock);
		mpa2_listener_room_put(listener->dev);
	}
	return true;
}

static void listener_work(struct work_struct *work)
{
	struct mpa2_listener *listener =
		container_of(to_delayed_work(work), struct mpa2_listener, work);

	while (accept_one(listener))
		cond_resched();
	pass_room_on(listener->dev);
	mpa2_listener_put(listener);
}

/* Instead of rdma_cm's handler on the listening id; see the top. */
static int listener_cm_handler(struct iw_cm_id *child,
			       struct iw_cm_event *event)
{
	return mpa2_endpoint_deliver(child, event);
}

static int wildcard_ifindex(struct mpa2_listener *listener,
			    struct net_device *netdev)
{
	const struct sockaddr_storage *addr = &listener->cm_id->local_addr;

	if (addr->ss_family == AF_INET)
		return ((const struct sockaddr_in *)addr)->sin_addr.s_addr ==
				       htonl(INADDR_ANY) ?
			       netdev->ifindex :
			       0;
	return ipv6_addr_any(&((const struct sockaddr_in6 *)addr)->sin6_addr) ?
		       netdev->ifindex :
		       0;
}

static int listener_open(struct mpa2_listener *listener)
{
	struct iw_cm_id *id = listener->cm_id;
	struct net_device *netdev = mpa2_siw_netdev(id->device);
	int ret;

	if (!netdev)
		return -ENODEV;
	ret = mpa2_tcp_socket(dev_net(netdev), &id->local_addr, id->afonly,
			      id->tos, id->tos_set, &listener->sock);
	if (ret)
		goto put_netdev;
	mpa2_tcp_keep_to(listener->sock, wildcard_ifindex(listener, netdev));
	ret = mpa2_tcp_bind(listener->sock, &id->local_addr);
	if (ret)
		goto release;
	mpa2_tcp_install(listener->sock, &listener_ops, listener,
			 &listener->original);
	ret = mpa2_tcp_listen(listener->sock, listener->backlog);
	if (!ret)
		goto put_netdev;
	mpa2_tcp_restore(listener->sock, &listener->original);
release:
	sock_release(listener->sock);
put_netdev:
	dev_put(netdev);
	return ret;
}

/**
 * mpa2_listener_create() - iw_create_listen
 * @dev: the device
 * @id: the listening id; gets our handle as provider_data
 * @backlog: Requests that may wait for their delivery; 0 counts as 1
 *
 * Context: may sleep.  The caller's module reference goes to the listener.
 * Return: 0 or -errno.
 */
int mpa2_listener_create(struct mpa2_device *dev, struct iw_cm_id *id,
			 int backlog)
{
	struct mpa2_listener *listener;
	int ret;

	listener = kzalloc(sizeof(*listener), GFP_KERNEL);
	if (!listener)
		return -ENOMEM;
	kref_init(&listener->ref);
	listener->dev = mpa2_device_get(dev);
	listener->cm_id = id;
	listener->cm_handler = id->cm_handler;
	listener->backlog = max(backlog, 1);
	get_task_comm(listener->comm, current);
	INIT_DELAYED_WORK(&listener->work, listener_work);
	spin_lock_init(&listener->lock);
	INIT_LIST_HEAD(&listener->requests);
	INIT_LIST_HEAD(&listener->waiting);
	INIT_LIST_HEAD(&listener->starved_node);

	listener->handle = mpa2_owned_add(listener);
	if (!listener->handle) {
		ret = -ENOMEM;
		goto put;
	}
	id->add_ref(id);
	mpa2_options_listen(id, &listener->choice);
	id->cm_handler = listener_cm_handler;
	ret = listener_open(listener);
	if (ret)
		goto del;
	id->provider_data = listener->handle;
	spin_lock(&dev->lock);
	list_add_tail(&listener->node, &dev->listeners);
	spin_unlock(&dev->lock);
	queue_accept(listener);
	return 0;

del:
	mpa2_options_unlisten(id);
	id->cm_handler = listener->cm_handler;
	id->rem_ref(id);
	mpa2_owned_del(listener->handle);
put:
	mpa2_listener_put(listener);
	return ret;
}

/* Close what was not delivered; nobody else will. */
static void sweep_requests(struct mpa2_listener *listener)
{
	struct mpa2_endpoint *ep;

	for (;;) {
		spin_lock(&listener->lock);
		ep = list_first_entry_or_null(&listener->requests,
					      struct mpa2_endpoint,
					      request_node);
		if (ep) {
			list_del_init(&ep->request_node);
			mpa2_endpoint_get(ep);
		}
		spin_unlock(&listener->lock);
		if (!ep)
			return;
		mpa2_endpoint_abort(ep);
		mpa2_endpoint_put(ep);
	}
}

/**
 * mpa2_listener_destroy() - iw_destroy_listen
 * @id: an id whose provider_data is a handle of ours
 *
 * Context: may sleep.  No CONNECT_REQUEST is raised once this returns.
 * Return: 0.
 */
int mpa2_listener_destroy(struct iw_cm_id *id)
{
	struct mpa2_listener *listener =
		mpa2_owned_find(id->provider_data, get_listener);

	if (!listener)
		return 0;
	id->provider_data = NULL;
	mpa2_owned_del(listener->handle);

	spin_lock(&listener->lock);
	listener->closing = true;
	spin_unlock(&listener->lock);
	spin_lock(&listener->dev->lock);
	list_del_init(&listener->starved_node);
	spin_unlock(&listener->dev->lock);
	mpa2_tcp_restore(listener->sock, &listener->original);
	if (cancel_delayed_work_sync(&listener->work)) {
		pass_room_on(listener->dev);
		mpa2_listener_put(listener);
	}
	sweep_requests(listener);
	sock_release(listener->sock);

	spin_lock(&listener->dev->lock);
	list_del(&listener->node);
	spin_unlock(&listener->dev->lock);
	mpa2_options_unlisten(id);
	id->rem_ref(id);
	mpa2_listener_put(listener);	/* ours of the lookup */
	mpa2_listener_put(listener);	/* the first one */
	module_put(THIS_MODULE);
	return 0;
}
