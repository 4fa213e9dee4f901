// SPDX-License-Identifier: GPL-2.0
/*
 * What `rdma resource show cm_id -dd` says of a connection or a listener.
 *
 * An id is found by iw_cm_id.context, which rdma_cm sets to its own id; the
 * pointer is only compared.  A dump holds a reference on that id and no lock,
 * so waiting for an endpoint's lock is allowed.
 */
#include <net/netlink.h>
#include <rdma/rdma_netlink.h>
#include <rdma/restrack.h>

#include "endpoint.h"

/* Entries stay as they are: people and programs read them. */
static int put_record(struct sk_buff *msg, const char *state,
		      const struct mpa2_record *r)
{
	if (rdma_nl_put_driver_string(msg, "state", state) ||
	    rdma_nl_put_driver_u32(msg, "mpa_rev", r->rev) ||
	    rdma_nl_put_driver_u32(msg, "enhanced", r->enhanced) ||
	    rdma_nl_put_driver_string(msg, "model",
				      r->peer_to_peer ? "peer-to-peer" :
							"client-server") ||
	    rdma_nl_put_driver_string(msg, "rtr", mpa2_rtr_text(r->rtr)) ||
	    rdma_nl_put_driver_u32(msg, "ird", r->ird) ||
	    rdma_nl_put_driver_u32(msg, "ord", r->ord))
		return -EMSGSIZE;
	if (r->peer_data &&
	    (rdma_nl_put_driver_u32(msg, "peer_ird", r->peer_ird) ||
	     rdma_nl_put_driver_u32(msg, "peer_ord", r->peer_ord)))
		return -EMSGSIZE;
	if (rdma_nl_put_driver_u32(msg, "crc", r->crc) ||
	    rdma_nl_put_driver_u32(msg, "fallback", r->fallback))
		return -EMSGSIZE;
	return 0;
}

static int put_listener(struct sk_buff *msg, unsigned int nr_requests)
{
	if (rdma_nl_put_driver_string(msg, "state", "listening") ||
	    rdma_nl_put_driver_u32(msg, "requests", nr_requests))
		return -EMSGSIZE;
	return 0;
}

/* The pending endpoint of an id, with a reference, or NULL. */
static struct mpa2_endpoint *find_endpoint(struct mpa2_device *dev,
					   const void *context)
{
	struct mpa2_endpoint *ep, *found = NULL;

	spin_lock(&dev->lock);
	list_for_each_entry(ep, &dev->endpoints, node) {
		if (READ_ONCE(ep->context) == context) {
			mpa2_endpoint_get(ep);
			found = ep;
			break;
		}
	}
	spin_unlock(&dev->lock);
	return found;
}

static bool find_listener(struct mpa2_device *dev, const void *context,
			  unsigned int *nr_requests)
{
	struct mpa2_listener *listener;
	bool found = false;

	spin_lock(&dev->lock);
	list_for_each_entry(listener, &dev->listeners, node) {
		if (listener->cm_id->context == context) {
			*nr_requests = READ_ONCE(listener->nr_requests);
			found = true;
			break;
		}
	}
	spin_unlock(&dev->lock);
	return found;
}

/* Whether the id has a pending endpoint; what it is then in *state, *record. */
static bool look_at_endpoint(struct mpa2_device *dev, const void *context,
			     const char **state, struct mpa2_record *record)
{
	struct mpa2_endpoint *ep = find_endpoint(dev, context);
	bool pending = false;

	if (!ep)
		return false;
	mutex_lock(&ep->lock);
	if (!ep->closed && ep->context == context) {
		*record = mpa2_ep_record(ep);
		*state = mpa2_state_text(mpa2_ep_info(ep).state);
		pending = true;
	}
	mutex_unlock(&ep->lock);
	mpa2_endpoint_put(ep);
	return pending;
}

/**
 * mpa2_resource_fill() - add the driver's part to one id's entry
 * @dev: the id's device
 * @msg: the dump
 * @id: a referenced id
 *
 * Context: may sleep.
 * Return: 0, also for ids that are not ours, or -EMSGSIZE.
 */
int mpa2_resource_fill(struct mpa2_device *dev, struct sk_buff *msg,
		       const struct rdma_cm_id *id)
{
	const char *state = "established";
	struct mpa2_record record;
	unsigned int nr_requests;
	struct nlattr *table;
	int ret;

	if (look_at_endpoint(dev, id, &state, &record) ||
	    mpa2_siw_find_record(dev->ibdev, id, &record)) {
		table = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
		ret = table ? put_record(msg, state, &record) : -EMSGSIZE;
	} else if (find_listener(dev, id, &nr_requests)) {
		table = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
		ret = table ? put_listener(msg, nr_requests) : -EMSGSIZE;
	} else {
		return 0;
	}
	if (!ret)
		nla_nest_end(msg, table);
	else if (table)
		nla_nest_cancel(msg, table);
	return ret;
}
