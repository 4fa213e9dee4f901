// SPDX-License-Identifier: GPL-2.0
/*
 * Standing in siw's iw_cm path: on every siw device the provider ops are
 * replaced by the wrappers below, which keep siw's own and route to them
 * whatever is not ours.
 *
 * Every wrapper runs inside an SRCU read section.  Unloading restores the ops,
 * then waits: for tasks that have loaded a pointer but not yet entered
 * (synchronize_rcu_tasks()), for those inside (synchronize_srcu()), and for
 * those on their way out (synchronize_rcu_tasks() again).
 *
 * Clients are removed in LIFO order: on device removal rdma_cm may still own
 * ids that it will destroy through the ops, so then the ops stay, and a module
 * reference is held until siw's dealloc_driver has run.
 */
#include <linux/module.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include "mpa2.h"

DEFINE_SRCU(mpa2_srcu);

static DEFINE_MUTEX(devices_lock);	/* writers of mpa2_devices */
static LIST_HEAD(mpa2_devices);
static bool unloading;

static void device_free(struct rcu_head *rcu)
{
	struct mpa2_device *dev = container_of(rcu, struct mpa2_device, rcu);

	xa_destroy(&dev->pending_qps);
	put_device(&dev->ibdev->dev);
	kfree(dev);
}

static void device_release(struct kref *ref)
{
	struct mpa2_device *dev = container_of(ref, struct mpa2_device, ref);

	WARN_ON(!list_empty(&dev->endpoints));
	call_srcu(&mpa2_srcu, &dev->rcu, device_free);
}

/**
 * mpa2_device_get() - take a reference
 * @dev: a device that the caller has a reference on, or has found
 *
 * Context: any.
 * Return: @dev.
 */
struct mpa2_device *mpa2_device_get(struct mpa2_device *dev)
{
	kref_get(&dev->ref);
	return dev;
}

/**
 * mpa2_device_put() - drop a reference
 * @dev: the device; freed after the last one and an SRCU grace period
 *
 * Context: any.
 */
void mpa2_device_put(struct mpa2_device *dev)
{
	kref_put(&dev->ref, device_release);
}

/**
 * mpa2_device_find() - ours for one of the RDMA core
 * @ibdev: the RDMA device
 *
 * Context: inside an SRCU read section, or under devices_lock.
 * Return: the device without a reference, or NULL.
 */
struct mpa2_device *mpa2_device_find(const struct ib_device *ibdev)
{
	struct mpa2_device *dev;

	list_for_each_entry_srcu(dev, &mpa2_devices, node,
				 srcu_read_lock_held(&mpa2_srcu) ||
				 lockdep_is_held(&devices_lock))
		if (dev->ibdev == ibdev)
			return dev;
	return NULL;
}

/* The same for an op, which cannot come for a device that is not ours. */
static struct mpa2_device *device_of(const struct ib_device *ibdev)
{
	struct mpa2_device *dev = mpa2_device_find(ibdev);

	WARN_ONCE(!dev, "iw_mpa2: op called for an unknown device\n");
	return dev;
}

/*
 * New work of ours needs the module to stay: false sends it to stock siw,
 * which is right while unloading and where an administrator wants it.
 */
static bool may_begin(const struct mpa2_device *dev)
{
	return !READ_ONCE(dev->disabled) && try_module_get(THIS_MODULE);
}

static int wrap_iw_connect(struct iw_cm_id *id, struct iw_cm_conn_param *param)
{
	int idx = mpa2_srcu_enter(), ret;
	struct mpa2_device *dev = device_of(id->device);

	if (!dev || READ_ONCE(dev->going)) {
		ret = -ENODEV;
	} else if (!may_begin(dev)) {
		ret = dev->saved.iw_connect(id, param);
	} else {
		ret = mpa2_endpoint_connect(dev, id, param);
		if (ret)
			module_put(THIS_MODULE);
	}
	mpa2_srcu_leave(idx);
	return ret;
}

static int wrap_iw_create_listen(struct iw_cm_id *id, int backlog)
{
	int idx = mpa2_srcu_enter(), ret;
	struct mpa2_device *dev = device_of(id->device);

	/* On one that goes, too: its error would end a listen on all devices. */
	if (!dev) {
		ret = -ENODEV;
	} else if (!may_begin(dev)) {
		ret = dev->saved.iw_create_listen(id, backlog);
	} else {
		ret = mpa2_listener_create(dev, id, backlog);
		if (ret)
			module_put(THIS_MODULE);
	}
	mpa2_srcu_leave(idx);
	return ret;
}

static int wrap_iw_destroy_listen(struct iw_cm_id *id)
{
	int idx = mpa2_srcu_enter(), ret = 0;
	struct mpa2_device *dev = device_of(id->device);

	if (mpa2_owned_is(id->provider_data))
		ret = mpa2_listener_destroy(id);
	else if (dev)
		ret = dev->saved.iw_destroy_listen(id);
	mpa2_srcu_leave(idx);
	return ret;
}

static int wrap_iw_accept(struct iw_cm_id *id, struct iw_cm_conn_param *param)
{
	int idx = mpa2_srcu_enter(), ret = -ENODEV;
	struct mpa2_device *dev = device_of(id->device);

	if (dev && mpa2_owned_is(id->provider_data))
		ret = mpa2_endpoint_accept(dev, id, param);
	else if (dev)
		ret = dev->saved.iw_accept(id, param);
	mpa2_srcu_leave(idx);
	return ret;
}

static int wrap_iw_reject(struct iw_cm_id *id, const void *pd, u8 pd_len)
{
	int idx = mpa2_srcu_enter(), ret = -ENODEV;
	struct mpa2_device *dev = device_of(id->device);

	if (dev && mpa2_owned_is(id->provider_data))
		ret = mpa2_endpoint_reject(dev, id, pd, pd_len);
	else if (dev)
		ret = dev->saved.iw_reject(id, pd, pd_len);
	mpa2_srcu_leave(idx);
	return ret;
}

static int wrap_modify_qp(struct ib_qp *qp, struct ib_qp_attr *attr, int mask,
			  struct ib_udata *udata)
{
	int idx = mpa2_srcu_enter(), ret = -ENODEV;
	struct mpa2_device *dev = device_of(qp->device);

	if (dev) {
		if ((mask & IB_QP_STATE) && attr->qp_state > IB_QPS_RTS)
			mpa2_endpoint_abort_qp(dev, qp);
		ret = dev->saved.modify_qp(qp, attr, mask, udata);
		mpa2_siw_poll_receive(qp);
	}
	mpa2_srcu_leave(idx);
	return ret;
}

static int wrap_destroy_qp(struct ib_qp *qp, struct ib_udata *udata)
{
	int idx = mpa2_srcu_enter(), ret = -ENODEV;
	struct mpa2_device *dev = device_of(qp->device);

	if (dev) {
		mpa2_endpoint_abort_qp(dev, qp);
		ret = dev->saved.destroy_qp(qp, udata);
	}
	mpa2_srcu_leave(idx);
	return ret;
}

static int wrap_fill_res_cm_id_entry(struct sk_buff *msg, struct rdma_cm_id *id)
{
	int idx = mpa2_srcu_enter(), ret = 0;
	struct mpa2_device *dev = device_of(id->device);

	if (dev && dev->saved.fill_res_cm_id_entry)
		ret = dev->saved.fill_res_cm_id_entry(msg, id);
	if (dev && !ret)
		ret = mpa2_resource_fill(dev, msg, id);
	mpa2_srcu_leave(idx);
	return ret;
}

static void forget_device(struct mpa2_device *dev)
{
	mutex_lock(&devices_lock);
	list_del_rcu(&dev->node);
	mutex_unlock(&devices_lock);
	mpa2_device_put(dev);
}

/* The last op of a device: it has no ids and no QPs any more. */
static void wrap_dealloc_driver(struct ib_device *ibdev)
{
	int idx = mpa2_srcu_enter();
	struct mpa2_device *dev = device_of(ibdev);
	bool pinned = false;

	if (dev) {
		dev->saved.dealloc_driver(ibdev);
		pinned = dev->pins_module;
		forget_device(dev);
	}
	mpa2_srcu_leave(idx);
	if (pinned)
		module_put(THIS_MODULE);
}

/* What we stand in for, in the order of patching: beginnings last. */
#define MPA2_FOR_EACH_OP(do_it)                     \
	do {                                        \
		do_it(dealloc_driver);              \
		do_it(destroy_qp);                  \
		do_it(modify_qp);                   \
		do_it(fill_res_cm_id_entry);        \
		do_it(iw_destroy_listen);           \
		do_it(iw_reject);                   \
		do_it(iw_accept);                   \
		do_it(iw_create_listen);            \
		do_it(iw_connect);                  \
	} while (0)

#define MPA2_FOR_EACH_OP_REVERSE(do_it)             \
	do {                                        \
		do_it(iw_connect);                  \
		do_it(iw_create_listen);            \
		do_it(iw_accept);                   \
		do_it(iw_reject);                   \
		do_it(iw_destroy_listen);           \
		do_it(fill_res_cm_id_entry);        \
		do_it(modify_qp);                   \
		do_it(destroy_qp);                  \
		do_it(dealloc_driver);              \
	} while (0)

static void patch_ops(struct mpa2_device *dev)
{
	struct ib_device_ops *ops = &dev->ibdev->ops;

	/* A wrapper that runs finds all of dev, which was made before. */
#define PATCH(op) smp_store_release(&ops->op, wrap_##op) /* pairs with the call */
	MPA2_FOR_EACH_OP(PATCH);
#undef PATCH
}

static void restore_ops(struct mpa2_device *dev)
{
	struct ib_device_ops *ops = &dev->ibdev->ops;

#define RESTORE(op)                                           \
	do {                                                  \
		if (READ_ONCE(ops->op) == wrap_##op)          \
			WRITE_ONCE(ops->op, dev->saved.op);   \
		else                                          \
			pr_warn("%s: " #op " was replaced behind us, left as it is\n", \
				dev_name(&dev->ibdev->dev));  \
	} while (0)
	MPA2_FOR_EACH_OP_REVERSE(RESTORE);
#undef RESTORE
}

static struct ib_client mpa2_client;

static struct mpa2_device *device_alloc(struct ib_device *ibdev)
{
	struct mpa2_device *dev = kzalloc(sizeof(*dev), GFP_KERNEL);

	if (!dev)
		return NULL;
	kref_init(&dev->ref);
	/* Its name is wanted for as long as an endpoint lingers. */
	get_device(&ibdev->dev);
	dev->ibdev = ibdev;
	dev->saved = ibdev->ops;
	spin_lock_init(&dev->lock);
	INIT_LIST_HEAD(&dev->endpoints);
	INIT_LIST_HEAD(&dev->listeners);
	INIT_LIST_HEAD(&dev->starved);
	xa_init(&dev->pending_qps);
	return dev;
}

static void set_going(struct mpa2_device *dev, bool going)
{
	spin_lock(&dev->lock);
	WRITE_ONCE(dev->going, going);
	spin_unlock(&dev->lock);
}

/*
 * A device comes back that was only removed for a while, as when it moves to
 * another network namespace: its ops are still ours.
 */
static void device_revive(struct mpa2_device *dev)
{
	lockdep_assert_held(&devices_lock);
	set_going(dev, false);
	if (dev->pins_module) {
		dev->pins_module = false;
		module_put(THIS_MODULE);
	}
}

static int mpa2_client_add(struct ib_device *ibdev)
{
	struct mpa2_device *dev;
	unsigned int stock;

	if (ibdev->ops.driver_id != RDMA_DRIVER_SIW)
		return -EOPNOTSUPP;

	mutex_lock(&devices_lock);
	dev = mpa2_device_find(ibdev);
	if (dev) {
		device_revive(dev);
		mutex_unlock(&devices_lock);
		ib_set_client_data(ibdev, &mpa2_client, dev);
		mpa2_counters_add(dev);
		return 0;
	}
	dev = device_alloc(ibdev);
	if (dev)
		list_add_rcu(&dev->node, &mpa2_devices);
	mutex_unlock(&devices_lock);
	if (!dev) {
		/* To the core a client that cannot is one that does not want to. */
		pr_err("%s: stays with stock siw: no memory\n", dev_name(&ibdev->dev));
		return -ENOMEM;
	}
	ib_set_client_data(ibdev, &mpa2_client, dev);
	patch_ops(dev);
	mpa2_counters_add(dev);

	stock = mpa2_siw_stock_listeners(ibdev);
	if (stock)
		pr_notice("%s: %u listeners were there before this module and stay with stock siw until their service is restarted\n",
			  dev_name(&ibdev->dev), stock);
	return 0;
}

/*
 * Device removal, or unloading.  Which of the two decides whether the ops may
 * be restored: on removal ids of rdma_cm are still to be destroyed.
 */
static void mpa2_client_remove(struct ib_device *ibdev, void *client_data)
{
	struct mpa2_device *dev = client_data;

	mpa2_counters_remove(dev);
	set_going(dev, true);
	if (!READ_ONCE(unloading) && try_module_get(THIS_MODULE)) {
		dev->pins_module = true;
		mpa2_endpoint_abort_all(dev);
		return;
	}
	/*
	 * Unloading: no endpoint, listener or closed fence is left.  The device
	 * stays known until nobody can be inside a wrapper.
	 */
	restore_ops(dev);
}

static struct ib_client mpa2_client = {
	.name = "iw_mpa2",
	.add = mpa2_client_add,
	.remove = mpa2_client_remove,
};

/**
 * mpa2_devices_start() - stand in for every siw device, now and later
 *
 * Context: module init, may sleep.
 * Return: 0 or -errno.
 */
int mpa2_devices_start(void)
{
	return ib_register_client(&mpa2_client);
}

/**
 * mpa2_devices_stop() - give siw its ops back
 *
 * Context: module exit, may sleep.  No task is inside a wrapper once this returns.
 */
void mpa2_devices_stop(void)
{
	struct mpa2_device *dev, *next;

	WRITE_ONCE(unloading, true);
	ib_unregister_client(&mpa2_client);
	synchronize_rcu_tasks();
	synchronize_srcu(&mpa2_srcu);
	synchronize_rcu_tasks();
	list_for_each_entry_safe(dev, next, &mpa2_devices, node)
		forget_device(dev);
}

/**
 * mpa2_devices_finish() - wait until the last device has been freed
 *
 * Context: module exit, may sleep; after the last endpoint has gone.
 */
void mpa2_devices_finish(void)
{
	srcu_barrier(&mpa2_srcu);
}
