// SPDX-License-Identifier: GPL-2.0
/*
 * iw_mpa2_ulp: a kernel ULP for the end-to-end tests.  Loaded with listen= it
 * listens, else it connects, in the network namespace of the task that loads
 * it; client_server, rtr and require_ord become iw_mpa2_options.  The kernel log has what
 * happens, one line each; unloading ends everything.
 */
#include <linux/completion.h>
#include <linux/inet.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <net/net_namespace.h>
#include <rdma/ib_cm.h>
#include <rdma/rdma_cm.h>

#include <linux/iw_mpa2.h>

#define RESOLVE_MS 5000
#define QUEUE 4

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

struct ulp_conn {
	struct rdma_cm_id *id;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_cqe cqe;
};

static struct rdma_cm_id *main_id;
static struct ulp_conn the_conn;
static DECLARE_COMPLETION(progress);
static int progress_status;

static void tell(const char *what, int status)
{
	pr_info("iw_mpa2_ulp: %s %d\n", what, status);
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

static void completion(struct ib_cq *cq, struct ib_wc *wc)
{
	tell("completion", wc->status);
}

static void conn_free(struct ulp_conn *conn)
{
	if (conn->id && conn->id->qp)
		rdma_destroy_qp(conn->id);
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

	conn->id = id;
	conn->cqe.done = completion;
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
	return rdma_create_qp(id, conn->pd, &attr);
}

/* A Send without data, as soon as the QP takes it. */
static void post(struct ulp_conn *conn)
{
	struct ib_send_wr wr = {
		.wr_cqe = &conn->cqe,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};

	tell("post", ib_post_send(conn->id->qp, &wr, NULL));
}

static int take_request(struct rdma_cm_id *child)
{
	struct rdma_conn_param param = { .responder_resources = 4, .initiator_depth = 4 };
	int ret;

	if (the_conn.id) {
		rdma_reject(child, NULL, 0, 0);
		return 1;
	}
	ret = conn_make(&the_conn, child);
	if (!ret && at_accept)
		ret = set_options(child);
	if (!ret)
		ret = rdma_accept(child, &param);
	tell("accept", ret);
	if (ret) {
		conn_free(&the_conn);
		the_conn.id = NULL;
		return 1;	/* rdma_cm destroys the child */
	}
	if (send_early)
		post(&the_conn);
	return 0;
}

static int handler(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	tell(rdma_event_msg(event->event), event->status);
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		return take_request(id);
	progress_status = event->status;
	complete(&progress);
	return 0;
}

static int wait_for_progress(void)
{
	if (!wait_for_completion_timeout(&progress, msecs_to_jiffies(RESOLVE_MS)))
		return -ETIMEDOUT;
	return progress_status;
}

static int start_connect(struct sockaddr_storage *to)
{
	struct rdma_conn_param param = { .responder_resources = 4, .initiator_depth = 4 };
	int ret;

	ret = rdma_resolve_addr(main_id, NULL, (struct sockaddr *)to, RESOLVE_MS);
	if (!ret)
		ret = wait_for_progress();
	if (!ret)
		ret = rdma_resolve_route(main_id, RESOLVE_MS);
	if (!ret)
		ret = wait_for_progress();
	if (!ret)
		ret = conn_make(&the_conn, main_id);
	if (!ret)
		ret = set_options(main_id);
	if (!ret)
		ret = rdma_connect(main_id, &param);
	tell("connect", ret);
	return ret;
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
	struct rdma_cm_id *child = the_conn.id != main_id ? the_conn.id : NULL;

	if (the_conn.id)
		rdma_disconnect(the_conn.id);
	if (child) {
		conn_free(&the_conn);
		rdma_destroy_id(child);
	}
	if (!child)
		conn_free(&the_conn);
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
}

module_init(ulp_init);
module_exit(ulp_exit);

MODULE_DESCRIPTION("a kernel ULP for the tests of iw_mpa2");
MODULE_LICENSE("GPL");
