// SPDX-License-Identifier: GPL-2.0
/* The beginnings and ends of endpoints: iw_cm's ops and the verbs. */
#include <linux/fdtable.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "endpoint.h"

static void get_endpoint(void *ep)
{
	mpa2_endpoint_get(ep);
}

static int is_of_verbs_file(const void *ufile, struct file *file, unsigned int fd)
{
	return file->private_data == ufile;
}

/*
 * iw_cm looks QPs up by their number alone, which anybody can make up.  An
 * application may name QPs of the verbs contexts that it has open.  A QP of the
 * kernel's own goes with its id, or is named by a ULP that made it without
 * rdma_cm, from a thread of the kernel.
 */
static bool caller_may_use(const struct iw_cm_id *id, const struct ib_qp *qp)
{
	const struct rdma_cm_id *rdma_id = id->context;
	const struct ib_uobject *uobject = qp->pd->uobject;

	if (!uobject)
		return rdma_id->qp == qp || current->flags & PF_KTHREAD;
	return current->files &&
	       iterate_fd(current->files, 0, is_of_verbs_file, uobject->ufile);
}

/* Tie a QP to its one pending endpoint; takes a reference of its own. */
static int ep_use_qp(struct mpa2_endpoint *ep, const struct iw_cm_id *id, u32 qpn)
{
	struct mpa2_device *dev = ep->dev;
	struct ib_qp *qp;
	int ret;

	lockdep_assert_held(&ep->lock);
	/* iw_cm holds a reference for the length of this call. */
	qp = dev->saved.iw_get_qp(dev->ibdev, qpn);
	if (!qp || !caller_may_use(id, qp))
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

/* The parameters, and what a rule makes of them for this connection. */
static void settings_of(struct mpa2_settings *settings, struct mpa2_device *dev,
			const char *comm, const struct sockaddr_storage *local,
			const struct sockaddr_storage *remote)
{
	const struct mpa2_match match = {
		.device = dev_name(&dev->ibdev->dev),
		.comm = comm,
		.local = local,
		.remote = remote,
	};

	mpa2_settings_get(settings);
	mpa2_rules_apply(settings, &match);
}

static void ep_use_id(struct mpa2_endpoint *ep, struct iw_cm_id *id)
{
	lockdep_assert_held(&ep->lock);
	id->add_ref(id);
	ep->cm_id = id;
	WRITE_ONCE(ep->context, id->context);
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
	char comm[TASK_COMM_LEN];
	struct mpa2_choice choice;
	struct mpa2_endpoint *ep;
	int ret;

	if (param->private_data_len > MPA2_PD_MAX - MPA2_ENHANCED_LEN)
		return -EINVAL;
	if (param->ird > mpa2_device_cap_ird(dev) ||
	    param->ord > mpa2_device_cap_ord(dev))
		return -ENOMEM;	/* what stock siw says */
	get_task_comm(comm, current);
	settings_of(&settings, dev, comm, &id->local_addr, &id->m_remote_addr);
	if (mpa2_options_take(id->context, &choice))
		mpa2_settings_apply(&settings, &choice);
	ep = mpa2_endpoint_alloc(dev, MPA2_INITIATOR, &settings);
	if (IS_ERR(ep))
		return PTR_ERR(ep);
	mpa2_endpoint_get(ep);
	__module_get(THIS_MODULE);	/* mpa2_ep_finish() drops one */
	ep->local = id->local_addr;	/* siw uses no port mapper on its side */
	ep->remote = id->m_remote_addr;
	ret = ep_use_qp(ep, id, param->qpn);
	if (!ret) {
		ep_use_id(ep, id);
		ep->in_op = true;
		mpa2_ep_feed(ep, event);
		ep->in_op = false;
		ret = ep->op_error;
	}
	if (ret && !ep->done) {
		mpa2_ep_close(ep);
		mpa2_ep_finish(ep);
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
	struct sockaddr_storage local, remote;
	struct mpa2_settings settings;
	struct mpa2_endpoint *ep;
	bool closing;

	mpa2_tcp_addresses(sock, &local, &remote);
	settings_of(&settings, listener->dev, listener->comm, &local, &remote);
	mpa2_settings_apply(&settings, &listener->choice);
	ep = mpa2_endpoint_alloc(listener->dev, MPA2_RESPONDER, &settings);
	if (IS_ERR(ep))
		return NULL;
	mpa2_endpoint_get(ep);
	/* The listener holds one for itself as long as its work can run. */
	__module_get(THIS_MODULE);
	ep->cm_handler = listener->cm_handler;
	ep->original = listener->original;
	ep->local = local;
	ep->remote = remote;
	ep->handle = mpa2_owned_add(ep);

	spin_lock(&listener->lock);
	closing = listener->closing;
	if (!closing && ep->handle) {
		list_add_tail(&ep->request_node, &listener->requests);
		listener->nr_requests++;
		mpa2_listener_get(listener);
		ep->listener = listener;
	}
	spin_unlock(&listener->lock);
	if (!ep->listener) {
		ep->closed = true;
		mpa2_ep_finish(ep);
		mutex_unlock(&ep->lock);
		mpa2_endpoint_put(ep);
		return NULL;
	}
	ep->takes_room = true;
	ep->sock = sock;
	mpa2_tcp_prepare(sock);
	mpa2_tcp_install(sock, &mpa2_pending_ops, ep, NULL);
	mpa2_ep_feed_type(ep, MPA2_EV_CONNECTED);
	/*
	 * A peer that has reset the connection meanwhile is no longer known by
	 * its address, and a Request of nobody is not to be raised.  Else what
	 * came before our callbacks has to be seen, too.
	 */
	if (remote.ss_family == AF_UNSPEC)
		mpa2_ep_feed_type(ep, MPA2_EV_RESET);
	else
		mpa2_ep_wake(ep, MPA2_EP_SOCKET);
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
			mpa2_ep_stop_timer(ep);
			mpa2_listener_leave(ep);
			handler = ep->cm_handler;
		}
		mutex_unlock(&ep->lock);
	}
	if (handler) {
		child->cm_handler = handler;
		ret = handler(child, event);
	}
	if (ep) {
		mutex_lock(&ep->lock);
		if (!ret && !ep->answered)
			WRITE_ONCE(ep->context, child->context);
		mutex_unlock(&ep->lock);
		mpa2_endpoint_put(ep);
	}
	mpa2_srcu_leave(idx);
	return ret;
}

/* The ULP answers: from here the child id is done with our handle. */
static bool ep_take_answer(struct mpa2_endpoint *ep)
{
	lockdep_assert_held(&ep->lock);
	if (ep->answered)
		return false;
	ep->answered = true;
	WRITE_ONCE(ep->context, NULL);
	mpa2_ep_stop_timer(ep);
	mpa2_listener_leave(ep);
	if (ep->closed) {
		mpa2_ep_finish(ep);
		return false;
	}
	return true;
}

/* What iw_cm's part of an id begins with, in all kernels that we know of. */
struct iwcm_id_head {
	struct iw_cm_id id;
	int state;
	unsigned long flags;
	struct ib_qp *qp;
	struct completion destroy_comp;
	wait_queue_head_t connect_wait;
	struct list_head work_list;
	spinlock_t lock;	/* of state and qp, leaf */
};

#define IWCM_STATE_IDLE 0
#define IWCM_FLAG_DROP_EVENTS 1

/*
 * Put another QP, or none, in the place of the one that iw_cm holds, whose
 * reference becomes the caller's.  That it is where it ought to be says that iw_cm
 * is built as we think; without that nothing is touched.  iw_cm lets nobody destroy
 * an id while it is in one of our ops.
 */
static bool swap_qp_of_iw_cm(struct iwcm_id_head *head, const struct ib_qp *old,
			     struct ib_qp *qp)
{
	unsigned long flags;
	bool swapped;

	/* Nobody waits for the id's end yet: an empty list, which names itself. */
	if (READ_ONCE(head->qp) != old || !list_empty(&head->destroy_comp.wait.task_list))
		return false;
	spin_lock_irqsave(&head->lock, flags);
	swapped = head->qp == old;
	if (swapped)
		head->qp = qp;
	spin_unlock_irqrestore(&head->lock, flags);
	return swapped;
}

/*
 * A second accept of one request, before iw_cm has got to the ESTABLISHED of the
 * first.  iw_cm has put the second QP in the place of the first.
 * Before ESTABLISHED was raised it is silently the end, and iw_cm drops the second
 * one.  Afterwards an error would make that event illegal, and iw_cm would BUG():
 * the connection goes on, and iw_cm gets its QP back, so that it holds on to none
 * that has nothing to do with it, or is not the caller's.
 * ep is NULL when the connection has been siw's, or over, for a while.
 */
static int second_accept(struct mpa2_device *dev, struct mpa2_endpoint *ep,
			 struct iw_cm_id *id, u32 first_qpn, u32 second_qpn)
{
	struct iwcm_id_head *head = container_of(id, struct iwcm_id_head, id);
	bool too_late = !ep || ep->told || ep->done;
	struct ib_qp *first, *second;

	if (ep)
		lockdep_assert_held(&ep->lock);
	if (!too_late) {
		ep->silent = true;
		mpa2_ep_abort(ep);
	}
	/* iw_cm's reference, or the one that it has forgotten, keeps each findable. */
	first = dev->saved.iw_get_qp(dev->ibdev, first_qpn);
	second = dev->saved.iw_get_qp(dev->ibdev, second_qpn);
	if (too_late && first && second && swap_qp_of_iw_cm(head, second, first)) {
		dev->saved.iw_rem_ref(second);
		return 0;
	}
	/* iw_cm has dropped the second one by now, or is about to. */
	if (first)
		dev->saved.iw_rem_ref(first);
	id->provider_data = mpa2_owned_accepted(id->provider_data, second_qpn);
	return too_late ? 0 : -EINVAL;
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
	u32 room = MPA2_PD_MAX - (mpa2_ep_info(ep).enhanced ? MPA2_ENHANCED_LEN : 0);
	struct mpa2_choice choice;
	struct mpa2_info info;
	int ret = 0;

	mpa2_ep_watch_for_end(ep);
	if (param->private_data_len > room ||
	    param->ird > mpa2_device_cap_ird(ep->dev) ||
	    param->ord > mpa2_device_cap_ord(ep->dev))
		ret = -EINVAL;
	if (!ret)
		ret = ep_use_qp(ep, id, param->qpn);
	if (ret) {
		/* iw_cm sends no reject for us: the request ends here. */
		mpa2_ep_feed_type(ep, MPA2_EV_ABORT);
		return ret;
	}
	ep_use_id(ep, id);
	if (mpa2_options_take(id->context, &choice))
		mpa2_endpoint_choose(ep, &choice);
	ep->in_op = true;
	ep->op_error = -ECONNREFUSED;	/* unless the machine accepts */
	ep->replied_at = jiffies;
	mpa2_endpoint_get(ep);
	mpa2_ep_feed(ep, event);
	ep->in_op = false;
	info = mpa2_ep_info(ep);
	if (ep->up || ep->told) {
		ret = 0;
		param->ird = info.local_ird;
		param->ord = info.local_ord;
		if (!ep->closed)
			mpa2_ep_wake(ep, MPA2_EP_SOCKET);
	} else {
		ret = ep->op_error;
		mpa2_ep_drop_ids(ep);
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
	bool accepted;
	int ret = -ECONNRESET;
	u32 first_qpn;

	accepted = mpa2_owned_was_accepted(id->provider_data, &first_qpn);
	if (!ep)
		return accepted ? second_accept(dev, NULL, id, first_qpn, param->qpn) :
				  ret;
	mutex_lock(&ep->lock);
	if (accepted)
		ret = second_accept(dev, ep, id, first_qpn, param->qpn);
	else if (ep_take_answer(ep))
		ret = ep_accept(ep, id, param);
	if (!ret && !accepted)
		id->provider_data = mpa2_owned_accepted(id->provider_data, param->qpn);
	mutex_unlock(&ep->lock);
	mpa2_endpoint_put(ep);
	return ret;
}

/*
 * A reject after an accept: iw_cm takes no event of such an id any more, but
 * would keep the QP until the id is destroyed, and siw's destroy_qp wait for
 * that, for ever if both are up to the same thread.  So it is taken from
 * iw_cm, and its reference is the caller's; NULL if there is none to be had.
 */
static struct ib_qp *take_qp_from_iw_cm(struct mpa2_device *dev, struct iw_cm_id *id, u32 qpn)
{
	struct iwcm_id_head *head = container_of(id, struct iwcm_id_head, id);
	struct ib_qp *qp = dev->saved.iw_get_qp(dev->ibdev, qpn);

	if (!qp || READ_ONCE(head->state) != IWCM_STATE_IDLE || READ_ONCE(head->qp) != qp)
		return NULL;
	/* First, as an event without a QP would be looked at. */
	set_bit(IWCM_FLAG_DROP_EVENTS, &head->flags);
	return swap_qp_of_iw_cm(head, qp, NULL) ? qp : NULL;
}

/* siw's way to end a connection that is its own. */
static void disconnect_qp(struct mpa2_device *dev, struct ib_qp *qp)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	dev->saved.modify_qp(qp, &attr, IB_QP_STATE, NULL);
}

/**
 * mpa2_endpoint_reject() - iw_reject
 * @dev: the device
 * @id: the child id
 * @pd: the ULP's private data
 * @pd_len: its octets
 *
 * May come after an accept that succeeded; then it is silently the end.
 *
 * Context: may sleep.  No event follows.
 * Return: 0, or -ECONNRESET if there was nothing left to reject.
 */
int mpa2_endpoint_reject(struct mpa2_device *dev, struct iw_cm_id *id,
			 const void *pd, u8 pd_len)
{
	struct mpa2_endpoint *ep =
		mpa2_owned_find(id->provider_data, get_endpoint);
	struct mpa2_event event = {
		.type = MPA2_EV_REJECT,
		.ulp_pd = pd,
		.ulp_pd_len = pd_len,
	};
	struct ib_qp *qp = NULL;
	int ret = -ECONNRESET;
	bool pending = false;
	u32 qpn;

	if (mpa2_owned_was_accepted(id->provider_data, &qpn))
		qp = take_qp_from_iw_cm(dev, id, qpn);
	if (ep) {
		mutex_lock(&ep->lock);
		pending = !ep->done;
		if (ep->answered && pending) {
			ep->silent = true;
			mpa2_ep_abort(ep);
		} else if (!ep->answered && ep_take_answer(ep)) {
			mpa2_ep_feed(ep, event);
			ret = 0;
		}
		mutex_unlock(&ep->lock);
		mpa2_endpoint_put(ep);
	}
	if (qp) {
		if (!pending)
			disconnect_qp(dev, qp);
		dev->saved.iw_rem_ref(qp);
	}
	return ret;
}

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
		mpa2_ep_abort(ep);
	mutex_unlock(&ep->lock);
	mpa2_endpoint_put(ep);
}

/**
 * mpa2_endpoint_abort() - the listener goes
 * @ep: an endpoint that was a request of it
 *
 * Context: may sleep.  @ep cannot raise a request once this returns.
 */
void mpa2_endpoint_abort(struct mpa2_endpoint *ep)
{
	mutex_lock(&ep->lock);
	if (!ep->done)
		mpa2_ep_abort(ep);
	mutex_unlock(&ep->lock);
}

/**
 * mpa2_endpoint_abort_all() - the device goes
 * @dev: a device that takes no new endpoints
 *
 * Every pending endpoint gets its one final event from its work item.
 *
 * Context: process.
 */
void mpa2_endpoint_abort_all(struct mpa2_device *dev)
{
	struct mpa2_endpoint *ep;

	spin_lock(&dev->lock);
	list_for_each_entry(ep, &dev->endpoints, node)
		mpa2_ep_wake(ep, MPA2_EP_ABORT);
	spin_unlock(&dev->lock);
}
