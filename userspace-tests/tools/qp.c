// SPDX-License-Identifier: GPL-2.0
/* A QP with its memory, and work requests on it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "mpa2-cm.h"

int set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

static int create_srq(struct conn *conn)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = conn->depth, .max_sge = 1 } };

	if (!conn->shared)
		return 0;
	conn->srq = ibv_create_srq(conn->id->pd, &attr);
	return conn->srq ? 0 : -1;
}

int conn_destroy_srq(struct conn *conn)
{
	if (!conn->srq) {
		errno = ENOENT;
		return -1;
	}
	errno = ibv_destroy_srq(conn->srq);
	if (errno)
		return -1;
	conn->srq = NULL;
	return 0;
}

/* CQEs of 32 octets each, for 0x90 pages and more. */
#define SPACER_CQES 20000

static bool many;
static const struct ibv_context *spaced;

void conn_many(void)
{
	many = true;
}

/* Stays as long as its device is open. */
static int make_room(struct ibv_context *verbs)
{
	if (!many || spaced == verbs)
		return 0;
	spaced = verbs;
	return ibv_create_cq(verbs, SPACER_CQES, NULL, NULL, 0) ? 0 : -1;
}

static int create_queues(struct conn *conn)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = {
			.max_send_wr = conn->depth,
			.max_recv_wr = conn->depth,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};

	if (make_room(conn->id->verbs))
		return -1;
	conn->channel = ibv_create_comp_channel(conn->id->verbs);
	if (!conn->channel || set_nonblocking(conn->channel->fd))
		return -1;
	conn->cq = ibv_create_cq(conn->id->verbs, 2 * conn->depth, NULL, conn->channel, 0);
	if (!conn->cq)
		return -1;
	errno = ibv_req_notify_cq(conn->cq, 0);
	if (errno)
		return -1;
	if (create_srq(conn))
		return -1;
	attr.send_cq = conn->cq;
	attr.recv_cq = conn->cq;
	attr.srq = conn->srq;
	return rdma_create_qp(conn->id, conn->srq ? conn->srq->pd : NULL, &attr);
}

int conn_create_qp(struct conn *conn, unsigned int depth, size_t size)
{
	int error;

	conn->depth = depth;
	conn->size = size;
	conn->next_recv = 0;
	if (!create_queues(conn)) {
		conn->buffer = calloc(2 * depth, size);
		if (conn->buffer)
			conn->mr = ibv_reg_mr(conn->id->qp->pd, conn->buffer, 2 * depth * size,
					      IBV_ACCESS_LOCAL_WRITE);
		if (conn->mr)
			return 0;
	}
	error = errno;
	conn_destroy_qp(conn);
	errno = error;
	return -1;
}

void conn_destroy_qp(struct conn *conn)
{
	if (conn->id && conn->id->qp)
		rdma_destroy_qp(conn->id);
	if (conn->srq)
		conn_destroy_srq(conn);
	if (conn->mr)
		ibv_dereg_mr(conn->mr);
	if (conn->cq)
		ibv_destroy_cq(conn->cq);
	if (conn->channel)
		ibv_destroy_comp_channel(conn->channel);
	free(conn->buffer);
	conn->mr = NULL;
	conn->cq = NULL;
	conn->channel = NULL;
	conn->buffer = NULL;
}

/* The sends use the first half of the buffer, the receives the second. */
static uint8_t *send_buffer(const struct conn *conn, uint64_t number)
{
	return conn->buffer + (number % conn->depth) * conn->size;
}

const uint8_t *conn_recv_buffer(const struct conn *conn, uint64_t wr_id)
{
	return conn->buffer + (conn->depth + wr_id % conn->depth) * conn->size;
}

int conn_post_recv(struct conn *conn)
{
	uint64_t number = conn->next_recv++;
	struct ibv_sge sge = {
		.addr = (uintptr_t)conn_recv_buffer(conn, number),
		.length = conn->size,
		.lkey = conn->mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = number, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	errno = conn->srq ? ibv_post_srq_recv(conn->srq, &wr, &bad) :
			    ibv_post_recv(conn->id->qp, &wr, &bad);
	return errno ? -1 : 0;
}

static int post(struct conn *conn, struct ibv_send_wr *wr, size_t len)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)send_buffer(conn, wr->wr_id),
		.length = len,
		.lkey = conn->mr->lkey,
	};
	struct ibv_send_wr *bad;

	if (len > conn->size) {
		errno = EMSGSIZE;
		return -1;
	}
	memset(send_buffer(conn, wr->wr_id), (int)(wr->wr_id & 0xff), len);
	wr->sg_list = &sge;
	wr->num_sge = 1;
	errno = ibv_post_send(conn->id->qp, wr, &bad);
	wr->sg_list = NULL;
	return errno ? -1 : 0;
}

int conn_post_send(struct conn *conn, uint64_t number, size_t len)
{
	struct ibv_send_wr wr = { .wr_id = number, .opcode = IBV_WR_SEND };

	return post(conn, &wr, len);
}

int conn_post_rdma(struct conn *conn, enum ibv_wr_opcode opcode, uint64_t number,
		   size_t len, uint64_t addr, uint32_t rkey)
{
	struct ibv_send_wr wr = {
		.wr_id = number,
		.opcode = opcode,
		.wr.rdma = { .remote_addr = addr, .rkey = rkey },
	};

	return post(conn, &wr, len);
}

static int drain_events(struct conn *conn)
{
	struct ibv_cq *cq;
	void *context;

	while (!ibv_get_cq_event(conn->channel, &cq, &context))
		ibv_ack_cq_events(cq, 1);
	errno = ibv_req_notify_cq(conn->cq, 0);
	return errno ? -1 : 0;
}

int wait_completion(struct conn *conn, struct ibv_wc *wc, int timeout_ms)
{
	struct pollfd pfd = { .fd = conn->channel->fd, .events = POLLIN };
	double end = now_ms() + timeout_ms;
	int n;

	for (;;) {
		n = ibv_poll_cq(conn->cq, 1, wc);
		if (n)
			return n;
		if (drain_events(conn))
			return -1;
		n = ibv_poll_cq(conn->cq, 1, wc);
		if (n)
			return n;
		if (now_ms() >= end)
			return 0;
		if (poll(&pfd, 1, (int)(end - now_ms()) + 1) < 0)
			return -1;
	}
}
