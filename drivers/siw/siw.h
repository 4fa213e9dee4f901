/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Handing a connected socket to a siw QP, and the transmit fence: what the
 * rest of the module sees of siw.
 */
#ifndef IW_MPA2_SIW_H
#define IW_MPA2_SIW_H

#include <linux/types.h>
#include <net/sock.h>
#include <rdma/ib_verbs.h>
#include <rdma/iw_cm.h>

#include "../net/tcp.h"

struct siw_cep;

/*
 * The tie between one socket and one siw QP from RTS on.  Lives in the
 * endpoint; all calls on one binding are serialised by the endpoint's lock.
 */
struct mpa2_binding {
	struct siw_cep *cep;	/* we hold one reference while set */
	bool missed_close;	/* the peer closed before siw's callbacks were in */
};

/* What was agreed, kept with the connection for as long as siw has it. */
struct mpa2_record {
	const void *context;	/* rdma_cm's id, only to compare */
	u8 role;		/* enum mpa2_role */
	u8 rev;
	bool enhanced;
	bool peer_to_peer;
	bool crc;
	bool fallback;
	bool peer_data;		/* peer_ird and peer_ord are known */
	u8 rtr;			/* enum mpa2_rtr */
	u16 ird, ord;
	u16 peer_ird, peer_ord;
};

/* What a hand-over needs; filled by the endpoint from the core's results. */
struct mpa2_handover {
	struct ib_qp *qp;		/* the caller's reference goes to siw */
	struct iw_cm_id *cm_id;		/* likewise its iw_cm reference */
	struct socket *sock;
	const struct mpa2_sock_ops *original; /* the socket's own callbacks */
	u32 ird;
	u32 ord;
	u8 rtr;				/* enum mpa2_rtr that was sent */
	bool crc;
	struct mpa2_record record;
};

/*
 * While the fence is closed siw tears a connection down through a shim id.
 * released() is called once when siw lets go of it, be it by a teardown or by
 * mpa2_siw_take_back(); siw may hold in_use and state_lock, so it only queues.
 */
struct mpa2_fence_owner {
	void (*released)(struct mpa2_fence_owner *owner);
};

int __must_check mpa2_siw_check_qp(struct ib_qp *qp);
void mpa2_siw_poll_receive(struct ib_qp *qp);

int __must_check mpa2_siw_attach_initiator(struct mpa2_binding *b,
					   const struct mpa2_handover *h);
void mpa2_siw_finish_initiator(struct mpa2_binding *b);

int __must_check mpa2_siw_attach_responder(struct mpa2_binding *b,
					   const struct mpa2_handover *h,
					   const struct mpa2_sock_ops *fence_ops,
					   struct mpa2_fence_owner *owner);
struct socket __must_check *mpa2_siw_fence_enter(struct mpa2_binding *b);
void mpa2_siw_fence_leave(struct mpa2_binding *b);
bool mpa2_siw_fence_holds_work(struct ib_qp *qp);
int __must_check mpa2_siw_open_fence(struct mpa2_binding *b, struct ib_qp *qp,
				     struct iw_cm_id *cm_id,
				     struct iw_cm_event *established, u8 rtr);
struct socket __must_check *mpa2_siw_take_back(struct mpa2_binding *b,
					       struct ib_qp *qp,
					       const struct mpa2_sock_ops *ops,
					       void *user_data);
void mpa2_siw_unbind(struct mpa2_binding *b);

struct mpa2_fence_owner *mpa2_siw_fence_owner(const struct sock *sk);
bool __must_check mpa2_siw_find_record(struct ib_device *dev, const void *context,
				       struct mpa2_record *record);
unsigned int mpa2_siw_stock_listeners(struct ib_device *dev);
struct net_device __must_check *mpa2_siw_netdev(struct ib_device *dev);

#endif /* IW_MPA2_SIW_H */
