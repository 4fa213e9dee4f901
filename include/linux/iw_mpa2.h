/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For kernel ULPs on rdma_cm: how one id's connection over a soft-iWARP device
 * is set up (RFC 6581), where its module parameters and rules do not suit.
 */
#ifndef IW_MPA2_LINUX_IW_MPA2_H
#define IW_MPA2_LINUX_IW_MPA2_H

#include <linux/types.h>

struct rdma_cm_id;

/* Bits of struct iw_mpa2_options.set: which members count. */
enum iw_mpa2_option {
	IW_MPA2_PEER_TO_PEER = 1 << 0,
	IW_MPA2_REQUIRE_ORD = 1 << 1,
	IW_MPA2_RTR = 1 << 2,
	IW_MPA2_REV = 1 << 3,
	IW_MPA2_FALLBACK = 1 << 4,
	IW_MPA2_DEPTHS = 1 << 5,
	IW_MPA2_FENCE = 1 << 6,
	IW_MPA2_CRC = 1 << 7,
};

/* Members of iw_mpa2_options.rtr. */
enum iw_mpa2_rtr {
	IW_MPA2_RTR_NONE = 0,
	IW_MPA2_RTR_SEND = 1,
	IW_MPA2_RTR_WRITE = 2,
	IW_MPA2_RTR_READ = 4,
};

struct iw_mpa2_options {
	u32 set;		/* bits of enum iw_mpa2_option */
	bool peer_to_peer;	/* initiator: A=1 with an RTR, or client-server */
	u16 require_ord;	/* responder: reject a Request with a smaller IRD */
	u8 rtr[3];		/* enum iw_mpa2_rtr, most wanted first, 0 ends */
	u8 rev;			/* initiator: 1 or 2 */
	bool fallback;		/* initiator: one retry in Rev 1 */
	bool ulp_depths;	/* initiator: leave IRD and ORD to the ULP, 0x3FFF */
	bool fence_p2p_only;	/* responder: hold sends only when A=1 */
	bool crc;		/* ask for CRC32c */
};

/**
 * iw_mpa2_set_options() - how the next connect, accept or listen of an id is done
 * @id: an id that has a device or will get one
 * @options: what to change against parameters and rules, or NULL to forget what
 *	an earlier call has set
 *
 * Used up by the next rdma_connect(), rdma_accept() or rdma_listen(); children
 * of a listener, of the wildcard one as well, inherit the listener's.  An id
 * that is destroyed before that is not seen here, so its owner calls this with
 * NULL first.
 *
 * Context: may sleep.
 * Return: 0, -EINVAL for values out of range, -ENOSPC when 1024 ids have
 * options that were not used yet, -ENOMEM.
 */
int iw_mpa2_set_options(struct rdma_cm_id *id, const struct iw_mpa2_options *options);

#endif /* IW_MPA2_LINUX_IW_MPA2_H */
