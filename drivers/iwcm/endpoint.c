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

#include "endpoint.h"

struct workqueue_struct *mpa2_wq;

static void endpoint_release(struct kref *ref)
{
	struct mpa2_endpoint *ep = container_of(ref, struct mpa2_endpoint, ref);

	WARN_ON(!ep->done || ep->sock || ep->qp || ep->cm_id);
	mpa2_device_put(ep->dev);
	kfree(ep);
}

/**
 * mpa2_endpoint_get() - take a reference
 * @ep: an endpoint that the caller has a reference on, or finds under a lock
 *
 * Context: any.
 */
void mpa2_endpoint_get(struct mpa2_endpoint *ep)
{
	kref_get(&ep->ref);
}

/**
 * mpa2_endpoint_put() - drop a reference
 * @ep: the endpoint; the last one frees it
 *
 * Context: any.
 */
void mpa2_endpoint_put(struct mpa2_endpoint *ep)
{
	kref_put(&ep->ref, endpoint_release);
}

/**
 * mpa2_ep_wake() - have the work item look at something
 * @ep: the endpoint, kept alive by the caller
 * @flag: what to look at
 *
 * Context: any.  The queued work item has a reference of its own.
 */
void mpa2_ep_wake(struct mpa2_endpoint *ep, enum mpa2_ep_flag flag)
{
	set_bit(flag, &ep->flags);
	mpa2_endpoint_get(ep);
	if (!queue_work(mpa2_wq, &ep->work))
		mpa2_endpoint_put(ep);
}

/* siw let go of the shim id; drops the reference taken for it. */
static void fence_released(struct mpa2_fence_owner *owner)
{
	struct mpa2_endpoint *ep =
		container_of(owner, struct mpa2_endpoint, fence_owner);

	mpa2_ep_wake(ep, MPA2_EP_RELEASED);
	mpa2_endpoint_put(ep);
}

static void ep_timer(struct timer_list *timer)
{
	struct mpa2_endpoint *ep = from_timer(ep, timer, timer);

	mpa2_ep_wake(ep, MPA2_EP_TIMER);
	mpa2_endpoint_put(ep);
}

/**
 * mpa2_ep_arm() - start the timer, or start it anew
 * @ep: the endpoint
 * @kind: what it is for
 * @timeout_ms: in milliseconds
 *
 * Context: ep->lock held.  The armed timer has a reference of its own.
 */
void mpa2_ep_arm(struct mpa2_endpoint *ep, enum mpa2_ep_timer kind,
		 unsigned int timeout_ms)
{
	lockdep_assert_held(&ep->lock);
	ep->timer_kind = kind;
	ep->deadline = jiffies + msecs_to_jiffies(timeout_ms);
	mpa2_endpoint_get(ep);
	if (mod_timer(&ep->timer, ep->deadline))
		mpa2_endpoint_put(ep);
}

/**
 * mpa2_ep_stop_timer() - stop the timer
 * @ep: the endpoint
 *
 * One that fires at this moment finds that nothing is due.
 *
 * Context: ep->lock held.
 */
void mpa2_ep_stop_timer(struct mpa2_endpoint *ep)
{
	lockdep_assert_held(&ep->lock);
	ep->timer_kind = MPA2_EP_NO_TIMER;
	if (timer_delete(&ep->timer))
		mpa2_endpoint_put(ep);
}

/**
 * mpa2_ep_info() - what the machine knows of the connection
 * @ep: the endpoint
 *
 * Context: ep->lock held; pointers in it are good that long.
 * Return: a copy.
 */
struct mpa2_info mpa2_ep_info(struct mpa2_endpoint *ep)
{
	struct mpa2_info info;

	lockdep_assert_held(&ep->lock);
	mpa2_conn_info(&ep->conn, &info);
	return info;
}

/**
 * mpa2_ep_record() - what is agreed so far; peer values as far as they have come
 * @ep: the endpoint
 *
 * Context: ep->lock held.
 * Return: a copy.
 */
struct mpa2_record mpa2_ep_record(struct mpa2_endpoint *ep)
{
	struct mpa2_info info = mpa2_ep_info(ep);

	return (struct mpa2_record){
		.context = ep->context,
		.role = ep->role,
		.rev = info.rev,
		.enhanced = info.enhanced,
		.peer_to_peer = info.peer_to_peer,
		.crc = info.crc,
		.fallback = info.retried,
		.peer_data = info.peer_data,
		.rtr = info.rtr,
		.ird = info.local_ird,
		.ord = info.local_ord,
		.peer_ird = info.peer_ird,
		.peer_ord = info.peer_ord,
	};
}

/**
 * mpa2_ep_log_failure() - one line in the log, rate-limited
 * @ep: the endpoint
 * @status: -errno
 *
 * Context: ep->lock held.
 */
void mpa2_ep_log_failure(struct mpa2_endpoint *ep, int status)
{
	struct mpa2_info info = mpa2_ep_info(ep);

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

	if (peer->ss_family == AF_INET) {
		const struct sockaddr_in *v4 = (const struct sockaddr_in *)peer;

		ipv6_addr_set_v4mapped(v4->sin_addr.s_addr, &addr);
	} else {
		addr = ((const struct sockaddr_in6 *)peer)->sin6_addr;
	}
	spin_lock(&lock);
	for (i = 0; i < ARRAY_SIZE(seen) && first; i++)
		first = !ipv6_addr_equal(&seen[i], &addr);
	if (first)
		seen[next++ % ARRAY_SIZE(seen)] = addr;
	spin_unlock(&lock);
	return first;
}

/**
 * mpa2_ep_check_hold() - the fence has been closed for a while: does it hold anything?
 * @ep: the endpoint
 *
 * Counts it once, and says so once per peer.
 *
 * Context: may sleep, ep->lock held.
 */
void mpa2_ep_check_hold(struct mpa2_endpoint *ep)
{
	lockdep_assert_held(&ep->lock);
	if (ep->hold_counted || !ep->up || !ep->qp ||
	    !time_after_eq(jiffies, ep->replied_at +
					    msecs_to_jiffies(MPA2_LONG_HOLD_MS)) ||
	    !mpa2_siw_fence_holds_work(ep->qp))
		return;
	ep->hold_counted = true;
	mpa2_ep_count(ep, MPA2_COUNT_fence_long_holds);
	if (first_hold_of_peer(&ep->remote))
		pr_notice("%s: work posted to peer %pISpc is held: the initiator has sent nothing for %u ms (RFC 5044 lets it speak first)\n",
			  dev_name(&ep->dev->ibdev->dev), &ep->remote,
			  jiffies_to_msecs(jiffies - ep->replied_at));
}

/**
 * mpa2_ep_leave_room() - it no longer counts to max_pending: it is up, or over
 * @ep: the endpoint
 *
 * Context: process, ep->lock held.
 */
void mpa2_ep_leave_room(struct mpa2_endpoint *ep)
{
	lockdep_assert_held(&ep->lock);
	if (ep->takes_room)
		mpa2_listener_room_put(ep->dev);
	ep->takes_room = false;
}

/**
 * mpa2_ep_drop_ids() - let go of the id and of the QP
 * @ep: the endpoint
 *
 * Context: may sleep, ep->lock held.
 */
void mpa2_ep_drop_ids(struct mpa2_endpoint *ep)
{
	struct iw_cm_id *id = ep->cm_id;
	struct ib_qp *qp = ep->qp;

	lockdep_assert_held(&ep->lock);
	ep->cm_id = NULL;
	WRITE_ONCE(ep->context, NULL);
	ep->qp = NULL;
	if (qp) {
		xa_erase(&ep->dev->pending_qps, ep->qp_num);
		ep->dev->saved.iw_rem_ref(qp);
	}
	if (id)
		id->rem_ref(id);
}

/*
 * Whether an end that the ULP never heard of is worth a line: its own wish is
 * not, and a probe that connects and closes is nobody's failure.
 */
static bool end_is_a_failure(const struct mpa2_info *info)
{
	switch (info->cause) {
	case MPA2_CAUSE_NONE:
	case MPA2_CAUSE_ABORTED:
	case MPA2_CAUSE_ULP_REJECT:
		return false;
	case MPA2_CAUSE_PEER_CLOSED:
	case MPA2_CAUSE_PEER_RESET:
		return info->peer_frame_len;
	default:
		return true;
	}
}

static void ep_finish_result(struct mpa2_endpoint *ep)
{
	struct mpa2_info info = mpa2_ep_info(ep);

	if (ep->result_seen)
		return;
	if (end_is_a_failure(&info))
		mpa2_ep_log_failure(ep, -ECONNRESET);
	mpa2_ep_observe_result(ep, -ECONNRESET);
}

/* Whether iw_cm still has, or will have, a child id with our handle. */
static bool ep_is_owed_an_answer(const struct mpa2_endpoint *ep)
{
	return ep->raised && !ep->answered;
}

/**
 * mpa2_ep_finish() - the end: everything goes but the caller's reference
 * @ep: an endpoint without a socket
 *
 * Does nothing when it was done before, or while iw_cm is owed an answer.
 *
 * Context: may sleep, ep->lock held.
 */
void mpa2_ep_finish(struct mpa2_endpoint *ep)
{
	lockdep_assert_held(&ep->lock);
	if (ep->done || ep_is_owed_an_answer(ep))
		return;
	ep->done = true;
	ep_finish_result(ep);
	mpa2_ep_stop_timer(ep);
	mpa2_listener_leave(ep);
	mpa2_ep_leave_room(ep);
	mpa2_owned_del(ep->handle);
	mpa2_siw_unbind(&ep->binding);
	mpa2_ep_drop_ids(ep);
	spin_lock(&ep->dev->lock);
	list_del_init(&ep->node);
	spin_unlock(&ep->dev->lock);
	atomic_dec(&ep->dev->nr_pending);
	mpa2_endpoint_put(ep);
	/* The work queue and SRCU keep this code until we are out of it. */
	module_put(THIS_MODULE);
}

static void ep_timeout(struct mpa2_endpoint *ep)
{
	enum mpa2_ep_timer kind = ep->timer_kind;

	lockdep_assert_held(&ep->lock);
	if (kind == MPA2_EP_NO_TIMER || time_before(jiffies, ep->deadline))
		return;	/* stopped or armed again since */
	ep->timer_kind = MPA2_EP_NO_TIMER;
	switch (kind) {
	case MPA2_EP_CORE_TIMER:
		if (ep->up)
			mpa2_ep_check_hold(ep);
		mpa2_ep_feed_type(ep, MPA2_EV_TIMER);
		break;
	case MPA2_EP_DELIVER_TIMER:
		/* iw_cm has dropped the request: nobody will answer it. */
		ep->answered = true;
		mpa2_ep_feed_type(ep, MPA2_EV_ABORT);
		break;
	case MPA2_EP_HOLD_TIMER:
		mpa2_ep_check_hold(ep);
		if (!ep->hold_counted)
			mpa2_ep_arm(ep, MPA2_EP_HOLD_TIMER, MPA2_LONG_HOLD_MS);
		break;
	default:
		break;
	}
}

/**
 * mpa2_ep_abort() - end the handshake, whatever it is at
 * @ep: the endpoint; may be finished afterwards
 *
 * Context: may sleep, ep->lock held.
 */
void mpa2_ep_abort(struct mpa2_endpoint *ep)
{
	mpa2_ep_feed_type(ep, MPA2_EV_ABORT);
	/* A request that iw_cm may never deliver is not waited for long. */
	if (!ep->done && ep->raised && !ep->delivered)
		mpa2_ep_arm(ep, MPA2_EP_DELIVER_TIMER, MPA2_DROPPED_TIMEOUT_MS);
}

static void ep_work(struct work_struct *work)
{
	struct mpa2_endpoint *ep =
		container_of(work, struct mpa2_endpoint, work);

	mutex_lock(&ep->lock);
	if (test_and_clear_bit(MPA2_EP_RELEASED, &ep->flags) && ep->up) {
		ep->released = true;
		mpa2_ep_abort(ep);
	}
	if (test_and_clear_bit(MPA2_EP_ABORT, &ep->flags) && !ep->closed)
		mpa2_ep_abort(ep);
	if (test_and_clear_bit(MPA2_EP_TIMER, &ep->flags) && !ep->done)
		ep_timeout(ep);
	if (test_and_clear_bit(MPA2_EP_TURN, &ep->flags) && !ep->closed)
		mpa2_ep_take_turn(ep);
	clear_bit(MPA2_EP_SOCKET, &ep->flags);
	if (!ep->closed)
		mpa2_ep_socket(ep);
	mutex_unlock(&ep->lock);
	mpa2_endpoint_put(ep);
}

static struct mpa2_policy ep_policy(const struct mpa2_endpoint *ep)
{
	struct mpa2_policy policy = ep->settings.policy;

	policy.cap_ird = mpa2_device_cap_ird(ep->dev);
	policy.cap_ord = mpa2_device_cap_ord(ep->dev);
	return policy;
}

/**
 * mpa2_endpoint_choose() - what the ULP decides at the last moment, with its accept
 * @ep: a responder's endpoint
 * @choice: what a kernel ULP has asked for
 *
 * Context: ep->lock held.
 */
void mpa2_endpoint_choose(struct mpa2_endpoint *ep, const struct mpa2_choice *choice)
{
	struct mpa2_policy policy;

	lockdep_assert_held(&ep->lock);
	mpa2_settings_apply(&ep->settings, choice);
	policy = ep_policy(ep);
	mpa2_conn_set_policy(&ep->conn, &policy);
}

/* Seen by all from here on; false when the device takes no new ones. */
static bool ep_publish(struct mpa2_endpoint *ep)
{
	struct mpa2_device *dev = ep->dev;
	bool going;

	spin_lock(&dev->lock);
	going = dev->going;
	if (!going)
		list_add_tail(&ep->node, &dev->endpoints);
	spin_unlock(&dev->lock);
	return !going;
}

/**
 * mpa2_endpoint_alloc() - a new endpoint, among the pending ones of its device
 * @dev: the device
 * @role: initiator or responder
 * @settings: copied
 *
 * Its lock is held, so that who finds it finds it complete, and an abort that
 * comes early is not lost on a machine that has not begun.
 *
 * Context: may sleep.
 * Return: the endpoint, locked, or ERR_PTR() of -ENOMEM or -ENODEV.
 */
struct mpa2_endpoint *mpa2_endpoint_alloc(struct mpa2_device *dev,
					  enum mpa2_role role,
					  const struct mpa2_settings *settings)
{
	struct mpa2_endpoint *ep = kzalloc(sizeof(*ep), GFP_KERNEL);
	static atomic_t next_id;
	struct mpa2_policy policy;

	if (!ep)
		return ERR_PTR(-ENOMEM);
	ep->id = atomic_inc_return(&next_id);
	ep->begun_at = ktime_get();
	kref_init(&ep->ref);
	ep->dev = mpa2_device_get(dev);
	INIT_LIST_HEAD(&ep->node);
	INIT_LIST_HEAD(&ep->request_node);
	INIT_LIST_HEAD(&ep->turn_node);
	INIT_WORK(&ep->work, ep_work);
	timer_setup(&ep->timer, ep_timer, 0);
	mutex_init(&ep->lock);
	ep->settings = *settings;
	ep->role = role;
	ep->fence_owner.released = fence_released;

	policy = ep_policy(ep);
	mpa2_conn_init(&ep->conn, role, &policy);

	mutex_lock(&ep->lock);
	if (!ep_publish(ep)) {
		mutex_unlock(&ep->lock);
		mpa2_device_put(dev);
		kfree(ep);
		return ERR_PTR(-ENODEV);
	}
	atomic_inc(&dev->nr_pending);
	mpa2_ep_observe_start(ep);
	return ep;
}
