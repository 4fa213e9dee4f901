// SPDX-License-Identifier: GPL-2.0
/*
 * The application under attack: it listens and connects as any other, and writes
 * down all that it is told.  It knows nothing of the attacks; what it does with a
 * Request follows from the private data in it.
 */
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../tools/mpa2-cm.h"
#include "wire-fuzz.h"

#define CONNS_MAX 40
#define QUEUE_DEPTH 4
/* Ended ids are kept for a while, so that an event too many is not lost. */
#define LINGERING 6
#define CONNECT_TRIES 20

enum stage { STAGE_NONE, STAGE_RESOLVING, STAGE_DECIDING, STAGE_OPEN, STAGE_OVER };

struct peer {
	enum stage stage;
	struct rdma_cm_id *id;
	struct behaviour behaviour;
	struct report report;
	struct order order;
	unsigned int tries;
	uint32_t generation;
	uint64_t over_since;
	double due_ms;
};

static struct peer peers[CONNS_MAX];
static struct rdma_event_channel *channel;
static struct rdma_cm_id *listeners[2];
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_comp_channel *completions;
static struct ibv_mr *mr;
static uint8_t memory[CONNS_MAX][2 * QUEUE_DEPTH][MESSAGE_LEN];
static int control;
static uint64_t clock_of_ends;
static bool barrier, leaving;

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "victim: %s: %s\n", what, strerror(errno));
	exit(1);
}

static unsigned int number_of(const struct peer *peer)
{
	return (unsigned int)(peer - peers);
}

static void tell(const struct report *report)
{
	if (send(control, report, sizeof(*report), MSG_NOSIGNAL) != sizeof(*report))
		exit(1);	/* nobody is interested any more */
}

/* ---- ids ---- */

static void destroy(struct peer *peer)
{
	peer->report.type = REPORT_CONN;
	if (peer->id && peer->id->qp)
		rdma_destroy_qp(peer->id);
	if (peer->id && rdma_destroy_id(peer->id))
		die("rdma_destroy_id");
	peer->id = NULL;
	peer->stage = STAGE_NONE;
	peer->generation++;
	tell(&peer->report);
}

static struct peer *oldest_over(unsigned int *count)
{
	struct peer *peer, *oldest = NULL;

	*count = 0;
	for (peer = peers; peer < peers + CONNS_MAX; peer++) {
		if (peer->stage != STAGE_OVER)
			continue;
		(*count)++;
		if (!oldest || peer->over_since < oldest->over_since)
			oldest = peer;
	}
	return oldest;
}

static void over(struct peer *peer)
{
	struct peer *oldest;
	unsigned int count;

	peer->stage = STAGE_OVER;
	peer->over_since = ++clock_of_ends;
	oldest = oldest_over(&count);
	if (count > LINGERING)
		destroy(oldest);
}

static struct peer *new_peer(void)
{
	struct peer *peer;
	unsigned int count;

	for (peer = peers; peer < peers + CONNS_MAX; peer++)
		if (peer->stage == STAGE_NONE)
			break;
	if (peer == peers + CONNS_MAX) {
		peer = oldest_over(&count);
		if (!peer) {
			errno = EMFILE;
			die("ids");
		}
		destroy(peer);
	}
	memset(&peer->report, 0, sizeof(peer->report));
	peer->tries = 0;
	return peer;
}

static void make_memory(struct ibv_context *verbs)
{
	if (pd)
		return;
	pd = ibv_alloc_pd(verbs);
	completions = ibv_create_comp_channel(verbs);
	if (!pd || !completions || set_nonblocking(completions->fd))
		die("ibv_alloc_pd");
	cq = ibv_create_cq(verbs, CONNS_MAX * 4 * QUEUE_DEPTH, NULL, completions, 0);
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	if (!cq || !mr || ibv_req_notify_cq(cq, 0))
		die("ibv_create_cq");
}

static uint64_t work_id(const struct peer *peer, bool send)
{
	return (uint64_t)peer->generation << 32 | number_of(peer) << 1 | send;
}

static int make_qp(struct peer *peer)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = {
			.max_send_wr = QUEUE_DEPTH,
			.max_recv_wr = QUEUE_DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};
	struct ibv_recv_wr *bad;
	unsigned int i;

	make_memory(peer->id->verbs);
	attr.send_cq = cq;
	attr.recv_cq = cq;
	if (rdma_create_qp(peer->id, pd, &attr))
		return -1;
	for (i = 0; i < QUEUE_DEPTH; i++) {
		struct ibv_sge sge = {
			.addr = (uintptr_t)memory[number_of(peer)][QUEUE_DEPTH + i],
			.length = MESSAGE_LEN,
			.lkey = mr->lkey,
		};
		struct ibv_recv_wr wr = {
			.wr_id = work_id(peer, false), .sg_list = &sge, .num_sge = 1,
		};

		errno = ibv_post_recv(peer->id->qp, &wr, &bad);
		if (errno)
			return -1;
	}
	return 0;
}

static void post_sends(struct peer *peer)
{
	struct ibv_send_wr *bad;
	unsigned int i;

	for (i = 0; i < peer->behaviour.sends; i++) {
		uint8_t *message = memory[number_of(peer)][i];
		struct ibv_sge sge = {
			.addr = (uintptr_t)message,
			.length = MESSAGE_LEN,
			.lkey = mr->lkey,
		};
		struct ibv_send_wr wr = {
			.wr_id = work_id(peer, true), .opcode = IBV_WR_SEND,
			.sg_list = &sge, .num_sge = 1,
		};

		memset(message, (int)i + 1, MESSAGE_LEN);
		/* The connection may be gone already. */
		ibv_post_send(peer->id->qp, &wr, &bad);
	}
}

static void fill_param(const struct behaviour *behaviour, struct rdma_conn_param *param)
{
	memset(param, 0, sizeof(*param));
	param->responder_resources = behaviour->ird;
	param->initiator_depth = behaviour->ord;
	param->private_data = behaviour->pd;
	param->private_data_len = behaviour->pd_len;
}

/* ---- connecting ---- */

static void resolve(struct peer *peer)
{
	struct sockaddr_storage addr;

	parse_address(peer->order.v6 ? ADDRESS_A6 : ADDRESS_A, peer->order.port, &addr);
	if (rdma_create_id(channel, &peer->id, peer, RDMA_PS_TCP))
		die("rdma_create_id");
	peer->stage = STAGE_RESOLVING;
	if (rdma_resolve_addr(peer->id, NULL, (struct sockaddr *)&addr, 10000))
		die("rdma_resolve_addr");
}

static void begin(const struct order *order)
{
	struct peer *peer = new_peer();

	peer->order = *order;
	peer->behaviour = order->behaviour;
	peer->report.index = order->index;
	resolve(peer);
}

static void connect_now(struct peer *peer)
{
	struct rdma_conn_param param;

	if (make_qp(peer))
		die("rdma_create_qp");
	fill_param(&peer->behaviour, &param);
	peer->stage = STAGE_OPEN;
	if (!rdma_connect(peer->id, &param))
		return;
	/* A port that TCP still remembers: rdma_cm picks without asking it. */
	if ((errno == EADDRINUSE || errno == EADDRNOTAVAIL) && peer->tries++ < CONNECT_TRIES) {
		rdma_destroy_qp(peer->id);
		rdma_destroy_id(peer->id);
		peer->generation++;
		resolve(peer);
		return;
	}
	peer->report.call_errno = errno;
	over(peer);
}

/* ---- answering ---- */

static void answer(struct peer *peer)
{
	const struct behaviour *behaviour = &peer->behaviour;
	struct rdma_conn_param param;
	int ret = 0;

	fill_param(behaviour, &param);
	if (behaviour->reaction == REACT_ACCEPT) {
		if (make_qp(peer))
			die("rdma_create_qp");
		ret = rdma_accept(peer->id, &param);
	} else if (behaviour->reaction == REACT_REJECT) {
		ret = rdma_reject(peer->id, behaviour->pd, behaviour->pd_len);
	}
	if (ret)
		peer->report.call_errno = errno;
	if (ret || behaviour->reaction != REACT_ACCEPT) {
		destroy(peer);
		return;
	}
	peer->stage = STAGE_OPEN;
	post_sends(peer);
}

static void keep_param(struct peer *peer, const struct rdma_conn_param *param)
{
	struct report *report = &peer->report;

	report->responder_resources = param->responder_resources;
	report->initiator_depth = param->initiator_depth;
	report->pd_len = param->private_data_len;
	if (param->private_data)
		memcpy(report->pd, param->private_data, param->private_data_len);
}

static void note_event(struct peer *peer, const struct rdma_cm_event *event)
{
	struct report *report = &peer->report;

	if (report->nr_events == EVENTS_MAX)
		return;
	report->events[report->nr_events].type = (uint8_t)event->event;
	report->events[report->nr_events++].status = event->status;
}

static void on_request(const struct rdma_cm_event *event, const struct rdma_conn_param *param)
{
	struct peer *peer = new_peer();

	peer->id = event->id;
	peer->id->context = peer;
	peer->report.responder = true;
	peer->report.index = ntohs(rdma_get_dst_port(event->id));
	note_event(peer, event);
	keep_param(peer, param);
	behave(peer->report.pd, peer->report.pd_len, &peer->behaviour);
	peer->stage = STAGE_DECIDING;
	peer->due_ms = now_ms() + peer->behaviour.delay_ms;
	if (!peer->behaviour.delay_ms)
		answer(peer);
}

/* ---- events ---- */

static void on_own_event(const struct rdma_cm_event *event, const struct rdma_conn_param *param)
{
	struct peer *peer = event->id->context;

	if (peer->stage == STAGE_RESOLVING) {
		switch (event->event) {
		case RDMA_CM_EVENT_ADDR_RESOLVED:
			if (rdma_resolve_route(peer->id, 10000))
				die("rdma_resolve_route");
			return;
		case RDMA_CM_EVENT_ROUTE_RESOLVED:
			connect_now(peer);
			return;
		default:
			errno = EIO;
			die(rdma_event_str(event->event));
		}
	}
	note_event(peer, event);
	switch (event->event) {
	case RDMA_CM_EVENT_ESTABLISHED:
		if (!peer->report.responder) {
			keep_param(peer, param);
			post_sends(peer);
		}
		if (peer->behaviour.leaves)
			rdma_disconnect(peer->id);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		if (peer->stage == STAGE_OPEN)
			over(peer);
		break;
	default:
		/* To an accept that failed belongs a DISCONNECTED. */
		if (!peer->report.responder) {
			keep_param(peer, param);
			if (peer->stage == STAGE_OPEN)
				over(peer);
		}
	}
}

static void on_cm_event(void)
{
	struct rdma_cm_event *event, copy;
	struct rdma_conn_param param;
	uint8_t data[256];

	if (rdma_get_cm_event(channel, &event))
		die("rdma_get_cm_event");
	copy = *event;
	param = event->param.conn;
	if (event->event < RDMA_CM_EVENT_CONNECT_REQUEST)
		memset(&param, 0, sizeof(param));
	if (param.private_data_len && param.private_data)
		memcpy(data, param.private_data, param.private_data_len);
	if (param.private_data)
		param.private_data = data;
	rdma_ack_cm_event(event);
	if (copy.event == RDMA_CM_EVENT_CONNECT_REQUEST)
		on_request(&copy, &param);
	else
		on_own_event(&copy, &param);
}

static void on_completion(const struct ibv_wc *wc)
{
	unsigned int number = (uint32_t)wc->wr_id >> 1;
	struct peer *peer = &peers[number];

	if (number >= CONNS_MAX) {
		errno = EIO;
		die("a completion of nobody");
	}
	if (peer->generation != wc->wr_id >> 32)
		return;	/* of an id that is gone */
	if (peer->stage != STAGE_OPEN && peer->stage != STAGE_OVER)
		peer->report.garbled = true;
	if (!wc->status && !(wc->wr_id & 1))
		peer->report.received++;
}

static void on_completions(void)
{
	struct ibv_cq *which;
	struct ibv_wc wc;
	void *context;

	while (!ibv_get_cq_event(completions, &which, &context))
		ibv_ack_cq_events(which, 1);
	if (ibv_req_notify_cq(cq, 0))
		die("ibv_req_notify_cq");
	while (ibv_poll_cq(cq, 1, &wc) > 0)
		on_completion(&wc);
}

/* ---- orders ---- */

static void report_open(void)
{
	struct peer *peer;

	for (peer = peers; peer < peers + CONNS_MAX; peer++) {
		if (peer->stage == STAGE_NONE)
			continue;
		peer->report.type = REPORT_OPEN;
		tell(&peer->report);
	}
}

static void on_order(void)
{
	struct order order;
	ssize_t got = recv(control, &order, sizeof(order), 0);

	if (got != sizeof(order)) {
		leaving = true;
		return;
	}
	switch (order.type) {
	case ORDER_CONNECT:
		begin(&order);
		break;
	case ORDER_BARRIER:
		barrier = true;
		break;
	case ORDER_WHO:
		report_open();
		break;
	case ORDER_QUIT:
		leaving = true;
	}
}

/* Answers that are due, and the barrier; how long there is nothing else to do. */
static int next_timeout(void)
{
	double now = now_ms(), next = now + 1000;
	bool open = false;
	struct peer *peer;

	for (peer = peers; peer < peers + CONNS_MAX; peer++) {
		if (peer->stage == STAGE_DECIDING && peer->due_ms <= now)
			answer(peer);
		else if (peer->stage == STAGE_DECIDING && peer->due_ms < next)
			next = peer->due_ms;
		open = open || (peer->stage != STAGE_NONE && peer->stage != STAGE_OVER);
	}
	if (barrier && !open) {
		struct report report = { .type = REPORT_BARRIER };

		barrier = false;
		on_completions();
		for (peer = peers; peer < peers + CONNS_MAX; peer++)
			if (peer->stage == STAGE_OVER)
				destroy(peer);
		tell(&report);
	}
	return (int)(next - now) + 1;
}

static void start_listening(unsigned int i, const char *host)
{
	struct sockaddr_storage addr;

	parse_address(host, VICTIM_PORT, &addr);
	if (rdma_create_id(channel, &listeners[i], NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(listeners[i], (struct sockaddr *)&addr) ||
	    rdma_listen(listeners[i], 64))
		die("rdma_listen");
	make_memory(listeners[i]->verbs);
}

int victim_main(int fd)
{
	struct report ready = { .type = REPORT_READY };

	control = fd;
	channel = rdma_create_event_channel();
	if (!channel)
		die("rdma_create_event_channel");
	start_listening(0, ADDRESS_B);
	start_listening(1, ADDRESS_B6);
	tell(&ready);
	while (!leaving) {
		struct pollfd fds[] = {
			{ .fd = control, .events = POLLIN },
			{ .fd = channel->fd, .events = POLLIN },
			{ .fd = completions->fd, .events = POLLIN },
		};

		if (poll(fds, 3, next_timeout()) < 0)
			die("poll");
		if (fds[2].revents)
			on_completions();
		if (fds[1].revents)
			on_cm_event();
		if (fds[0].revents)
			on_order();
	}
	return 0;
}
