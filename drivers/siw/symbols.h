/* SPDX-License-Identifier: GPL-2.0 */
/* siw's own functions, which it does not export: see symbols.c. */
#ifndef IW_MPA2_SIW_SYMBOLS_H
#define IW_MPA2_SIW_SYMBOLS_H

#include <linux/static_call.h>
#include <net/sock.h>

struct siw_qp;
struct siw_cep;

/* Parameter lists as in siw; enum arguments travel as int. */
int mpa2_stub_qp_modify(struct siw_qp *qp, void *attrs, int mask);
void mpa2_stub_cep_put(struct siw_cep *cep);
int mpa2_stub_sq_start(struct siw_qp *qp);
int mpa2_stub_activate_tx(struct siw_qp *qp);
void mpa2_stub_qp_cm_drop(struct siw_qp *qp, int schedule);
void mpa2_stub_data_ready(struct sock *sk);

DECLARE_STATIC_CALL(siw_qp_modify, mpa2_stub_qp_modify);
DECLARE_STATIC_CALL(siw_cep_put, mpa2_stub_cep_put);
DECLARE_STATIC_CALL(siw_sq_start, mpa2_stub_sq_start);
DECLARE_STATIC_CALL(siw_activate_tx, mpa2_stub_activate_tx);
DECLARE_STATIC_CALL(siw_qp_cm_drop, mpa2_stub_qp_cm_drop);
DECLARE_STATIC_CALL(siw_qp_llp_data_ready, mpa2_stub_data_ready);

/* Addresses that siw stores in sockets, and so do we. */
struct mpa2_siw_callbacks {
	void (*state_change)(struct sock *sk);
	void (*data_ready)(struct sock *sk);
	void (*write_space)(struct sock *sk);
	void (*error_report)(struct sock *sk);
};

extern struct mpa2_siw_callbacks mpa2_siw_callbacks;

/*
 * Lock classes of objects that outlive this module need keys and names that do
 * too: they are addresses inside siw, which every cep belongs to.
 */
enum mpa2_lock_key {
	MPA2_KEY_CEP_LOCK = 0,
	MPA2_KEY_CEP_WAITQ,
	MPA2_KEY_NR,
};

struct lock_class_key *mpa2_siw_lock_key(enum mpa2_lock_key which);
const char *mpa2_siw_lock_name(void);

int __must_check mpa2_siw_resolve(void);
void mpa2_siw_release(void);

#endif /* IW_MPA2_SIW_SYMBOLS_H */
