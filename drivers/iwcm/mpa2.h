/* SPDX-License-Identifier: GPL-2.0 */
/* The iw_cm side of iw_mpa2: devices, listeners, endpoints, parameters. */
#ifndef IW_MPA2_MPA2_H
#define IW_MPA2_MPA2_H

#include <linux/atomic.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/srcu.h>
#include <linux/timer.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>
#include <rdma/iw_cm.h>
#include <rdma/rdma_cm.h>

#include <iw_mpa2/core.h>

#include "../net/tcp.h"
#include "../siw/siw.h"
#include "counters.h"
#include "settings.h"

/* ---- rules (rules.c) ---- */

/* What a connection is, for rules to look at. */
struct mpa2_match {
	const char *device;
	const char *comm;	/* who connects, or who listens */
	const struct sockaddr_storage *local, *remote;
};

void mpa2_rules_apply(struct mpa2_settings *settings,
		      const struct mpa2_match *match);
int __must_check mpa2_rules_start(void);
void mpa2_rules_stop(void);

/* ---- options of kernel ULPs (options.c) ---- */

bool __must_check mpa2_options_take(const void *id, struct mpa2_choice *choice);
void mpa2_options_listen(const struct iw_cm_id *id, struct mpa2_choice *choice);
void mpa2_options_unlisten(const struct iw_cm_id *id);
void mpa2_options_stop(void);

/* ---- parameters (params.c); for the settings see settings.h ---- */

unsigned int mpa2_max_pending(void);

/* ---- devices (device.c) ---- */

/* One siw device whose ops we stand in. */
struct mpa2_device {
	struct kref ref;
	struct ib_device *ibdev;
	struct list_head node;		/* mpa2_devices */
	struct ib_device_ops saved;	/* siw's own */
	struct rcu_head rcu;

	spinlock_t lock;		/* endpoints, going */
	struct list_head endpoints;	/* pending ones */
	bool going;			/* no new work */
	struct xarray pending_qps;	/* QP number -> pending endpoint */
	bool pins_module;		/* removed, but still routing */

	struct list_head listeners;	/* under lock, too */
	bool disabled;			/* new work goes to stock siw */
	bool counters_shown;		/* in sysfs; by add and remove only */

	atomic_t nr_pending;
	atomic_t nr_undecided[2];	/* by role: without a result yet */
	unsigned int nr_passive;	/* under lock: count to max_pending */
	struct list_head starved;	/* listeners without room, under lock */
	struct mpa2_counters counters;
};

/* Around everything that iw_cm or the verbs core calls in this module. */
extern struct srcu_struct mpa2_srcu;

static inline int mpa2_srcu_enter(void)
	__acquires(&mpa2_srcu)
{
	return srcu_read_lock(&mpa2_srcu);
}

static inline void mpa2_srcu_leave(int idx)
	__releases(&mpa2_srcu)
{
	srcu_read_unlock(&mpa2_srcu, idx);
}

/* Inside an SRCU read section. */
struct mpa2_device *mpa2_device_find(const struct ib_device *ibdev);
struct mpa2_device *mpa2_device_get(struct mpa2_device *dev);
void mpa2_device_put(struct mpa2_device *dev);
static inline u16 mpa2_device_cap_ird(const struct mpa2_device *dev)
{
	return min_t(int, dev->ibdev->attrs.max_qp_init_rd_atom, MPA2_DEPTH_MAX);
}

static inline u16 mpa2_device_cap_ord(const struct mpa2_device *dev)
{
	return min_t(int, dev->ibdev->attrs.max_qp_rd_atom, MPA2_DEPTH_MAX);
}

int __must_check mpa2_devices_start(void);
void mpa2_devices_stop(void);
void mpa2_devices_finish(void);

/* ---- ownership (owned.c): provider_data of ours is an odd handle ---- */

void __must_check *mpa2_owned_add(void *object);
void mpa2_owned_del(void *handle);
bool mpa2_owned_is(const void *handle);
void __must_check *mpa2_owned_accepted(const void *handle, u32 qpn);
bool __must_check mpa2_owned_was_accepted(const void *handle, u32 *qpn);
/* Looks an object up and takes a reference with get() under the table's lock. */
void __must_check *mpa2_owned_find(const void *handle, void (*get)(void *object));
void mpa2_owned_stop(void);

/* ---- listeners (listener.c) ---- */

struct mpa2_endpoint;

struct mpa2_listener {
	struct kref ref;
	struct mpa2_device *dev;
	struct list_head node;		/* dev->listeners */
	struct iw_cm_id *cm_id;		/* referenced until destroyed */
	iw_cm_handler cm_handler;	/* rdma_cm's, behind ours */
	void *handle;
	struct socket *sock;
	struct mpa2_sock_ops original;
	struct delayed_work work;	/* accepts */
	unsigned int backlog;
	char comm[TASK_COMM_LEN];	/* of the task that listens */
	struct mpa2_choice choice;	/* what a kernel ULP asked for */

	struct list_head starved_node;	/* dev->starved, under its lock */

	spinlock_t lock;		/* all below; outside of dev->lock */
	struct list_head requests;	/* endpoints that are not delivered yet */
	unsigned int nr_requests;
	struct list_head waiting;	/* those with a Request but no turn */
	unsigned int nr_ready;		/* undelivered Requests, these and raised */
	unsigned int nr_raised;		/* at most the backlog */
	bool closing;
};

int __must_check mpa2_listener_create(struct mpa2_device *dev, struct iw_cm_id *id,
				      int backlog);
int __must_check mpa2_listener_destroy(struct iw_cm_id *id);
void mpa2_listener_get(struct mpa2_listener *listener);
void mpa2_listener_put(struct mpa2_listener *listener);
bool mpa2_listener_take_turn(struct mpa2_endpoint *ep);
void mpa2_listener_leave(struct mpa2_endpoint *ep);
void mpa2_listener_room_put(struct mpa2_device *dev);

/* ---- endpoints (endpoint.c) ---- */

enum mpa2_ep_timer {
	MPA2_EP_NO_TIMER = 0,
	MPA2_EP_CORE_TIMER,	/* the machine's own */
	MPA2_EP_DELIVER_TIMER,	/* iw_cm has not delivered our request */
	MPA2_EP_HOLD_TIMER,	/* the fence may be holding work */
};

enum mpa2_ep_flag {
	MPA2_EP_SOCKET = 0,	/* the socket has something to say */
	MPA2_EP_TIMER,		/* the timer has fired */
	MPA2_EP_ABORT,		/* device or listener goes away */
	MPA2_EP_RELEASED,	/* siw let go of the shim id */
	MPA2_EP_TURN,		/* its Request can be raised now */
};

/* One connection from its first octet until siw owns it or it is over. */
struct mpa2_endpoint {
	struct kref ref;
	struct mpa2_device *dev;
	struct list_head node;		/* dev->endpoints */
	struct list_head request_node;	/* listener->requests, under its lock */
	struct list_head turn_node;	/* listener->waiting, the same */
	bool ready, turn;		/* counted there, the same */
	struct work_struct work;
	struct timer_list timer;
	unsigned long flags;		/* enum mpa2_ep_flag, atomic */

	struct mutex lock;		/* all below */
	struct mpa2_conn conn;
	struct mpa2_settings settings;
	enum mpa2_role role;
	struct iw_cm_id *cm_id;		/* referenced while set */
	const void *context;		/* rdma_cm's id, only to compare; read anywhere */
	struct ib_qp *qp;		/* referenced while set */
	u32 qp_num;
	struct socket *sock;		/* ours; NULL once siw has it */
	struct mpa2_sock_ops original;
	struct mpa2_binding binding;
	struct mpa2_fence_owner fence_owner;
	struct sockaddr_storage local, remote;
	unsigned long deadline;		/* jiffies */
	enum mpa2_ep_timer timer_kind;
	struct mpa2_event next;		/* what an action has brought about */

	struct mpa2_listener *listener;	/* until the request is delivered */
	iw_cm_handler cm_handler;	/* rdma_cm's, for the delivery */
	void *handle;

	int op_error;			/* in_op: what the op returns */
	int tcp_error;			/* why TCP failed */
	int local_error;		/* why the hand-over failed */
	unsigned long replied_at;	/* jiffies */

	bool in_op;			/* errors are returned, not raised */
	bool raised;			/* CONNECT_REQUEST was raised */
	bool delivered;			/* and has reached rdma_cm */
	bool answered;			/* accepted, rejected, or never to be */
	bool up;			/* attached to siw, fence closed */
	bool released;			/* siw tore it down */
	bool told;			/* CONNECT_REPLY or ESTABLISHED raised */
	bool silent;			/* no event any more */
	bool closed;			/* no socket any more */
	bool done;			/* finished */
	bool input_seen;		/* an end was fed while the ULP decides */
	bool wants_more;		/* the socket's low water mark is raised */
	bool hold_counted;
	bool result_seen;		/* counted and traced */
	bool takes_room;		/* of max_pending */

	u32 id;				/* for traces */
	ktime_t begun_at, fenced_at;
};

struct mpa2_endpoint __must_check *mpa2_endpoint_passive(struct mpa2_listener *listener,
							 struct socket *sock);
int __must_check mpa2_endpoint_connect(struct mpa2_device *dev, struct iw_cm_id *id,
				       struct iw_cm_conn_param *param);
int __must_check mpa2_endpoint_accept(struct mpa2_device *dev, struct iw_cm_id *id,
				      struct iw_cm_conn_param *param);
int __must_check mpa2_endpoint_reject(struct mpa2_device *dev, struct iw_cm_id *id,
				      const void *pd, u8 pd_len);
int __must_check mpa2_endpoint_deliver(struct iw_cm_id *child, struct iw_cm_event *event);
void mpa2_endpoint_abort_qp(struct mpa2_device *dev, struct ib_qp *qp);
void mpa2_endpoint_abort(struct mpa2_endpoint *ep);
void mpa2_endpoint_abort_all(struct mpa2_device *dev);
void mpa2_endpoint_get(struct mpa2_endpoint *ep);
void mpa2_endpoint_put(struct mpa2_endpoint *ep);

/* ---- rdma resource show cm_id (resource.c) ---- */

int __must_check mpa2_resource_fill(struct mpa2_device *dev, struct sk_buff *msg,
				    const struct rdma_cm_id *id);

extern struct workqueue_struct *mpa2_wq;

#endif /* IW_MPA2_MPA2_H */
