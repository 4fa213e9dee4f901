// SPDX-License-Identifier: GPL-2.0
/*
 * iw_mpa2_ulp: a kernel ULP for the end-to-end tests.  Loaded with listen= it
 * listens, else it connects, in the network namespace of the task that loads
 * it; client_server, rtr and require_ord become iw_mpa2_options.  With in_handler it
 * resolves and connects inside rdma_cm's handler and destroys there what has ended; with
 * echo it sends back what it receives.  The kernel log has what happens, one line each;
 * unloading ends everything, at any moment.
 */
/* Its lines are its own, not those of iw_mpa2. */
#undef pr_fmt
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/inet.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/nsproxy.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <net/net_namespace.h>
#include <rdma/ib_cm.h>
#include <rdma/rdma_cm.h>

#include <linux/iw_mpa2.h>

#define RESOLVE_MS 5000
#define QUEUE 4
#define MESSAGE 256

static char *addr = "0.0.0.0";
module_param(addr, charp, 0444);
static ushort port = 7777;
module_param(port, ushort, 0444);
static bool listen;
module_param(listen, bool, 0444);
/* The options; 0 and N leave them to parameters and rules. */
static bool client_server;
module_param(client_server, bool, 0444);
static uint rtr;
module_param(rtr, uint, 0444);
static uint require_ord;
module_param(require_ord, uint, 0444);
/* When a listener sets them: on itself, or on the child before its accept. */
static bool at_accept;
module_param(at_accept, bool, 0444);
static bool forget;
module_param(forget, bool, 0444);
static bool send_early;
module_param(send_early, bool, 0444);
/* Make the QP without rdma_cm and name it by its number. */
static bool own_qp;
module_param(own_qp, bool, 0444);
static bool in_handler;
module_param(in_handler, bool, 0444);
static bool reject;
module_param(reject, bool, 0444);
static bool echo;
module_param(echo, bool, 0444);

struct ulp_conn {
	struct rdma_cm_id *id;
	struct ib_qp *qp;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_cqe cqe;
	struct ib_cqe recv_cqe;
	/* What comes is written here, and sent back from here. */
	void *buffer;
	u64 dma;
};

static struct rdma_cm_id *main_id;
static struct ulp_conn the_conn;
/* Between the handler, which may destroy ids, and unloading, which destroys what is left. */
static DEFINE_MUTEX(ids);
static bool stopping;
static DECLARE_COMPLETION(progress);
static int progress_status;

static void tell(const char *what, int status)
{
	pr_info("%s %d\n", what, status);
}

static int set_options(struct rdma_cm_id *id)
{
	struct iw_mpa2_options options = {
		.peer_to_peer = false,
		.require_ord = require_ord,
		.rtr = { rtr },
	};
	int ret;

	if (client_server)
		options.set |= IW_MPA2_PEER_TO_PEER;
	if (rtr)
		options.set |= IW_MPA2_RTR;
	if (require_ord)
		options.set |= IW_MPA2_REQUIRE_ORD;
	ret = iw_mpa2_set_options(id, &options);
	if (!ret && forget)
		ret = iw_mpa2_set_options(id, NULL);
	return ret;
}

/*
 * Mapped by ib_dma_*, which knows that a software device has no DMA and takes kernel
 * addresses as they are.
 */
static int buffer_make(struct ulp_conn *conn)
{
	struct ib_device *device = conn->id->device;

	if (!echo)
		return 0;
	conn->buffer = kzalloc(MESSAGE, GFP_KERNEL);
	if (!conn->buffer)
		return -ENOMEM;
	conn->dma = ib_dma_map_single(device, conn->buffer, MESSAGE, DMA_BIDIRECTIONAL);
	if (!ib_dma_mapping_error(device, conn->dma))
		return 0;
	kfree(conn->buffer);
	conn->buffer = NULL;
	return -EIO;
}

static void buffer_free(struct ulp_conn *conn)
{
	if (!conn->buffer)
		return;
	ib_dma_unmap_single(conn->id->device, conn->dma, MESSAGE, DMA_BIDIRECTIONAL);
	kfree(conn->buffer);
	conn->buffer = NULL;
}

static int post_receive(struct ulp_conn *conn)
{
	struct ib_sge sge = {
		.addr = conn->dma,
		.length = MESSAGE,
		.lkey = conn->pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = { .wr_cqe = &conn->recv_cqe, .sg_list = &sge, .num_sge = 1 };

	return conn->buffer ? ib_post_recv(conn->qp, &wr, NULL) : 0;
}

static void send_back(struct ulp_conn *conn, u32 len)
{
	struct ib_sge sge = {
		.addr = conn->dma,
		.length = len,
		.lkey = conn->pd->local_dma_lkey,
	};
	struct ib_send_wr wr = {
		.wr_cqe = &conn->cqe,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
	};
	int ret = ib_post_send(conn->qp, &wr, NULL);

	if (ret)
		tell("echo", ret);
}

/* The buffer is free again when its echo has left. */
static void sent(struct ib_cq *cq, struct ib_wc *wc)
{
	struct ulp_conn *conn = cq->cq_context;

	tell("completion", wc->status);
	if (!wc->status && conn->buffer)
		post_receive(conn);
}

static void received(struct ib_cq *cq, struct ib_wc *wc)
{
	tell("received", wc->status ? -wc->status : wc->byte_len);
	if (!wc->status)
		send_back(cq->cq_context, wc->byte_len);
}

static void conn_free(struct ulp_conn *conn)
{
	if (conn->id && conn->id->qp)
		rdma_destroy_qp(conn->id);
	else if (conn->qp)
		ib_destroy_qp(conn->qp);
	conn->qp = NULL;
	buffer_free(conn);
	if (conn->cq)
		ib_free_cq(conn->cq);
	if (conn->pd)
		ib_dealloc_pd(conn->pd);
	conn->cq = NULL;
	conn->pd = NULL;
}

static int conn_make(struct ulp_conn *conn, struct rdma_cm_id *id)
{
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_ALL_WR,
		.cap = { .max_send_wr = QUEUE, .max_recv_wr = QUEUE,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};
	int ret;

	conn->id = id;
	conn->cqe.done = sent;
	conn->recv_cqe.done = received;
	conn->pd = ib_alloc_pd(id->device, 0);
	if (IS_ERR(conn->pd)) {
		conn->pd = NULL;
		return -ENOMEM;
	}
	conn->cq = ib_alloc_cq(id->device, conn, 2 * QUEUE, 0, IB_POLL_SOFTIRQ);
	if (IS_ERR(conn->cq)) {
		conn->cq = NULL;
		return -ENOMEM;
	}
	attr.send_cq = conn->cq;
	attr.recv_cq = conn->cq;
	ret = buffer_make(conn);
	if (ret)
		return ret;
	if (own_qp) {
		struct ib_qp *qp = ib_create_qp(conn->pd, &attr);

		if (IS_ERR(qp))
			return PTR_ERR(qp);
		conn->qp = qp;
	} else {
		ret = rdma_create_qp(id, conn->pd, &attr);
		if (ret)
			return ret;
		conn->qp = id->qp;
	}
	return post_receive(conn);
}

/* The number counts only when the id has no QP. */
static struct rdma_conn_param conn_param(const struct ulp_conn *conn)
{
	return (struct rdma_conn_param){
		.responder_resources = 4,
		.initiator_depth = 4,
		.qp_num = conn->qp->qp_num,
	};
}

/* A Send without data, as soon as the QP takes it. */
static void post(struct ulp_conn *conn)
{
	struct ib_send_wr wr = {
		.wr_cqe = &conn->cqe,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};

	tell("post", ib_post_send(conn->qp, &wr, NULL));
}

static int take_request(struct rdma_cm_id *child)
{
	struct rdma_conn_param param;
	int ret;

	if (the_conn.id || reject) {
		tell("reject", rdma_reject(child, NULL, 0, 0));
		return 1;	/* rdma_cm destroys the child */
	}
	ret = conn_make(&the_conn, child);
	if (!ret && at_accept)
		ret = set_options(child);
	if (!ret) {
		param = conn_param(&the_conn);
		ret = rdma_accept(child, &param);
	}
	tell("accept", ret);
	if (ret) {
		conn_free(&the_conn);
		the_conn.id = NULL;
		return 1;
	}
	if (send_early)
		post(&the_conn);
	return 0;
}

static long connect_work(void *param)
{
	return rdma_connect(main_id, param);
}

static int connect_now(void)
{
	struct rdma_conn_param param;
	int ret = conn_make(&the_conn, main_id);

	if (!ret)
		ret = set_options(main_id);
	/* Inside the handler rdma_cm holds the lock that rdma_connect() would take. */
	if (!ret) {
		param = conn_param(&the_conn);
		if (in_handler)
			ret = rdma_connect_locked(main_id, &param);
		else if (own_qp)
			/* A QP can be named by its number from a thread of the kernel. */
			ret = work_on_cpu(0, connect_work, &param);
		else
			ret = rdma_connect(main_id, &param);
	}
	tell("connect", ret);
	return ret;
}

/* Return: not 0 to have the id destroyed by the one who calls. */
static int progress_in_handler(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	int ret = 1;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		ret = rdma_resolve_route(id, RESOLVE_MS);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		ret = connect_now();
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		return 0;
	default:
		break;
	}
	if (!ret)
		return 0;
	conn_free(&the_conn);
	the_conn.id = NULL;
	if (id == main_id)
		main_id = NULL;
	tell("destroy", 0);
	return 1;
}

static int handle(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	bool request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;

	/* A child that nobody knows of yet goes; the others are destroyed by stop(). */
	if (stopping)
		return request;
	if (request)
		return take_request(id);
	if (in_handler)
		return progress_in_handler(id, event);
	progress_status = event->status;
	complete(&progress);
	return 0;
}

static int handler(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	int ret;

	tell(rdma_event_msg(event->event), event->status);
	mutex_lock(&ids);
	ret = handle(id, event);
	mutex_unlock(&ids);
	return ret;
}

static int wait_for_progress(void)
{
	if (!wait_for_completion_timeout(&progress, msecs_to_jiffies(RESOLVE_MS)))
		return -ETIMEDOUT;
	return progress_status;
}

static int start_connect(struct sockaddr_storage *to)
{
	int ret;

	ret = rdma_resolve_addr(main_id, NULL, (struct sockaddr *)to, RESOLVE_MS);
	if (ret || in_handler)
		return ret;
	ret = wait_for_progress();
	if (!ret)
		ret = rdma_resolve_route(main_id, RESOLVE_MS);
	if (!ret)
		ret = wait_for_progress();
	return ret ? ret : connect_now();
}

static int start_listen(struct sockaddr_storage *on)
{
	int ret = rdma_bind_addr(main_id, (struct sockaddr *)on);

	if (!ret && !at_accept)
		ret = set_options(main_id);
	if (!ret)
		ret = rdma_listen(main_id, 4);
	tell("listen", ret);
	return ret;
}

static void stop(void)
{
	struct rdma_cm_id *child;

	mutex_lock(&ids);
	stopping = true;
	mutex_unlock(&ids);
	child = the_conn.id != main_id ? the_conn.id : NULL;
	if (the_conn.id)
		rdma_disconnect(the_conn.id);
	if (child) {
		conn_free(&the_conn);
		rdma_destroy_id(child);
	}
	if (!child)
		conn_free(&the_conn);
	/* With in_handler it may be gone already. */
	if (main_id)
		rdma_destroy_id(main_id);
}

static int __init ulp_init(void)
{
	struct sockaddr_storage end;
	char text[8];
	int ret;

	snprintf(text, sizeof(text), "%u", port);
	ret = inet_pton_with_scope(&init_net, AF_UNSPEC, addr, text, &end);
	if (ret)
		return ret;
	main_id = rdma_create_id(current->nsproxy->net_ns, handler, NULL, RDMA_PS_TCP,
				 IB_QPT_RC);
	if (IS_ERR(main_id))
		return PTR_ERR(main_id);
	ret = listen ? start_listen(&end) : start_connect(&end);
	if (ret)
		stop();
	return ret;
}

static void __exit ulp_exit(void)
{
	stop();
	/* An id that its own handler has let go may not be quite out of it. */
	synchronize_rcu_tasks();
}

module_init(ulp_init);
module_exit(ulp_exit);

MODULE_DESCRIPTION("a kernel ULP for the tests of iw_mpa2");
MODULE_LICENSE("GPL");
