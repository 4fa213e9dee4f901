// SPDX-License-Identifier: GPL-2.0
/*
 * The counters of a device, where monitoring agents look for them already:
 * /sys/class/infiniband/DEVICE/ports/1/hw_counters.  `rdma statistic` cannot
 * show them: the core takes the ops for it when a device is registered, before
 * any client sees the device.
 */
#include <linux/sysfs.h>
#include <rdma/ib_sysfs.h>

#include "../compat/compat.h"
#include "mpa2.h"

#define SIW_PORT 1

struct counter_attribute {
	struct ib_port_attribute port;
	unsigned int counter;	/* enum mpa2_counter, or one of the below */
};

/* Not counts: how many there are at this moment. */
enum {
	IN_PROGRESS = MPA2_COUNT_NR,
	IN_PROGRESS_INITIATOR,
	IN_PROGRESS_RESPONDER,
};

static s64 value_of(struct mpa2_device *dev, unsigned int counter)
{
	switch (counter) {
	case IN_PROGRESS:
		return atomic_read(&dev->nr_pending);
	case IN_PROGRESS_INITIATOR:
		return atomic_read(&dev->nr_undecided[MPA2_INITIATOR]);
	case IN_PROGRESS_RESPONDER:
		return atomic_read(&dev->nr_undecided[MPA2_RESPONDER]);
	default:
		return atomic64_read(&dev->counters.count[counter]);
	}
}

static ssize_t counter_show(struct ib_device *ibdev, u32 port_num,
			    struct ib_port_attribute *attr, char *buf)
{
	const struct counter_attribute *counter =
		container_of(attr, struct counter_attribute, port);
	int idx = mpa2_srcu_enter();
	struct mpa2_device *dev = mpa2_device_find(ibdev);
	ssize_t ret = -ENODEV;

	if (dev)
		ret = sysfs_emit(buf, "%lld\n", value_of(dev, counter->counter));
	mpa2_srcu_leave(idx);
	return ret;
}

#define ATTRIBUTE(which, id)                                               \
	static struct counter_attribute attr_##which = {                   \
		.port = { .attr = { .name = #which, .mode = 0444 },        \
			  .show = counter_show },                          \
		.counter = id,                                             \
	};
#define COUNTER_ATTRIBUTE(which) ATTRIBUTE(which, MPA2_COUNT_##which)
MPA2_COUNTERS(COUNTER_ATTRIBUTE)
ATTRIBUTE(handshakes_in_progress, IN_PROGRESS)
ATTRIBUTE(in_progress_initiator, IN_PROGRESS_INITIATOR)
ATTRIBUTE(in_progress_responder, IN_PROGRESS_RESPONDER)

#define COUNTER_POINTER(name) &attr_##name.port.attr,
static struct attribute *counter_attributes[] = {
	MPA2_COUNTERS(COUNTER_POINTER)
	&attr_handshakes_in_progress.port.attr,
	&attr_in_progress_initiator.port.attr,
	&attr_in_progress_responder.port.attr,
	NULL,
};

static const struct attribute_group counter_group = {
	.name = "hw_counters",
	.attrs = counter_attributes,
};

/* Where siw has counters of its own they stay alone in their directory. */
static const struct attribute_group counter_group_apart = {
	.name = "iw_mpa2_counters",
	.attrs = counter_attributes,
};

/* Whether the device takes new work of ours; N lets it drain. */
static ssize_t enabled_show(struct ib_device *ibdev, u32 port_num,
			    struct ib_port_attribute *attr, char *buf)
{
	int idx = mpa2_srcu_enter();
	struct mpa2_device *dev = mpa2_device_find(ibdev);
	ssize_t ret = -ENODEV;

	if (dev)
		ret = sysfs_emit(buf, "%c\n", READ_ONCE(dev->disabled) ? 'N' : 'Y');
	mpa2_srcu_leave(idx);
	return ret;
}

static ssize_t enabled_store(struct ib_device *ibdev, u32 port_num,
			     struct ib_port_attribute *attr, const char *buf,
			     size_t count)
{
	struct mpa2_device *dev;
	ssize_t ret = -ENODEV;
	bool enabled;
	int idx;

	if (kstrtobool(buf, &enabled)) {
		pr_err("%s: enabled=%.*s: expected Y or N\n", dev_name(&ibdev->dev),
		       (int)strcspn(buf, "\n"), buf);
		return -EINVAL;
	}
	idx = mpa2_srcu_enter();
	dev = mpa2_device_find(ibdev);
	if (dev) {
		WRITE_ONCE(dev->disabled, !enabled);
		ret = count;
	}
	mpa2_srcu_leave(idx);
	return ret;
}

static IB_PORT_ATTR_RW(enabled);

static struct attribute *control_attributes[] = {
	&ib_port_attr_enabled.attr,
	NULL,
};

static const struct attribute_group control_group = {
	.name = "iw_mpa2",
	.attrs = control_attributes,
};

static const struct attribute_group *groups[] = {
	&counter_group, &control_group, NULL,
};

static const struct attribute_group *groups_apart[] = {
	&counter_group_apart, &control_group, NULL,
};

static const struct attribute_group **groups_of(struct ib_device *ibdev)
{
	return ibdev->ops.alloc_hw_port_stats ? groups_apart : groups;
}

/**
 * mpa2_counters_add() - show a device's counters and its switch in sysfs
 * @dev: a device that mpa2_device_find() knows
 *
 * Without them the device works as well, so a failure is only told.
 * Context: may sleep.
 */
void mpa2_counters_add(struct mpa2_device *dev)
{
	int ret = ib_port_register_client_groups(dev->ibdev, SIW_PORT,
						 groups_of(dev->ibdev));

	dev->counters_shown = !ret;
	if (ret)
		pr_warn("%s: no counters in sysfs (%d)\n", dev_name(&dev->ibdev->dev),
			ret);
}

/**
 * mpa2_counters_remove() - take them out of sysfs
 * @dev: the device
 *
 * Context: may sleep; waits for readers.
 */
void mpa2_counters_remove(struct mpa2_device *dev)
{
	if (dev->counters_shown)
		ib_port_unregister_client_groups(dev->ibdev, SIW_PORT,
						 groups_of(dev->ibdev));
	dev->counters_shown = false;
}
