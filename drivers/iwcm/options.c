// SPDX-License-Identifier: GPL-2.0
/*
 * What kernel ULPs have asked for on ids that are not in use yet (ENH-13).
 *
 * An id is known by its address, which is compared and never read: it is what
 * rdma_cm puts into iw_cm_id.context.  For each device a wildcard listener has
 * an id of its own, whose rdma_cm_id.context is the ULP's id.
 */
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <rdma/rdma_cm.h>

#include <linux/iw_mpa2.h>

#include "mpa2.h"
#include "settings.h"

#define OPTIONS_MAX 1024

struct id_options {
	struct list_head node;
	const void *id;
	unsigned int listeners;	/* of a wildcard one, which share it */
	struct mpa2_choice choice;
};

static DEFINE_MUTEX(options_lock);	/* a leaf */
static LIST_HEAD(options_list);
static unsigned int nr_options;

static struct id_options *find(const void *id)
{
	struct id_options *entry;

	lockdep_assert_held(&options_lock);
	list_for_each_entry(entry, &options_list, node)
		if (entry->id == id)
			return entry;
	return NULL;
}

static void forget(struct id_options *entry)
{
	lockdep_assert_held(&options_lock);
	list_del(&entry->node);
	nr_options--;
	kfree(entry);
}

static int check_rtr(const u8 rtr[MPA2_RTR_KINDS])
{
	u8 seen = 0;
	int i;

	for (i = 0; i < MPA2_RTR_KINDS && rtr[i]; i++) {
		if ((rtr[i] != MPA2_RTR_SEND && rtr[i] != MPA2_RTR_WRITE &&
		     rtr[i] != MPA2_RTR_READ) || seen & rtr[i])
			return -EINVAL;
		seen |= rtr[i];
	}
	return seen ? 0 : -EINVAL;
}

static int make_choice(const struct iw_mpa2_options *options, struct mpa2_choice *choice)
{
	struct mpa2_policy *policy = &choice->settings.policy;

	BUILD_BUG_ON(BIT(MPA2_SET_MODEL) != IW_MPA2_PEER_TO_PEER ||
		     BIT(MPA2_SET_REQUIRE_ORD) != IW_MPA2_REQUIRE_ORD ||
		     BIT(MPA2_SET_RTR) != IW_MPA2_RTR ||
		     BIT(MPA2_SET_REV) != IW_MPA2_REV ||
		     BIT(MPA2_SET_FALLBACK) != IW_MPA2_FALLBACK ||
		     BIT(MPA2_SET_DEPTHS) != IW_MPA2_DEPTHS ||
		     BIT(MPA2_SET_FENCE) != IW_MPA2_FENCE ||
		     BIT(MPA2_SET_CRC) != IW_MPA2_CRC);
	if (options->set & ~(BIT(MPA2_SET_TRANSPORT) - 1))
		return -EINVAL;
	if ((options->set & IW_MPA2_RTR) && check_rtr(options->rtr))
		return -EINVAL;
	if ((options->set & IW_MPA2_REV) && options->rev != MPA2_REV_1 &&
	    options->rev != MPA2_REV_2)
		return -EINVAL;
	if ((options->set & IW_MPA2_REQUIRE_ORD) && options->require_ord > MPA2_DEPTH_MAX)
		return -EINVAL;
	memset(choice, 0, sizeof(*choice));
	choice->set = options->set;
	policy->peer_to_peer = options->peer_to_peer;
	policy->require_ord = options->require_ord;
	memcpy(policy->rtr_order, options->rtr, sizeof(policy->rtr_order));
	policy->rev = options->rev;
	policy->fallback = options->fallback;
	policy->no_negotiate_ird = options->ulp_depths;
	policy->no_negotiate_ord = options->ulp_depths;
	policy->crc = options->crc;
	choice->settings.fence = options->fence_p2p_only ? MPA2_FENCE_P2P :
							   MPA2_FENCE_ALWAYS;
	return 0;
}

static int remember(const void *id, const struct mpa2_choice *choice)
{
	struct id_options *entry = find(id);

	if (!entry) {
		if (nr_options >= OPTIONS_MAX)
			return -ENOSPC;
		entry = kzalloc(sizeof(*entry), GFP_KERNEL);
		if (!entry)
			return -ENOMEM;
		entry->id = id;
		list_add(&entry->node, &options_list);
		nr_options++;
	}
	entry->choice = *choice;
	return 0;
}

int iw_mpa2_set_options(struct rdma_cm_id *id, const struct iw_mpa2_options *options)
{
	struct mpa2_choice choice;
	struct id_options *entry;
	int ret = 0;

	if (options) {
		ret = make_choice(options, &choice);
		if (ret)
			return ret;
	}
	mutex_lock(&options_lock);
	entry = find(id);
	if (options)
		ret = remember(id, &choice);
	else if (entry)
		forget(entry);
	mutex_unlock(&options_lock);
	return ret;
}
EXPORT_SYMBOL_GPL(iw_mpa2_set_options);

/**
 * mpa2_options_take() - what was asked for on an id; used up by this
 * @id: what iw_cm_id.context is, or rdma_cm_id.context behind it
 * @choice: empty when nothing was asked for
 *
 * Context: may sleep.
 * Return: whether there was anything.
 */
bool mpa2_options_take(const void *id, struct mpa2_choice *choice)
{
	struct id_options *entry;

	memset(choice, 0, sizeof(*choice));
	mutex_lock(&options_lock);
	entry = find(id);
	if (entry) {
		*choice = entry->choice;
		forget(entry);
	}
	mutex_unlock(&options_lock);
	return entry;
}

static const void *parent_of(const struct iw_cm_id *id)
{
	const struct rdma_cm_id *rdma_id = id->context;

	return rdma_id ? rdma_id->context : NULL;
}

/**
 * mpa2_options_listen() - what was asked for on a listener
 * @id: the device's id, which is the ULP's or one that rdma_cm made for it
 * @choice: empty when nothing was asked for
 *
 * Context: may sleep.  mpa2_options_unlisten() has to follow.
 */
void mpa2_options_listen(const struct iw_cm_id *id, struct mpa2_choice *choice)
{
	struct id_options *entry;

	if (mpa2_options_take(id->context, choice))
		return;
	mutex_lock(&options_lock);
	entry = nr_options ? find(parent_of(id)) : NULL;
	if (entry) {
		entry->listeners++;
		*choice = entry->choice;
	}
	mutex_unlock(&options_lock);
}

/**
 * mpa2_options_unlisten() - a listener has gone, or did not come to be
 * @id: as for mpa2_options_listen()
 *
 * The last listener of a wildcard one takes its options along.
 *
 * Context: may sleep.
 */
void mpa2_options_unlisten(const struct iw_cm_id *id)
{
	struct id_options *entry;

	mutex_lock(&options_lock);
	entry = nr_options ? find(parent_of(id)) : NULL;
	if (entry && entry->listeners && --entry->listeners == 0)
		forget(entry);
	mutex_unlock(&options_lock);
}

/**
 * mpa2_options_stop() - forget what nobody has used up
 *
 * Context: module exit, may sleep.
 */
void mpa2_options_stop(void)
{
	mutex_lock(&options_lock);
	while (!list_empty(&options_list))
		forget(list_first_entry(&options_list, struct id_options, node));
	mutex_unlock(&options_lock);
}
