/* SPDX-License-Identifier: GPL-2.0 */
/*
 * siw's structures, seen through the offsets of the siw.ko we are built for.
 *
 * siw's own headers are not used: generated/siw-layout.h holds offsets, sizes
 * and values read from the debug information of that siw.ko, and the loader of
 * this module refuses any other siw (see symbols.c).  Only drivers/siw/ may
 * include this file.
 */
#ifndef IW_MPA2_SIW_VIEW_H
#define IW_MPA2_SIW_VIEW_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/rwsem.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <rdma/ib_verbs.h>
#include <rdma/iw_cm.h>
#include <rdma/siw-abi.h>

#include "siw-layout.h"

struct siw_device;
struct siw_qp;
struct siw_cep;
struct siw_cm_work;

/* The MSN counters of a stream, by untagged queue number. */
enum {
	SIW_QN_SEND = 0,
	SIW_QN_READ = 1,
};

#define SIW_AT(ptr, off, type) ((type *)((char *)(ptr) + (off)))
#define SIW_FIELD(ptr, owner, member, type) \
	SIW_AT(ptr, SIW_OFF_##owner##__##member, type)

#define SIW_QP(qp, member, type) SIW_FIELD(qp, siw_qp, member, type)
#define SIW_QP_ATTR(qp, member, type) \
	SIW_AT(qp, SIW_OFF_siw_qp__attrs + SIW_OFF_siw_qp_attrs__##member, type)
#define SIW_TX(qp, member, type) \
	SIW_AT(qp, SIW_OFF_siw_qp__tx_ctx + SIW_OFF_siw_iwarp_tx__##member, type)
#define SIW_TX_WQE(qp, member, type)                                        \
	SIW_AT(qp,                                                           \
	       SIW_OFF_siw_qp__tx_ctx + SIW_OFF_siw_iwarp_tx__wqe_active +   \
		       SIW_OFF_siw_wqe__##member,                            \
	       type)
#define SIW_RX(qp, member, type)                                             \
	SIW_AT(qp, SIW_OFF_siw_qp__rx_stream + SIW_OFF_siw_rx_stream__##member, \
	       type)
#define SIW_CEP(cep, member, type) SIW_FIELD(cep, siw_cep, member, type)

/* Bit fields share their octet with others; see siw_view users for locking. */
static inline bool siw_tx_suspended(struct siw_qp *qp)
{
	return *SIW_AT(qp, SIW_OFF_siw_qp__tx_ctx +
			   SIW_BYTE_siw_iwarp_tx__tx_suspend, u8) &
	       BIT(SIW_BIT_siw_iwarp_tx__tx_suspend);
}

static inline void siw_set_tx_suspended(struct siw_qp *qp)
{
	*SIW_AT(qp, SIW_OFF_siw_qp__tx_ctx + SIW_BYTE_siw_iwarp_tx__tx_suspend,
		u8) |= BIT(SIW_BIT_siw_iwarp_tx__tx_suspend);
}

static inline bool siw_rx_suspended(struct siw_qp *qp)
{
	return *SIW_AT(qp, SIW_OFF_siw_qp__rx_stream +
			   SIW_BYTE_siw_rx_stream__rx_suspend, u8) &
	       BIT(SIW_BIT_siw_rx_stream__rx_suspend);
}

static inline struct siw_qp *siw_qp_of(struct ib_qp *qp)
{
	return SIW_AT(qp, -(long)SIW_OFF_siw_qp__base_qp, struct siw_qp);
}

static inline struct siw_device *siw_device_of(struct ib_device *dev)
{
	/* struct siw_device begins with its struct ib_device, as siw says. */
	return (struct siw_device *)dev;
}

#endif /* IW_MPA2_SIW_VIEW_H */
