// SPDX-License-Identifier: GPL-2.0
/* After each batch: good connections with the application, one in either role. */
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "../tools/mpa2-cm.h"
#include "wire-fuzz.h"

static struct rdma_event_channel *channel;

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "good connection: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void start_listening(const char *host)
{
	struct sockaddr_storage addr;
	struct rdma_cm_id *listener;

	parse_address(host, GOOD_PORT, &addr);
	if (rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(listener, (struct sockaddr *)&addr) || rdma_listen(listener, 4))
		die("rdma_listen");
}

void good_open(void)
{
	channel = rdma_create_event_channel();
	if (!channel)
		die("rdma_create_event_channel");
	start_listening(ADDRESS_A);
	start_listening(ADDRESS_A6);
}

/* The next event, which must be this one; its id. */
static struct rdma_cm_id *expect(enum rdma_cm_event_type type, int limit_ms)
{
	struct pollfd pfd = { .fd = channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;
	struct rdma_cm_id *id = NULL;

	if (poll(&pfd, 1, limit_ms) != 1) {
		printf("good connection: no %s within %d ms\n", rdma_event_str(type), limit_ms);
		return NULL;
	}
	if (rdma_get_cm_event(channel, &event))
		die("rdma_get_cm_event");
	if (event->event == type && !event->status)
		id = event->id;
	else
		printf("good connection: %s (%d) instead of %s\n", rdma_event_str(event->event),
		       event->status, rdma_event_str(type));
	rdma_ack_cm_event(event);
	return id;
}

/* A message in either direction. */
static bool exchange_messages(struct conn *conn, int limit_ms)
{
	unsigned int completions = 2;
	struct ibv_wc wc;

	if (conn_post_send(conn, 1, MESSAGE_LEN))
		die("ibv_post_send");
	while (completions--) {
		if (wait_completion(conn, &wc, limit_ms) != 1 || wc.status) {
			printf("good connection: no message\n");
			return false;
		}
	}
	return true;
}

static void prepare(struct conn *conn, struct rdma_cm_id *id)
{
	conn->id = id;
	if (conn_create_qp(conn, 4, MESSAGE_LEN) || conn_post_recv(conn))
		die("rdma_create_qp");
}

static const struct rdma_conn_param param = {
	.responder_resources = 1,
	.initiator_depth = 1,
	.private_data = GOOD_PD,
	.private_data_len = sizeof(GOOD_PD) - 1,
};

/* Return: whether it came up and carried data; *ms: in which time. */
static bool connect_good(struct conn *conn, bool v6, int limit_ms, double *ms)
{
	struct rdma_conn_param mine = param;
	struct sockaddr_storage addr;
	double begun;

	parse_address(v6 ? ADDRESS_B6 : ADDRESS_B, VICTIM_PORT, &addr);
	if (rdma_create_id(channel, &conn->id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(conn->id, NULL, (struct sockaddr *)&addr, 10000) ||
	    !expect(RDMA_CM_EVENT_ADDR_RESOLVED, 10000) || rdma_resolve_route(conn->id, 10000) ||
	    !expect(RDMA_CM_EVENT_ROUTE_RESOLVED, 10000))
		die("rdma_resolve_addr");
	prepare(conn, conn->id);
	begun = now_ms();
	if (rdma_connect(conn->id, &mine))
		die("rdma_connect");
	if (!expect(RDMA_CM_EVENT_ESTABLISHED, limit_ms) || !exchange_messages(conn, limit_ms))
		return false;
	*ms = now_ms() - begun;
	return true;
}

static bool accept_good(struct attack *attack, struct conn *conn, bool v6, int limit_ms, double *ms)
{
	const struct order order = {
		.type = ORDER_CONNECT,
		.v6 = v6,
		.port = GOOD_PORT,
		.behaviour = {
			.ird = 1, .ord = 1, .sends = 1,
			.pd_len = sizeof(GOOD_PD) - 1, .pd = GOOD_PD,
		},
	};
	struct rdma_conn_param mine = param;
	double begun = now_ms();
	struct rdma_cm_id *id;

	give_order(attack, &order);
	id = expect(RDMA_CM_EVENT_CONNECT_REQUEST, limit_ms);
	if (!id)
		return false;
	prepare(conn, id);
	if (rdma_accept(conn->id, &mine))
		die("rdma_accept");
	if (!expect(RDMA_CM_EVENT_ESTABLISHED, limit_ms) || !exchange_messages(conn, limit_ms))
		return false;
	*ms = now_ms() - begun;
	return true;
}

/* We leave; the application says what it has seen of the connection. */
static bool end_good(struct attack *attack, struct conn *conn)
{
	const struct order order = { .type = ORDER_BARRIER };
	struct report report, rest;
	unsigned int first;

	rdma_disconnect(conn->id);
	if (!expect(RDMA_CM_EVENT_DISCONNECTED, 10000))
		return false;
	conn_destroy_qp(conn);
	rdma_destroy_id(conn->id);
	give_order(attack, &order);
	if (!get_report(attack, &report, 30000) || !get_report(attack, &rest, 30000) ||
	    rest.type != REPORT_BARRIER) {
		printf("good connection: the application does not see its end\n");
		return false;
	}
	first = report.responder;
	if (report.received == 1 && report.nr_events == first + 2 &&
	    report.events[first].type == RDMA_CM_EVENT_ESTABLISHED)
		return true;
	printf("good connection: the application has received %u messages, %u events\n",
	       report.received, report.nr_events);
	return false;
}

double good_connections(struct attack *attack, bool v6, int limit_ms)
{
	struct conn conn = { 0 };
	double one, other;

	if (!connect_good(&conn, v6, limit_ms, &one) || !end_good(attack, &conn))
		return -1;
	conn = (struct conn){ 0 };
	if (!accept_good(attack, &conn, v6, limit_ms, &other) || !end_good(attack, &conn))
		return -1;
	return one > other ? one : other;
}
