// SPDX-License-Identifier: GPL-2.0
/*
 * The agent: an rdma_cm application by remote control.  A test writes commands
 * to its standard input, one a line, and reads from its standard output what
 * rdma_cm and the completion queues say, one JSON object a line.
 *
 *   listen ADDRESS PORT [KEY=VALUE...]     accept, reject: what to do by itself
 *   connect ADDRESS PORT [KEY=VALUE...]
 *   accept ID [KEY=VALUE...]
 *   reject ID [pd=HEX]
 *   send | recv | read | write ID [n=N] [size=N] [addr=N] [rkey=N]
 *   query | disconnect | destroy ID
 *   reset                                  destroy everything
 *   quit
 *
 * KEY: ird, ord (responder_resources, initiator_depth), pd (private data, hex),
 * recvs (posted before connect or accept), sends (posted right after accept
 * returns), established (sends posted in the handler of ESTABLISHED), size,
 * depth (of the queues), src (address to connect from), backlog, auto (accept
 * or reject).
 *
 * Every command is answered by {"event": "done"} with errno and the time taken.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpa2-cm.h"

#define MAX_CONNS 2048
#define RESOLVE_MS 5000

enum automatic { AUTO_NONE, AUTO_ACCEPT, AUTO_REJECT };

struct options {
	unsigned int ird, ord;
	unsigned int recvs, sends, established;
	unsigned int size, depth, backlog;
	unsigned int n;
	unsigned long addr, rkey;
	enum automatic automatic;
	const char *src;
	uint8_t pd[PD_MAX];
	unsigned int pd_len;
};

struct peer {
	struct conn conn;
	struct options options;
	uint64_t sent;
	bool listening;
};

static struct peer *peers[MAX_CONNS];
static int next_number;
static struct rdma_event_channel *channel;

static const struct options defaults = {
	.ird = 1,
	.ord = 1,
	.recvs = 4,
	.size = 64,
	.depth = 32,
	.backlog = 16,
	.n = 1,
};

/* ---- the table of ids ---- */

static struct peer *new_peer(struct rdma_cm_id *id, const struct options *options)
{
	struct peer *peer = NULL;

	if (next_number < MAX_CONNS)
		peer = calloc(1, sizeof(*peer));
	if (!peer) {
		errno = ENOMEM;
		return NULL;
	}
	peer->conn.id = id;
	peer->conn.number = next_number;
	peer->options = *options;
	if (id)
		id->context = peer;
	peers[next_number++] = peer;
	return peer;
}

static struct peer *find_peer(const char *text)
{
	int number = text ? (int)parse_number(text, MAX_CONNS - 1) : -1;

	if (number < 0 || !peers[number]) {
		errno = ENOENT;
		return NULL;
	}
	return peers[number];
}

static int destroy_peer(struct peer *peer)
{
	struct rdma_cm_id *id = peer->conn.id;
	int ret = 0;

	conn_destroy_qp(&peer->conn);
	peer->conn.id = NULL;
	if (id)
		ret = rdma_destroy_id(id);
	peers[peer->conn.number] = NULL;
	free(peer);
	return ret;
}

static int destroy_all(void)
{
	int number, ret = 0;

	for (number = 0; number < next_number; number++)
		if (peers[number] && destroy_peer(peers[number]))
			ret = -1;
	next_number = 0;
	return ret;
}

/* ---- what the commands do ---- */

static void conn_param(const struct options *options, struct rdma_conn_param *param)
{
	memset(param, 0, sizeof(*param));
	param->responder_resources = (uint8_t)options->ird;
	param->initiator_depth = (uint8_t)options->ord;
	param->private_data = options->pd;
	param->private_data_len = (uint8_t)options->pd_len;
}

static int prepare_qp(struct peer *peer)
{
	unsigned int i;

	if (conn_create_qp(&peer->conn, peer->options.depth, peer->options.size))
		return -1;
	for (i = 0; i < peer->options.recvs; i++)
		if (conn_post_recv(&peer->conn))
			return -1;
	return 0;
}

static int post_sends(struct peer *peer, unsigned int n)
{
	while (n--)
		if (conn_post_send(&peer->conn, ++peer->sent, peer->options.size))
			return -1;
	return 0;
}

static int do_accept(struct peer *peer)
{
	struct rdma_conn_param param;

	conn_param(&peer->options, &param);
	if (!peer->conn.id->qp && prepare_qp(peer))
		return -1;
	if (rdma_accept(peer->conn.id, &param))
		return -1;
	return post_sends(peer, peer->options.sends);
}

static int do_reject(struct peer *peer)
{
	return rdma_reject(peer->conn.id, peer->options.pd, (uint8_t)peer->options.pd_len);
}

static int do_listen(const char *host, const char *port, const struct options *options)
{
	struct sockaddr_storage addr;
	struct rdma_cm_id *id;
	struct peer *peer;

	parse_address(host, (unsigned int)parse_number(port, 65535), &addr);
	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		return -1;
	peer = new_peer(id, options);
	if (!peer) {
		rdma_destroy_id(id);
		return -1;
	}
	peer->listening = true;
	if (rdma_bind_addr(id, (struct sockaddr *)&addr) ||
	    rdma_listen(id, (int)options->backlog)) {
		int error = errno;

		destroy_peer(peer);
		errno = error;
		return -1;
	}
	out_begin("LISTENING");
	out_int("id", peer->conn.number);
	out_int("port", ntohs(rdma_get_src_port(id)));
	out_end();
	return 0;
}

static int do_connect(const char *host, const char *port, const struct options *options)
{
	struct sockaddr_storage addr, src;
	struct rdma_cm_id *id;
	struct peer *peer;

	parse_address(host, (unsigned int)parse_number(port, 65535), &addr);
	if (options->src)
		parse_address(options->src, 0, &src);
	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		return -1;
	peer = new_peer(id, options);
	if (!peer) {
		rdma_destroy_id(id);
		return -1;
	}
	peer->options.src = NULL;
	out_begin("CONNECTING");
	out_int("id", peer->conn.number);
	out_end();
	return rdma_resolve_addr(id, options->src ? (struct sockaddr *)&src : NULL,
				 (struct sockaddr *)&addr, RESOLVE_MS);
}

/* The route is known: the one call that a test measures. */
static void connect_now(struct peer *peer)
{
	struct rdma_conn_param param;
	double begun;
	int ret;

	conn_param(&peer->options, &param);
	if (prepare_qp(peer)) {
		out_error("rdma_create_qp", peer->conn.number);
		return;
	}
	begun = now_ms();
	ret = rdma_connect(peer->conn.id, &param);
	out_begin("CONNECT_RETURNED");
	out_int("id", peer->conn.number);
	out_int("errno", ret ? errno : 0);
	out_ms("ms", now_ms() - begun);
	out_end();
}

static int do_query(struct peer *peer)
{
	static const char * const names[] = {
		"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR",
	};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	errno = ibv_query_qp(peer->conn.id->qp, &attr, IBV_QP_STATE, &init);
	if (errno)
		return -1;
	out_begin("QP");
	out_int("id", peer->conn.number);
	out_text("state", attr.qp_state <= IBV_QPS_ERR ? names[attr.qp_state] : "?");
	out_int("max_rd_atomic", attr.max_rd_atomic);
	out_int("max_dest_rd_atomic", attr.max_dest_rd_atomic);
	out_end();
	return 0;
}

static int do_rdma(struct peer *peer, const struct options *options, enum ibv_wr_opcode opcode)
{
	unsigned int n;

	for (n = 0; n < options->n; n++)
		if (conn_post_rdma(&peer->conn, opcode, ++peer->sent, options->size,
				   options->addr, (uint32_t)options->rkey))
			return -1;
	return 0;
}

static int do_recv(struct peer *peer, unsigned int n)
{
	while (n--)
		if (conn_post_recv(&peer->conn))
			return -1;
	return 0;
}

/* ---- commands ---- */

static int parse_hex(const char *text, uint8_t *data, unsigned int *len)
{
	unsigned int value;

	for (*len = 0; text[0] && text[1] && *len < PD_MAX; text += 2) {
		if (sscanf(text, "%2x", &value) != 1)
			return -1;
		data[(*len)++] = (uint8_t)value;
	}
	return *text ? -1 : 0;
}

static int parse_option(char *word, struct options *options)
{
	const struct {
		const char *name;
		unsigned int *value;
		unsigned long max;
	} numbers[] = {
		{ "ird", &options->ird, 255 },
		{ "ord", &options->ord, 255 },
		{ "recvs", &options->recvs, 1024 },
		{ "sends", &options->sends, 1024 },
		{ "established", &options->established, 1024 },
		{ "size", &options->size, 1 << 20 },
		{ "depth", &options->depth, 1024 },
		{ "backlog", &options->backlog, 65535 },
		{ "n", &options->n, 1024 },
	};
	char *value = strchr(word, '=');
	size_t i;

	if (!value)
		return -1;
	*value++ = '\0';
	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (!strcmp(word, numbers[i].name)) {
			*numbers[i].value = (unsigned int)parse_number(value, numbers[i].max);
			return 0;
		}
	}
	if (!strcmp(word, "addr"))
		options->addr = parse_number(value, ~0ul);
	else if (!strcmp(word, "rkey"))
		options->rkey = parse_number(value, 0xffffffff);
	else if (!strcmp(word, "src"))
		options->src = value;
	else if (!strcmp(word, "auto"))
		options->automatic = !strcmp(value, "accept") ? AUTO_ACCEPT : AUTO_REJECT;
	else if (!strcmp(word, "pd"))
		return parse_hex(value, options->pd, &options->pd_len);
	else
		return -1;
	return 0;
}

static int on_id(const char *command, const char *id, const struct options *options)
{
	struct peer *peer = find_peer(id);

	if (!peer)
		return -1;
	if (!strcmp(command, "accept") || !strcmp(command, "reject")) {
		peer->options = *options;
		return command[0] == 'a' ? do_accept(peer) : do_reject(peer);
	}
	if (!strcmp(command, "send")) {
		peer->options.size = options->size;
		return post_sends(peer, options->n);
	}
	if (!strcmp(command, "recv"))
		return do_recv(peer, options->n);
	if (!strcmp(command, "read"))
		return do_rdma(peer, options, IBV_WR_RDMA_READ);
	if (!strcmp(command, "write"))
		return do_rdma(peer, options, IBV_WR_RDMA_WRITE);
	if (!strcmp(command, "query"))
		return do_query(peer);
	if (!strcmp(command, "disconnect"))
		return rdma_disconnect(peer->conn.id);
	if (!strcmp(command, "destroy"))
		return destroy_peer(peer);
	errno = ENOSYS;
	return -1;
}

static int execute(char *line)
{
	bool two = !strncmp(line, "listen", 6) || !strncmp(line, "connect", 7);
	struct options options = defaults;
	char *command, *first, *second = NULL, *word;

	command = strtok(line, " \n");
	if (!strcmp(command, "reset"))
		return destroy_all();
	first = strtok(NULL, " \n");
	if (two)
		second = strtok(NULL, " \n");
	while ((word = strtok(NULL, " \n")) != NULL) {
		if (parse_option(word, &options)) {
			errno = EINVAL;
			return -1;
		}
	}
	if (!two)
		return on_id(command, first, &options);
	if (!first || !second) {
		errno = EINVAL;
		return -1;
	}
	return command[0] == 'l' ? do_listen(first, second, &options) :
				   do_connect(first, second, &options);
}

/* Return: false when there is nothing more to do. */
static bool handle_command(char *line)
{
	double begun = now_ms();
	char name[16] = "";
	int error;

	if (sscanf(line, "%15s", name) != 1)
		return true;
	if (!strcmp(name, "quit"))
		return false;
	error = execute(line) ? errno : 0;
	out_begin("done");
	out_text("command", name);
	out_int("errno", error);
	out_ms("ms", now_ms() - begun);
	out_end();
	return true;
}

/* ---- events ---- */

static void print_event(const struct rdma_cm_event *event, const struct peer *peer,
			const struct peer *listener)
{
	const struct rdma_conn_param *param = &event->param.conn;

	out_begin(rdma_event_str(event->event) + strlen("RDMA_CM_EVENT_"));
	out_int("id", peer ? peer->conn.number : -1);
	if (listener)
		out_int("listener", listener->conn.number);
	out_int("status", event->status);
	if (event->event >= RDMA_CM_EVENT_CONNECT_REQUEST &&
	    event->event <= RDMA_CM_EVENT_DISCONNECTED) {
		out_int("responder_resources", param->responder_resources);
		out_int("initiator_depth", param->initiator_depth);
		out_hex("private_data", param->private_data,
			param->private_data ? param->private_data_len : 0);
		out_int("private_data_len", param->private_data_len);
	}
	out_end();
}

static void on_request(const struct rdma_cm_event *event)
{
	struct peer *listener = event->listen_id->context;
	struct peer *peer = new_peer(event->id, &listener->options);

	print_event(event, peer, listener);
	if (!peer) {
		rdma_destroy_id(event->id);
		return;
	}
	if (listener->options.automatic == AUTO_ACCEPT && do_accept(peer))
		out_error("rdma_accept", peer->conn.number);
	if (listener->options.automatic == AUTO_REJECT && do_reject(peer))
		out_error("rdma_reject", peer->conn.number);
}

static void on_own_event(const struct rdma_cm_event *event, struct peer *peer)
{
	/* Before anything else: whoever reads the line may be slower. */
	if (event->event == RDMA_CM_EVENT_ESTABLISHED && !event->status &&
	    post_sends(peer, peer->options.established))
		out_error("ibv_post_send", peer->conn.number);
	print_event(event, peer, NULL);
	if (event->event == RDMA_CM_EVENT_ADDR_RESOLVED &&
	    rdma_resolve_route(peer->conn.id, RESOLVE_MS))
		out_error("rdma_resolve_route", peer->conn.number);
	if (event->event == RDMA_CM_EVENT_ROUTE_RESOLVED)
		connect_now(peer);
}

static void handle_cm_event(void)
{
	struct rdma_cm_event *event, copy;
	uint8_t data[256];

	if (rdma_get_cm_event(channel, &event))
		return;
	/* Acknowledged before it is handled, since a handler may destroy ids. */
	copy = *event;
	if (event->param.conn.private_data &&
	    event->event >= RDMA_CM_EVENT_CONNECT_REQUEST &&
	    event->event <= RDMA_CM_EVENT_DISCONNECTED) {
		memcpy(data, event->param.conn.private_data, event->param.conn.private_data_len);
		copy.param.conn.private_data = data;
	}
	rdma_ack_cm_event(event);
	if (copy.event == RDMA_CM_EVENT_CONNECT_REQUEST)
		on_request(&copy);
	else
		on_own_event(&copy, copy.id->context);
}

static void print_completion(const struct peer *peer, const struct ibv_wc *wc)
{
	/* With an error the opcode says nothing. */
	bool receive = !wc->status && wc->opcode & IBV_WC_RECV;

	out_begin("WC");
	out_int("id", peer->conn.number);
	out_text("opcode", wc->status ? "?" : receive ? "RECV" :
		 wc->opcode == IBV_WC_RDMA_READ ? "READ" :
		 wc->opcode == IBV_WC_RDMA_WRITE ? "WRITE" : "SEND");
	out_int("status", wc->status);
	out_int("wr_id", (long long)wc->wr_id);
	if (receive)
		out_hex("data", conn_recv_buffer(&peer->conn, wc->wr_id), wc->byte_len);
	out_end();
}

static void handle_completions(struct peer *peer)
{
	struct ibv_wc wc;
	int n;

	while ((n = wait_completion(&peer->conn, &wc, 0)) > 0)
		print_completion(peer, &wc);
	if (n < 0)
		out_error("ibv_poll_cq", peer->conn.number);
}

/* ---- the loop ---- */

static void wait_for_work(bool *command, bool *cm_event)
{
	static struct pollfd fds[MAX_CONNS + 2];
	static struct peer *owner[MAX_CONNS + 2];
	int number, n = 2, i;

	fds[0] = (struct pollfd){ .fd = STDIN_FILENO, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = channel->fd, .events = POLLIN };
	for (number = 0; number < next_number; number++) {
		if (!peers[number] || !peers[number]->conn.channel)
			continue;
		owner[n] = peers[number];
		fds[n++] = (struct pollfd){
			.fd = peers[number]->conn.channel->fd,
			.events = POLLIN,
		};
	}
	if (poll(fds, (nfds_t)n, -1) < 0)
		exit(1);
	for (i = 2; i < n; i++)
		if (fds[i].revents)
			handle_completions(owner[i]);
	*command = fds[0].revents;
	*cm_event = fds[1].revents;
}

/*
 * Standard input without stdio's buffer, in which a second line would wait
 * unseen by poll().  Return: false at the end of input.
 */
static bool read_commands(void)
{
	static char buffer[4096];
	static size_t used;
	ssize_t got = read(STDIN_FILENO, buffer + used, sizeof(buffer) - 1 - used);
	char *end;

	if (got <= 0)
		return false;
	used += (size_t)got;
	buffer[used] = '\0';
	while ((end = strchr(buffer, '\n')) != NULL) {
		*end++ = '\0';
		if (!handle_command(buffer))
			return false;
		used -= (size_t)(end - buffer);
		memmove(buffer, end, used + 1);
	}
	return used < sizeof(buffer) - 1;
}

int agent_main(int argc, char **argv)
{
	bool command, cm_event;

	if (argc != 1) {
		fprintf(stderr, "usage: mpa2-cm %s\n", argv[0]);
		return 2;
	}
	channel = rdma_create_event_channel();
	if (!channel) {
		perror("rdma_create_event_channel");
		return 1;
	}
	out_begin("READY");
	out_end();
	do {
		wait_for_work(&command, &cm_event);
		if (cm_event)
			handle_cm_event();
	} while (!command || read_commands());
	destroy_all();
	rdma_destroy_event_channel(channel);
	return 0;
}
