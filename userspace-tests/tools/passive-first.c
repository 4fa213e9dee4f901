// SPDX-License-Identifier: GPL-2.0
/*
 * Connections whose passive side sends first, as MPI and many others do: the
 * responder posts its Send as soon as it can, the initiator only receives.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mpa2-cm.h"

#define MESSAGE_LEN 64
#define MESSAGE_NUMBER 0x5a
#define DEPTH 4
#define STEP_MS 15000

enum when { WHEN_ESTABLISHED, WHEN_ACCEPT };

static struct {
	struct sockaddr_storage addr;
	bool listen;
	unsigned int count;
	unsigned int processes;
	unsigned int ird, ord;
	unsigned int private_len;
	bool sweep;	/* the length of private data grows with each connection */
	bool reject;
	bool verbose;
	enum when when;
} options = { .count = 50, .processes = 1, .ird = 1, .ord = 1 };

/* How one connection of the initiator went; small enough for a pipe. */
struct outcome {
	bool up;
	double ms;
	int status;
	char what[48];
};

static void conn_param(struct rdma_conn_param *param, uint8_t *data, unsigned int len)
{
	fill_private_data(data, len);
	memset(param, 0, sizeof(*param));
	param->responder_resources = (uint8_t)options.ird;
	param->initiator_depth = (uint8_t)options.ord;
	param->private_data = data;
	param->private_data_len = (uint8_t)len;
}

/* The other end sent the pattern of whatever length it chose. */
static bool is_pattern(const struct rdma_conn_param *param)
{
	uint8_t expected[PD_MAX];

	fill_private_data(expected, param->private_data_len);
	return !param->private_data_len ||
	       !memcmp(param->private_data, expected, param->private_data_len);
}

/* ---- the responder ---- */

static unsigned int requests, ended, wrong;

static void note_wrong(const char *what, int status)
{
	wrong++;
	out_begin("WRONG");
	out_text("what", what);
	out_int("status", status);
	out_end();
}

static int answer(struct conn *conn, unsigned int private_len)
{
	struct rdma_conn_param param;
	uint8_t data[PD_MAX];

	conn_param(&param, data, private_len);
	if (options.reject)
		return rdma_reject(conn->id, data, (uint8_t)private_len);
	if (conn_create_qp(conn, DEPTH, MESSAGE_LEN) || rdma_accept(conn->id, &param))
		return -1;
	if (options.when == WHEN_ACCEPT)
		return conn_post_send(conn, MESSAGE_NUMBER, MESSAGE_LEN);
	return 0;
}

static void end_conn(struct rdma_cm_id *id)
{
	struct conn *conn = id->context;

	conn_destroy_qp(conn);
	rdma_destroy_id(id);
	free(conn);
	ended++;
}

static void responder_event(const struct rdma_cm_event *event, const struct rdma_conn_param *param)
{
	struct conn *conn = event->id->context;

	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		requests++;
		/* The id has its listener's context. */
		conn = calloc(1, sizeof(*conn));
		event->id->context = conn;
		conn->id = event->id;
		if (!is_pattern(param))
			note_wrong("private data of a request", param->private_data_len);
		if (answer(conn, param->private_data_len)) {
			note_wrong(options.reject ? "rdma_reject" : "rdma_accept", errno);
			end_conn(event->id);
		} else if (options.reject) {
			end_conn(event->id);
		}
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		if (event->status)
			note_wrong("ESTABLISHED", event->status);
		else if (options.when == WHEN_ESTABLISHED &&
			 conn_post_send(conn, MESSAGE_NUMBER, MESSAGE_LEN))
			note_wrong("ibv_post_send", errno);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		end_conn(event->id);
		break;
	default:
		note_wrong(rdma_event_str(event->event), event->status);
	}
}

static int responder(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_conn_param param;
	struct rdma_cm_event *event, copy;
	struct rdma_cm_id *listener;
	uint8_t data[256];

	if (!channel || rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(listener, (struct sockaddr *)&options.addr) ||
	    rdma_listen(listener, 128)) {
		perror("listen");
		return 1;
	}
	out_begin("LISTENING");
	out_int("port", ntohs(rdma_get_src_port(listener)));
	out_end();
	while (!options.count || ended < options.count) {
		if (rdma_get_cm_event(channel, &event)) {
			perror("rdma_get_cm_event");
			return 1;
		}
		copy = *event;
		param = event->param.conn;
		if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST && param.private_data_len) {
			memcpy(data, param.private_data, param.private_data_len);
			param.private_data = data;
		}
		rdma_ack_cm_event(event);
		responder_event(&copy, &param);
	}
	out_begin("SUMMARY");
	out_int("requests", requests);
	out_int("wrong", wrong);
	out_end();
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(channel);
	return wrong ? 1 : 0;
}

/* ---- the initiator ---- */

static bool failed(struct outcome *outcome, const char *what, int status)
{
	snprintf(outcome->what, sizeof(outcome->what), "%s", what);
	outcome->status = status;
	return false;
}

/*
 * Return: whether the event is the wanted one.  It is acknowledged; its private
 * data is checked against the pattern of private_len if that is not negative.
 */
static bool expect_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type,
			 int private_len, struct outcome *outcome)
{
	struct pollfd pfd = { .fd = channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;
	bool good = true;

	if (poll(&pfd, 1, STEP_MS) != 1)
		return failed(outcome, "no event", -ETIMEDOUT);
	if (rdma_get_cm_event(channel, &event))
		return failed(outcome, "rdma_get_cm_event", -errno);
	if (event->event != type ||
	    (event->status && type != RDMA_CM_EVENT_REJECTED))
		good = failed(outcome, rdma_event_str(event->event), event->status);
	else if (private_len >= 0 && (event->param.conn.private_data_len != private_len ||
				      !is_pattern(&event->param.conn)))
		good = failed(outcome, "private data", event->param.conn.private_data_len);
	rdma_ack_cm_event(event);
	return good;
}

static bool receive_message(struct conn *conn, struct outcome *outcome)
{
	uint8_t expected[MESSAGE_LEN];
	struct ibv_wc wc;

	if (wait_completion(conn, &wc, STEP_MS) != 1)
		return failed(outcome, "no message", -ETIMEDOUT);
	if (wc.status)
		return failed(outcome, "receive", (int)wc.status);
	memset(expected, MESSAGE_NUMBER, sizeof(expected));
	if (wc.byte_len != MESSAGE_LEN ||
	    memcmp(conn_recv_buffer(conn, wc.wr_id), expected, MESSAGE_LEN))
		return failed(outcome, "other octets", (int)wc.byte_len);
	return true;
}

static bool connect_id(struct rdma_event_channel *channel, struct conn *conn,
		       unsigned int private_len, struct outcome *outcome)
{
	enum rdma_cm_event_type wanted = options.reject ? RDMA_CM_EVENT_REJECTED :
							  RDMA_CM_EVENT_ESTABLISHED;
	struct rdma_conn_param param;
	uint8_t data[PD_MAX];
	double begun;

	if (rdma_resolve_addr(conn->id, NULL, (struct sockaddr *)&options.addr, STEP_MS))
		return failed(outcome, "rdma_resolve_addr", -errno);
	if (!expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, -1, outcome))
		return false;
	if (rdma_resolve_route(conn->id, STEP_MS))
		return failed(outcome, "rdma_resolve_route", -errno);
	if (!expect_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED, -1, outcome))
		return false;
	if (conn_create_qp(conn, DEPTH, MESSAGE_LEN) || conn_post_recv(conn))
		return failed(outcome, "rdma_create_qp", -errno);
	conn_param(&param, data, private_len);
	begun = now_ms();
	if (rdma_connect(conn->id, &param))
		return failed(outcome, "rdma_connect", -errno);
	if (!expect_event(channel, wanted, (int)private_len, outcome))
		return false;
	outcome->ms = now_ms() - begun;
	return true;
}

static void one_connection(struct rdma_event_channel *channel, unsigned int number,
			   struct outcome *outcome)
{
	unsigned int len = options.sweep ? number % (PD_MAX + 1) : options.private_len;
	struct conn conn = { .number = (int)number };

	memset(outcome, 0, sizeof(*outcome));
	if (rdma_create_id(channel, &conn.id, NULL, RDMA_PS_TCP)) {
		failed(outcome, "rdma_create_id", -errno);
		return;
	}
	if (connect_id(channel, &conn, len, outcome) &&
	    (options.reject || receive_message(&conn, outcome)))
		outcome->up = true;
	if (outcome->up && !options.reject)
		rdma_disconnect(conn.id);
	conn_destroy_qp(&conn);
	rdma_destroy_id(conn.id);
}

static _Noreturn void run_share(unsigned int first, int fd)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct outcome outcome;
	unsigned int number;

	if (!channel) {
		perror("rdma_create_event_channel");
		_exit(1);
	}
	for (number = first; number < options.count; number += options.processes) {
		one_connection(channel, number, &outcome);
		if (write(fd, &outcome, sizeof(outcome)) != sizeof(outcome))
			_exit(1);
	}
	rdma_destroy_event_channel(channel);
	_exit(0);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void summary(double *times, unsigned int up, double total_ms)
{
	qsort(times, up, sizeof(*times), compare);
	out_begin("SUMMARY");
	out_int("up", up);
	out_int("failed", (long long)options.count - up);
	if (up) {
		out_ms("median_ms", times[up / 2]);
		out_ms("min_ms", times[0]);
		out_ms("max_ms", times[up - 1]);
	}
	out_ms("total_ms", total_ms);
	out_end();
}

static void report(unsigned int number, const struct outcome *outcome)
{
	if (outcome->up && !options.verbose)
		return;
	out_begin(outcome->up ? "UP" : "FAILED");
	out_int("number", number);
	if (outcome->up) {
		out_ms("ms", outcome->ms);
	} else {
		out_text("what", outcome->what);
		out_int("status", outcome->status);
	}
	out_end();
}

static int initiator(void)
{
	unsigned int i, got = 0, up = 0;
	double *times = calloc(options.count, sizeof(*times));
	double begun = now_ms();
	struct outcome outcome;
	int fds[2];

	if (!times || pipe(fds)) {
		perror("pipe");
		return 1;
	}
	for (i = 0; i < options.processes; i++) {
		switch (fork()) {
		case 0:
			close(fds[0]);
			run_share(i, fds[1]);
		case -1:
			perror("fork");
			return 1;
		}
	}
	close(fds[1]);
	while (got < options.count && read(fds[0], &outcome, sizeof(outcome)) == sizeof(outcome)) {
		report(got++, &outcome);
		if (outcome.up)
			times[up++] = outcome.ms;
	}
	summary(times, up, now_ms() - begun);
	while (wait(NULL) > 0)
		;
	free(times);
	return up == options.count ? 0 : 1;
}

/* ---- options ---- */

static void usage(FILE *file)
{
	fprintf(file,
		"usage: mpa2-cm passive-first --listen ADDRESS | --connect ADDRESS [OPTION...]\n"
		"  --port N             default 7174; 0 with --listen: any\n"
		"  --count N            connections (default 50); 0 with --listen: for ever\n"
		"  --processes N        initiators at the same time (default 1)\n"
		"  --when WHEN          established (default) or accept: the responder's Send\n"
		"  --ird N, --ord N     depths asked for or granted (default 1, 1)\n"
		"  --private-len N      octets of private data, echoed by the responder\n"
		"  --private-sweep      0, 1, ... 255 octets, one more with each connection\n"
		"  --reject             the responder rejects; give it to both ends\n"
		"  --verbose            a line for each connection\n");
}

static void parse_options(int argc, char **argv)
{
	static const struct option table[] = {
		{ "listen", required_argument, NULL, 'l' },
		{ "connect", required_argument, NULL, 'c' },
		{ "port", required_argument, NULL, 'p' },
		{ "count", required_argument, NULL, 'n' },
		{ "processes", required_argument, NULL, 'P' },
		{ "when", required_argument, NULL, 'w' },
		{ "ird", required_argument, NULL, 'i' },
		{ "ord", required_argument, NULL, 'o' },
		{ "private-len", required_argument, NULL, 'd' },
		{ "private-sweep", no_argument, NULL, 's' },
		{ "reject", no_argument, NULL, 'r' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'h' },
		{ }
	};
	const char *host = NULL;
	unsigned int port = 7174;
	int option;

	while ((option = getopt_long(argc, argv, "h", table, NULL)) != -1) {
		switch (option) {
		case 'l':
			options.listen = true;
			host = optarg;
			break;
		case 'c':
			host = optarg;
			break;
		case 'p':
			port = (unsigned int)parse_number(optarg, 65535);
			break;
		case 'n':
			options.count = (unsigned int)parse_number(optarg, 10000000);
			break;
		case 'P':
			options.processes = (unsigned int)parse_number(optarg, 256);
			break;
		case 'w':
			options.when = strcmp(optarg, "accept") ? WHEN_ESTABLISHED : WHEN_ACCEPT;
			break;
		case 'i':
			options.ird = (unsigned int)parse_number(optarg, 255);
			break;
		case 'o':
			options.ord = (unsigned int)parse_number(optarg, 255);
			break;
		case 'd':
			options.private_len = (unsigned int)parse_number(optarg, PD_MAX);
			break;
		case 's':
			options.sweep = true;
			break;
		case 'r':
			options.reject = true;
			break;
		case 'v':
			options.verbose = true;
			break;
		default:
			usage(option == 'h' ? stdout : stderr);
			exit(option == 'h' ? 0 : 2);
		}
	}
	if (!host || optind < argc || !options.processes) {
		usage(stderr);
		exit(2);
	}
	parse_address(host, port, &options.addr);
}

int passive_first_main(int argc, char **argv)
{
	parse_options(argc, argv);
	return options.listen ? responder() : initiator();
}
