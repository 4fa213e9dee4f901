// SPDX-License-Identifier: GPL-2.0
/*
 * Hand-over: a connected socket becomes a siw connection, and the transmit
 * fence that holds a responder's work until the first FPDU is in.
 *
 * siw gets a native struct siw_cep, allocated here and freed by siw's own last
 * put; our part lies behind it in the same allocation.
 *
 * Order of locks: Documentation/locking.rst.  siw takes in_use, a sleeping lock
 * of its own, under state_lock when it drops a connection; nobody may wait for
 * state_lock while owning in_use.
 */
#include <linux/module.h>
#include <linux/slab.h>
#include <net/tcp.h>

#include <iw_mpa2/core.h>

#include "../compat/compat.h"
#include "siw.h"
#include "siw_view.h"
#include "symbols.h"

#define CEP_WORKS 4	/* what siw preallocates for one connection */
/* In a field that siw is done with; changes with struct mpa2_tail. */
#define CEP_MARK "iw_mpa2 cep v2"

/* Our part behind siw's cep; plain values only once the fence has opened. */
struct mpa2_tail {
	struct mpa2_fence_owner *owner;	/* under sk_callback_lock */
	struct mpa2_shim *shim;		/* under in_use */
	struct mpa2_record record;	/* under the device's lock */
};

/* The cm_id that siw sees until the fence opens. */
struct mpa2_shim {
	struct iw_cm_id id;
	struct siw_cep *cep;
	struct mpa2_fence_owner *owner;
};

#define TAIL_OFFSET ALIGN(SIW_SIZE_siw_cep, sizeof(void *))

static struct mpa2_tail *tail_of(const struct siw_cep *cep)
{
	return SIW_AT(cep, TAIL_OFFSET, struct mpa2_tail);
}

/**
 * mpa2_siw_fence_owner() - whose closed fence a socket is behind
 * @sk: a socket that mpa2_siw_attach_responder() gave its fence callbacks
 *
 * Context: sk_callback_lock held.
 * Return: the owner, good that long; NULL once siw has let go.
 */
struct mpa2_fence_owner *mpa2_siw_fence_owner(const struct sock *sk)
{
	lockdep_assert_held(&sk->sk_callback_lock);
	return tail_of(sk->sk_user_data)->owner;
}

/* ---- in_use: siw's sleeping lock of a cep ---- */

static bool try_in_use(struct siw_cep *cep)
{
	spinlock_t *lock = SIW_CEP(cep, lock, spinlock_t);
	unsigned long flags;
	bool mine;

	spin_lock_irqsave(lock, flags);
	mine = !*SIW_CEP(cep, in_use, int);
	*SIW_CEP(cep, in_use, int) = 1;
	spin_unlock_irqrestore(lock, flags);
	return mine;
}

static void take_in_use(struct siw_cep *cep)
{
	wait_event(*SIW_CEP(cep, waitq, wait_queue_head_t), try_in_use(cep));
}

static void free_in_use(struct siw_cep *cep)
{
	spinlock_t *lock = SIW_CEP(cep, lock, spinlock_t);
	unsigned long flags;

	spin_lock_irqsave(lock, flags);
	*SIW_CEP(cep, in_use, int) = 0;
	spin_unlock_irqrestore(lock, flags);
	wake_up(SIW_CEP(cep, waitq, wait_queue_head_t));
}

/* ---- the shim id ---- */

static int shim_event(struct iw_cm_id *id, struct iw_cm_event *event)
{
	/* The endpoint raises its own events; siw's word is only "it is over". */
	return 0;
}

static void shim_add_ref(struct iw_cm_id *id)
{
}

/* siw lets go: called once, with in_use and perhaps state_lock held. */
static void shim_rem_ref(struct iw_cm_id *id)
{
	struct mpa2_shim *shim = container_of(id, struct mpa2_shim, id);
	struct mpa2_fence_owner *owner = shim->owner;
	struct mpa2_tail *tail = tail_of(shim->cep);
	struct socket *sock = *SIW_CEP(shim->cep, sock, struct socket *);

	if (sock) {
		write_lock_bh(&sock->sk->sk_callback_lock);
		tail->owner = NULL;
		write_unlock_bh(&sock->sk->sk_callback_lock);
	} else {
		tail->owner = NULL;
	}
	tail->shim = NULL;
	kfree(shim);
	owner->released(owner);
}

static struct mpa2_shim *shim_alloc(struct siw_cep *cep, struct ib_device *dev,
				    struct mpa2_fence_owner *owner)
{
	struct mpa2_shim *shim = kzalloc(sizeof(*shim), GFP_KERNEL);

	if (!shim)
		return NULL;
	shim->id.device = dev;
	shim->id.event_handler = shim_event;
	shim->id.add_ref = shim_add_ref;
	shim->id.rem_ref = shim_rem_ref;
	shim->cep = cep;
	shim->owner = owner;
	return shim;
}

/* ---- the cep ---- */

static void set_lock_class(spinlock_t *lock, enum mpa2_lock_key key)
{
	lockdep_set_class_and_name(lock, mpa2_siw_lock_key(key),
				   mpa2_siw_lock_name());
}

static int alloc_works(struct siw_cep *cep)
{
	struct list_head *free = SIW_CEP(cep, work_freelist, struct list_head);
	int i;

	for (i = 0; i < CEP_WORKS; i++) {
		struct siw_cm_work *work;

		work = kmalloc(SIW_SIZE_siw_cm_work, GFP_KERNEL);
		if (!work)
			return -ENOMEM;
		*SIW_FIELD(work, siw_cm_work, cep, struct siw_cep *) = cep;
		list_add(SIW_FIELD(work, siw_cm_work, list, struct list_head),
			 free);
	}
	return 0;
}

/* Returned with one reference, in_use taken, and linked to its device. */
static struct siw_cep *cep_alloc(struct siw_device *sdev,
				 const struct mpa2_record *record)
{
	spinlock_t *dev_lock = SIW_FIELD(sdev, siw_device, lock, spinlock_t);
	struct siw_cep *cep;
	unsigned long flags;

	cep = kzalloc(TAIL_OFFSET + sizeof(struct mpa2_tail), GFP_KERNEL);
	if (!cep)
		return NULL;
	INIT_LIST_HEAD(SIW_CEP(cep, devq, struct list_head));
	INIT_LIST_HEAD(SIW_CEP(cep, listenq, struct list_head));
	INIT_LIST_HEAD(SIW_CEP(cep, work_freelist, struct list_head));
	kref_init(SIW_CEP(cep, ref, struct kref));
	spin_lock_init(SIW_CEP(cep, lock, spinlock_t));
	set_lock_class(SIW_CEP(cep, lock, spinlock_t), MPA2_KEY_CEP_LOCK);
	__init_waitqueue_head(SIW_CEP(cep, waitq, wait_queue_head_t),
			      mpa2_siw_lock_name(),
			      mpa2_siw_lock_key(MPA2_KEY_CEP_WAITQ));
	*SIW_CEP(cep, sdev, struct siw_device *) = sdev;
	*SIW_CEP(cep, state, int) = SIW_ENUM_SIW_EPSTATE_RDMA_MODE;
	*SIW_CEP(cep, in_use, int) = 1;
	strscpy(SIW_CEP(cep, mpa, char), CEP_MARK, sizeof(CEP_MARK));
	tail_of(cep)->record = *record;

	spin_lock_irqsave(dev_lock, flags);
	list_add_tail(SIW_CEP(cep, devq, struct list_head),
		      SIW_FIELD(sdev, siw_device, cep_list, struct list_head));
	spin_unlock_irqrestore(dev_lock, flags);

	if (alloc_works(cep)) {
		static_call(siw_cep_put)(cep);
		return NULL;
	}
	return cep;
}

static void cep_get(struct siw_cep *cep)
{
	kref_get(SIW_CEP(cep, ref, struct kref));
}

/* ---- siw's lock of a QP's state ---- */

static void assert_state_lock(struct siw_qp *qp)
{
	lockdep_assert_held(SIW_QP(qp, state_lock, struct rw_semaphore));
}

static void assert_state_lock_write(struct siw_qp *qp)
{
	lockdep_assert_held_write(SIW_QP(qp, state_lock, struct rw_semaphore));
}

/* ---- QP preconditions (a QP that was used before comes up dead) ---- */

static bool qp_is_fresh(struct siw_qp *qp)
{
	int state = *SIW_QP_ATTR(qp, state, int);

	assert_state_lock(qp);
	return (state == SIW_ENUM_SIW_QP_STATE_IDLE ||
		state == SIW_ENUM_SIW_QP_STATE_RTR) &&
	       !*SIW_QP(qp, cep, struct siw_cep *) && !siw_tx_suspended(qp) &&
	       !siw_rx_suspended(qp) && !*SIW_QP(qp, orq, struct siw_sqe *) &&
	       !*SIW_QP(qp, irq, struct siw_sqe *) &&
	       *SIW_RX(qp, state, int) == SIW_ENUM_SIW_GET_HDR &&
	       !*SIW_RX(qp, fpdu_part_rcvd, int) &&
	       *SIW_TX_WQE(qp, wr_status, int) == SIW_ENUM_SIW_WR_IDLE;
}

/**
 * mpa2_siw_check_qp() - whether a QP can be connected
 * @ib_qp: a QP of siw's, referenced by the caller
 *
 * Context: may sleep.
 * Return: 0, or -EINVAL if the QP is or was connected, or is being moved.
 */
int mpa2_siw_check_qp(struct ib_qp *ib_qp)
{
	struct siw_qp *qp = siw_qp_of(ib_qp);
	bool fresh;

	down_read(SIW_QP(qp, state_lock, struct rw_semaphore));
	fresh = qp_is_fresh(qp);
	up_read(SIW_QP(qp, state_lock, struct rw_semaphore));
	return fresh ? 0 : -EINVAL;
}

/* state_lock held for write. */
static int qp_to_rts(struct siw_qp *qp, const struct mpa2_handover *h)
{
	u64 attrs[DIV_ROUND_UP(SIW_SIZE_siw_qp_attrs, sizeof(u64))] = {};
	int ret;

	assert_state_lock_write(qp);
	*SIW_FIELD(attrs, siw_qp_attrs, state, int) =
		SIW_ENUM_SIW_QP_STATE_RTS;
	*SIW_FIELD(attrs, siw_qp_attrs, irq_size, u32) = h->ird;
	*SIW_FIELD(attrs, siw_qp_attrs, orq_size, u32) = h->ord;
	*SIW_FIELD(attrs, siw_qp_attrs, sk, struct socket *) = h->sock;
	if (h->crc)
		*SIW_FIELD(attrs, siw_qp_attrs, flags, int) =
			SIW_ENUM_SIW_MPA_CRC;
	ret = static_call(siw_qp_modify)(qp, attrs,
					 SIW_ENUM_SIW_QP_ATTR_STATE |
						 SIW_ENUM_SIW_QP_ATTR_LLP_HANDLE |
						 SIW_ENUM_SIW_QP_ATTR_ORD |
						 SIW_ENUM_SIW_QP_ATTR_IRD |
						 SIW_ENUM_SIW_QP_ATTR_MPA);
	/* siw frees irq when orq cannot be had, and keeps the pointer. */
	if (ret)
		*SIW_QP(qp, irq, struct siw_sqe *) = NULL;
	return ret;
}

/* The Read RTR's answer needs an ORQ entry, or siw takes it for an error. */
static void place_read_rtr(struct siw_qp *qp)
{
	struct siw_sqe *orq = *SIW_QP(qp, orq, struct siw_sqe *);
	u32 *put = SIW_QP(qp, orq_put, u32);
	struct siw_sqe *entry = &orq[*put % *SIW_QP_ATTR(qp, orq_size, u32)];

	memset(entry, 0, sizeof(*entry));
	entry->opcode = SIW_OP_READ;
	entry->num_sge = 1;
	entry->sge[0].lkey = 1;	/* the sink STag of our RTR (AMB-22) */
	WRITE_ONCE(entry->flags, SIW_WQE_VALID);
	++*put;
}

/* The MSNs that our own RTR has used; siw increments before use. */
static void account_sent_rtr(struct siw_qp *qp, u8 rtr)
{
	u32 *msn = SIW_TX(qp, ddp_msn, u32);

	assert_state_lock_write(qp);
	if (rtr == MPA2_RTR_SEND)
		msn[SIW_QN_SEND] = 1;
	if (rtr == MPA2_RTR_READ) {
		msn[SIW_QN_READ] = 1;
		place_read_rtr(qp);
	}
}

/*
 * Close the fence: with the active element queued, post_send() never starts
 * the queue, and a flush of it makes no completion.  state_lock for write.
 */
static void close_fence(struct siw_qp *qp)
{
	struct siw_sqe *sqe = SIW_TX_WQE(qp, sqe, struct siw_sqe);

	assert_state_lock_write(qp);
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = SIW_OP_READ_RESPONSE;
	memset(SIW_TX_WQE(qp, mem, void *), 0, sizeof(void *));
	*SIW_TX_WQE(qp, bytes, u32) = 0;
	*SIW_TX_WQE(qp, processed, u32) = 0;
	*SIW_TX_WQE(qp, wr_status, int) = SIW_ENUM_SIW_WR_QUEUED;
}

static void save_original(struct siw_cep *cep, const struct mpa2_sock_ops *ops)
{
	*SIW_CEP(cep, sk_state_change, void *) = ops->state_change;
	*SIW_CEP(cep, sk_data_ready, void *) = ops->data_ready;
	*SIW_CEP(cep, sk_write_space, void *) = ops->write_space;
	*SIW_CEP(cep, sk_error_report, void *) = ops->error_report;
}

/*
 * Give the socket to the cep with the callbacks in ops; socket lock held.
 * What the socket's state was then is what ops have missed.
 */
static void install_callbacks(struct sock *sk, void *user_data,
			      const struct mpa2_sock_ops *ops)
{
	sock_owned_by_me(sk);
	write_lock_bh(&sk->sk_callback_lock);
	sk->sk_user_data = user_data;
	sk->sk_state_change = ops->state_change;
	sk->sk_data_ready = ops->data_ready;
	sk->sk_write_space = ops->write_space;
	sk->sk_error_report = ops->error_report;
	write_unlock_bh(&sk->sk_callback_lock);
}

static const struct mpa2_sock_ops *siw_ops(void)
{
	BUILD_BUG_ON(sizeof(struct mpa2_sock_ops) !=
		     sizeof(struct mpa2_siw_callbacks));
	return (const struct mpa2_sock_ops *)&mpa2_siw_callbacks;
}

/*
 * The callbacks of a connection that is siw's.  siw's error_report would call
 * TCP's own and nothing else, but looks at the cep without a lock, so
 * TCP's own stays.
 */
static void install_siw_callbacks(struct sock *sk, struct siw_cep *cep)
{
	struct mpa2_sock_ops ops = *siw_ops();

	ops.error_report = *SIW_CEP(cep, sk_error_report, typeof(ops.error_report));
	install_callbacks(sk, cep, &ops);
}

/*
 * Tie socket, cep and QP together and move the QP to RTS.  On success siw owns
 * the caller's QP reference and cm_id reference, in_use is held.  Without
 * fence_ops the connection is siw's at once.
 */
static int attach(struct mpa2_binding *b, const struct mpa2_handover *h,
		  struct siw_cep *cep, const struct mpa2_sock_ops *fence_ops)
{
	struct siw_qp *qp = siw_qp_of(h->qp);
	struct sock *sk = h->sock->sk;
	int ret;

	down_write(SIW_QP(qp, state_lock, struct rw_semaphore));
	if (!qp_is_fresh(qp)) {
		ret = -EINVAL;
		goto unlock;
	}
	ret = qp_to_rts(qp, h);
	if (ret)
		goto unlock;
	if (fence_ops)
		close_fence(qp);
	else
		account_sent_rtr(qp, h->rtr);

	/* One each for the socket, the QP and our binding; the first one goes
	 * with the cm_id.
	 */
	cep_get(cep);
	cep_get(cep);
	cep_get(cep);
	*SIW_CEP(cep, sock, struct socket *) = h->sock;
	*SIW_CEP(cep, qp, struct siw_qp *) = qp;
	*SIW_CEP(cep, ird, int) = h->ird;
	*SIW_CEP(cep, ord, int) = h->ord;
	*SIW_CEP(cep, enhanced_rdma_conn_est, bool) = false;
	*SIW_QP(qp, cep, struct siw_cep *) = cep;
	b->cep = cep;

	lock_sock(sk);
	save_original(cep, h->original);
	b->missed_close = sk->sk_state != TCP_ESTABLISHED;
	if (fence_ops)
		install_callbacks(sk, cep, fence_ops);
	else
		install_siw_callbacks(sk, cep);
	release_sock(sk);
unlock:
	up_write(SIW_QP(qp, state_lock, struct rw_semaphore));
	return ret;
}

/* Let siw see what came before its callbacks were there; in_use held. */
static void kick_receive(struct sock *sk, bool closed)
{
	/* siw's callbacks expect to run where TCP calls them, with BHs off. */
	lock_sock(sk);
	local_bh_disable();
	static_call(siw_qp_llp_data_ready)(sk);
	local_bh_enable();
	release_sock(sk);
	if (!closed)
		return;
	local_bh_disable();
	mpa2_siw_callbacks.state_change(sk);
	local_bh_enable();
}

/**
 * mpa2_siw_attach_initiator() - move the initiator's QP to RTS on our socket
 * @b: the binding to fill
 * @h: what to hand over; the RTR has been sent whole before (RTR-15)
 *
 * On success in_use is held: mpa2_siw_finish_initiator() has to follow once
 * the ULP has been told, so that no close can overtake that.
 *
 * Context: may sleep, endpoint lock held.
 * Return: 0, -EINVAL (QP not fresh), -ENOMEM, or what siw says.
 */
int mpa2_siw_attach_initiator(struct mpa2_binding *b,
			      const struct mpa2_handover *h)
{
	struct siw_cep *cep = cep_alloc(siw_device_of(h->qp->device), &h->record);
	int ret;

	if (!cep)
		return -ENOMEM;
	*SIW_CEP(cep, cm_id, struct iw_cm_id *) = h->cm_id;
	ret = attach(b, h, cep, NULL);
	if (ret) {
		*SIW_CEP(cep, cm_id, struct iw_cm_id *) = NULL;
		static_call(siw_cep_put)(cep);
	}
	return ret;
}

/**
 * mpa2_siw_finish_initiator() - from here the connection is siw's
 * @b: a binding of mpa2_siw_attach_initiator()
 *
 * Context: may sleep.
 */
void mpa2_siw_finish_initiator(struct mpa2_binding *b)
{
	struct socket *sock = *SIW_CEP(b->cep, sock, struct socket *);

	kick_receive(sock->sk, b->missed_close);
	free_in_use(b->cep);
	mpa2_siw_unbind(b);
}

/**
 * mpa2_siw_attach_responder() - move the responder's QP to RTS, fence closed
 * @b: the binding to fill
 * @h: what to hand over; the cm_id stays the caller's until the fence opens
 * @fence_ops: socket callbacks while the fence is closed; they find their
 *	owner with mpa2_siw_fence_owner() under sk_callback_lock
 * @owner: told when siw lets go; holds whatever reference it needs
 *
 * Context: may sleep, endpoint lock held.
 * Return: as mpa2_siw_attach_initiator(); released() is called on success only.
 */
int mpa2_siw_attach_responder(struct mpa2_binding *b,
			      const struct mpa2_handover *h,
			      const struct mpa2_sock_ops *fence_ops,
			      struct mpa2_fence_owner *owner)
{
	struct siw_cep *cep = cep_alloc(siw_device_of(h->qp->device), &h->record);
	struct mpa2_tail *tail;
	struct mpa2_shim *shim;
	int ret;

	if (!cep)
		return -ENOMEM;
	shim = shim_alloc(cep, h->qp->device, owner);
	if (!shim) {
		static_call(siw_cep_put)(cep);
		return -ENOMEM;
	}
	tail = tail_of(cep);
	tail->owner = owner;
	tail->shim = shim;
	*SIW_CEP(cep, cm_id, struct iw_cm_id *) = &shim->id;
	ret = attach(b, h, cep, fence_ops);
	if (ret) {
		*SIW_CEP(cep, cm_id, struct iw_cm_id *) = NULL;
		kfree(shim);
		static_call(siw_cep_put)(cep);
		return ret;
	}
	free_in_use(cep);
	return 0;
}

/**
 * mpa2_siw_fence_enter() - use the socket behind a closed fence
 * @b: a binding of mpa2_siw_attach_responder()
 *
 * Context: may sleep.
 * Return: the socket, safe to use until mpa2_siw_fence_leave(); NULL if siw has
 * torn the connection down.
 */
struct socket *mpa2_siw_fence_enter(struct mpa2_binding *b)
{
	struct socket *sock;

	take_in_use(b->cep);
	sock = *SIW_CEP(b->cep, sock, struct socket *);
	if (!sock || !tail_of(b->cep)->shim) {
		free_in_use(b->cep);
		return NULL;
	}
	return sock;
}

/**
 * mpa2_siw_fence_leave() - done with the socket of mpa2_siw_fence_enter()
 * @b: the binding
 *
 * Context: may sleep.
 */
void mpa2_siw_fence_leave(struct mpa2_binding *b)
{
	free_in_use(b->cep);
}

/**
 * mpa2_siw_fence_holds_work() - whether the ULP has posted work behind the fence
 * @ib_qp: the fenced QP, referenced by the caller
 *
 * A hint for logs and counters: the queue may change at any moment.
 *
 * Context: may sleep.
 */
bool mpa2_siw_fence_holds_work(struct ib_qp *ib_qp)
{
	struct siw_qp *qp = siw_qp_of(ib_qp);
	struct siw_sqe *sendq;
	bool holds = false;
	u32 size;

	down_read(SIW_QP(qp, state_lock, struct rw_semaphore));
	sendq = *SIW_QP(qp, sendq, struct siw_sqe *);
	size = *SIW_QP_ATTR(qp, sq_size, u32);
	if (sendq && size)
		holds = READ_ONCE(sendq[*SIW_QP(qp, sq_get, u32) % size].flags);
	up_read(SIW_QP(qp, state_lock, struct rw_semaphore));
	return holds;
}

/* The MSNs that an RTR taken off the stream has used. */
static void account_taken_rtr(struct siw_qp *qp, u8 rtr)
{
	u32 *msn = SIW_RX(qp, ddp_msn, u32);

	assert_state_lock(qp);
	if (rtr == MPA2_RTR_SEND)
		msn[SIW_QN_SEND] = 2;
	if (rtr == MPA2_RTR_READ)
		msn[SIW_QN_READ] = 2;
}

static void record_rtr(struct ib_device *dev, struct mpa2_tail *tail, u8 rtr)
{
	spinlock_t *lock = SIW_FIELD(siw_device_of(dev), siw_device, lock, spinlock_t);
	unsigned long flags;

	spin_lock_irqsave(lock, flags);
	tail->record.rtr = rtr;
	spin_unlock_irqrestore(lock, flags);
}

/* Start what was held, in order. Returns as siw_activate_tx(). */
static int release_held_work(struct siw_qp *qp)
{
	spinlock_t *lock = SIW_QP(qp, sq_lock, spinlock_t);
	unsigned long flags;
	int ret;

	assert_state_lock(qp);
	spin_lock_irqsave(lock, flags);
	*SIW_TX_WQE(qp, wr_status, int) = SIW_ENUM_SIW_WR_IDLE;
	ret = static_call(siw_activate_tx)(qp);
	spin_unlock_irqrestore(lock, flags);
	return ret;
}

/**
 * mpa2_siw_open_fence() - the first FPDU is in: the connection becomes siw's
 * @b: a binding of mpa2_siw_attach_responder(); gone on success
 * @ib_qp: its QP, referenced by the caller beyond this call
 * @cm_id: the real id; its reference goes to siw on success
 * @established: event to raise before siw can raise any, or NULL
 * @rtr: the RTR kind that was taken off the stream, 0 if none was
 *
 * state_lock is only read: a write hold would fail a post_send() of the same
 * moment, and work posted early has to be held, not failed.
 *
 * Context: may sleep, endpoint lock held.
 * Return: 0, or -ENOTCONN if siw tore the connection down first (then nothing
 * was raised and the cm_id reference is still the caller's).
 */
int mpa2_siw_open_fence(struct mpa2_binding *b, struct ib_qp *ib_qp,
			struct iw_cm_id *cm_id, struct iw_cm_event *established,
			u8 rtr)
{
	struct rw_semaphore *state_lock;
	struct siw_qp *qp = siw_qp_of(ib_qp);
	struct siw_cep *cep = b->cep;
	struct mpa2_tail *tail = tail_of(cep);
	struct mpa2_shim *shim;
	bool closed;
	struct sock *sk;
	int held;

	state_lock = SIW_QP(qp, state_lock, struct rw_semaphore);
	down_read(state_lock);
	take_in_use(cep);
	shim = tail->shim;
	if (*SIW_QP_ATTR(qp, state, int) != SIW_ENUM_SIW_QP_STATE_RTS ||
	    *SIW_CEP(cep, state, int) != SIW_ENUM_SIW_EPSTATE_RDMA_MODE ||
	    !*SIW_CEP(cep, sock, struct socket *) || !shim) {
		free_in_use(cep);
		up_read(state_lock);
		return -ENOTCONN;
	}
	sk = (*SIW_CEP(cep, sock, struct socket *))->sk;
	if (established)
		cm_id->event_handler(cm_id, established);
	account_taken_rtr(qp, rtr);
	record_rtr(ib_qp->device, tail, rtr);

	lock_sock(sk);
	write_lock_bh(&sk->sk_callback_lock);
	tail->owner = NULL;
	write_unlock_bh(&sk->sk_callback_lock);
	closed = sk->sk_state != TCP_ESTABLISHED;
	install_siw_callbacks(sk, cep);
	release_sock(sk);

	tail->shim = NULL;
	*SIW_CEP(cep, cm_id, struct iw_cm_id *) = cm_id;
	held = release_held_work(qp);
	up_read(state_lock);

	if (held > 0)
		static_call(siw_sq_start)(qp);
	kick_receive(sk, closed);
	if (held < 0)
		static_call(siw_qp_cm_drop)(qp, 1);
	free_in_use(cep);
	kfree(shim);
	mpa2_siw_unbind(b);
	return 0;
}

/**
 * mpa2_siw_take_back() - end a fenced connection and keep its socket
 * @b: a binding of mpa2_siw_attach_responder()
 * @ib_qp: its QP, referenced by the caller beyond this call
 * @ops: socket callbacks from here on
 * @user_data: their sk_user_data
 *
 * Moves the QP to ERROR with its queues flushed; siw's teardown finds no
 * socket, so that the caller can close it in the way the standard wants.
 *
 * Context: may sleep, endpoint lock held.
 * Return: the socket, now the caller's, or NULL if siw has released it.
 */
struct socket *mpa2_siw_take_back(struct mpa2_binding *b, struct ib_qp *ib_qp,
				  const struct mpa2_sock_ops *ops,
				  void *user_data)
{
	u64 attrs[DIV_ROUND_UP(SIW_SIZE_siw_qp_attrs, sizeof(u64))] = {};
	struct siw_qp *qp = siw_qp_of(ib_qp);
	struct siw_cep *cep = b->cep;
	struct socket *sock;

	down_write(SIW_QP(qp, state_lock, struct rw_semaphore));
	take_in_use(cep);
	sock = *SIW_CEP(cep, sock, struct socket *);
	if (sock) {
		lock_sock(sock->sk);
		install_callbacks(sock->sk, user_data, ops);
		release_sock(sock->sk);
		*SIW_CEP(cep, sock, struct socket *) = NULL;
		*SIW_QP_ATTR(qp, sk, struct socket *) = NULL;
		static_call(siw_cep_put)(cep);
	}
	free_in_use(cep);

	siw_set_tx_suspended(qp);
	*SIW_FIELD(attrs, siw_qp_attrs, state, int) =
		SIW_ENUM_SIW_QP_STATE_ERROR;
	static_call(siw_qp_modify)(qp, attrs, SIW_ENUM_SIW_QP_ATTR_STATE);
	up_write(SIW_QP(qp, state_lock, struct rw_semaphore));
	return sock;
}

/**
 * mpa2_siw_unbind() - drop the binding's reference
 * @b: any binding; empty afterwards
 */
void mpa2_siw_unbind(struct mpa2_binding *b)
{
	if (b->cep)
		static_call(siw_cep_put)(b->cep);
	b->cep = NULL;
}

/* The mark is there before anybody can find the cep, and stays. */
static bool cep_is_ours(struct siw_cep *cep)
{
	return !strncmp(SIW_CEP(cep, mpa, char), CEP_MARK, sizeof(CEP_MARK));
}

/*
 * A connection of ours that siw has not let go of; in_use or the device's lock is
 * held.
 */
static bool cep_is_up(struct siw_cep *cep)
{
	return *SIW_CEP(cep, state, int) == SIW_ENUM_SIW_EPSTATE_RDMA_MODE &&
	       READ_ONCE(*SIW_CEP(cep, cm_id, struct iw_cm_id *)) && cep_is_ours(cep);
}

/**
 * mpa2_siw_poll_receive() - read what came while a QP was being modified
 * @ib_qp: the QP, referenced by the caller
 *
 * siw reads in its socket callback, but not while somebody changes the QP, and
 * then waits for the next segment, which may never come.
 *
 * Context: may sleep, nothing of siw's held.
 */
void mpa2_siw_poll_receive(struct ib_qp *ib_qp)
{
	struct siw_qp *qp = siw_qp_of(ib_qp);
	struct socket *sock;
	struct siw_cep *cep;

	down_read(SIW_QP(qp, state_lock, struct rw_semaphore));
	cep = *SIW_QP(qp, cep, struct siw_cep *);
	/* Stock siw may own in_use of its own for as long as a connect takes. */
	if (cep && !cep_is_ours(cep))
		cep = NULL;
	if (cep)
		cep_get(cep);
	up_read(SIW_QP(qp, state_lock, struct rw_semaphore));
	if (!cep)
		return;
	take_in_use(cep);
	sock = *SIW_CEP(cep, sock, struct socket *);
	if (sock && cep_is_up(cep) && !tail_of(cep)->shim)
		kick_receive(sock->sk, false);
	free_in_use(cep);
	static_call(siw_cep_put)(cep);
}

/**
 * mpa2_siw_find_record() - what was agreed on a connection that siw has
 * @dev: a siw device
 * @context: its rdma_cm id, as it was in iw_cm_id.context
 * @record: filled when it is found
 *
 * A cep is unlinked under the device's lock before it is freed.  Context: any.
 * Return: whether there is such a connection of ours.
 */
bool mpa2_siw_find_record(struct ib_device *dev, const void *context,
			  struct mpa2_record *record)
{
	struct siw_device *sdev = siw_device_of(dev);
	spinlock_t *lock = SIW_FIELD(sdev, siw_device, lock, spinlock_t);
	struct list_head *list, *entry;
	unsigned long flags;
	bool found = false;

	list = SIW_FIELD(sdev, siw_device, cep_list, struct list_head);
	spin_lock_irqsave(lock, flags);
	list_for_each(entry, list) {
		struct siw_cep *cep = SIW_AT(entry, -(long)SIW_OFF_siw_cep__devq,
					     struct siw_cep);

		if (!cep_is_up(cep) || tail_of(cep)->record.context != context)
			continue;
		*record = tail_of(cep)->record;
		found = true;
		break;
	}
	spin_unlock_irqrestore(lock, flags);
	return found;
}

/* Up to max listening ceps of stock siw, each with a reference. */
static unsigned int get_stock_listeners(struct siw_device *sdev,
					struct siw_cep **ceps, unsigned int max)
{
	spinlock_t *lock = SIW_FIELD(sdev, siw_device, lock, spinlock_t);
	struct list_head *list, *entry;
	unsigned int found = 0;
	unsigned long flags;

	list = SIW_FIELD(sdev, siw_device, cep_list, struct list_head);
	spin_lock_irqsave(lock, flags);
	list_for_each(entry, list) {
		struct siw_cep *cep = SIW_AT(entry, -(long)SIW_OFF_siw_cep__devq,
					     struct siw_cep);

		if (found < max &&
		    *SIW_CEP(cep, state, int) ==
			    SIW_ENUM_SIW_EPSTATE_LISTENING &&
		    kref_get_unless_zero(SIW_CEP(cep, ref, struct kref)))
			ceps[found++] = cep;
	}
	spin_unlock_irqrestore(lock, flags);
	return found;
}

/**
 * mpa2_siw_stock_listeners() - name the listeners that stay with stock siw
 * @dev: a siw device that we have just taken over
 *
 * They were there first, and no op can move them: their service has to be
 * restarted.  One line each.
 *
 * Context: may sleep.
 * Return: how many there are (64 at most).
 */
unsigned int mpa2_siw_stock_listeners(struct ib_device *dev)
{
	struct sockaddr_storage addr, peer;
	struct siw_cep *ceps[64];
	struct socket *sock;
	unsigned int n, i;

	n = get_stock_listeners(siw_device_of(dev), ceps, ARRAY_SIZE(ceps));
	for (i = 0; i < n; i++) {
		take_in_use(ceps[i]);
		sock = *SIW_CEP(ceps[i], sock, struct socket *);
		if (sock) {
			mpa2_tcp_addresses(sock, &addr, &peer);
			pr_notice("%s: the listener on %pISpc is stock siw's: restart its service\n",
				  dev_name(&dev->dev), &addr);
		}
		free_in_use(ceps[i]);
		static_call(siw_cep_put)(ceps[i]);
	}
	return n;
}

/**
 * mpa2_siw_netdev() - the network device below a siw device
 * @dev: a registered siw device
 *
 * Return: the device with a reference for the caller, or NULL.
 */
struct net_device *mpa2_siw_netdev(struct ib_device *dev)
{
#if SIW_HAVE_siw_device__netdev
	struct net_device *netdev;

	netdev = *SIW_FIELD(siw_device_of(dev), siw_device, netdev,
			    struct net_device *);
	dev_hold(netdev);
	return netdev;
#else
	return ib_device_get_netdev(dev, 1);
#endif
}
