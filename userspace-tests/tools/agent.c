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
 *   query | disconnect | destroy ID        destroy: the QP, then the id
 *   destroy_srq ID
 *   error | destroy_qp ID                  move the QP to ERROR, destroy it alone
 *   destroy_id ID                          the id alone, in a thread, as it may block
 *   churn ID [n=N]                         make a QP, move it to ERROR, destroy it
 *   prepare ID [OPTION...]                 make the QP, and no more
 *   modify ID [state=NAME] [n=N]           ibv_modify_qp: the state, or access flags
 *   reset                                  destroy everything
 *   quit
 *
 * KEY: ird, ord (responder_resources, initiator_depth), pd (private data, hex),
 * recvs (posted before connect or accept), sends (posted right after accept
 * returns), established (sends posted in the handler of ESTABLISHED), size,
 * depth (of the queues), src and sport (address and port to connect from), backlog,
 * auto (accept or reject), qpn (a QP number to connect or accept with instead of an
 * own QP), tos (type of service of a connect or listen), then (query or disconnect:
 * done in the handler of ESTABLISHED), srq (1: receives go to a shared queue).
 *
 * Every command is answered by {"event": "done"} with errno and the time taken;
 * the end of destroy_id's call is {"event": "ID_DESTROYED"}.
 */
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpa2-cm.h"

#define MAX_CONNS 2048
#define RESOLVE_MS 5000

enum automatic { AUTO_NONE, AUTO_ACCEPT, AUTO_REJECT };
enum then { THEN_NOTHING, THEN_QUERY, THEN_DISCONNECT };

struct options {
	unsigned int ird, ord;
	unsigned int recvs, sends, established;
	unsigned int size, depth, backlog, sport;
	unsigned int n;
	unsigned int qpn, tos, srq;
	int state;
	unsigned long addr, rkey;
	enum automatic automatic;
	enum then then;
	const char *src;
	uint8_t pd[PD_MAX];
	unsigned int pd_len;
};

struct peer {
	struct conn conn;
	struct options options;
	uint64_t sent;
	bool listening;
	/* once destroy_id has begun: what its thread destroys, and what it leaves */
	struct rdma_cm_id *leaving;
	struct ibv_qp *left_qp;
	pthread_t thread;
};

static const char * const qp_states[] = {
	"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR",
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
	.state = -1,
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

	if (number < 0 || !peers[number] || !peers[number]->conn.id) {
		errno = ENOENT;
		return NULL;
	}
	return peers[number];
}

static int destroy_peer(struct peer *peer)
{
	struct rdma_cm_id *id = peer->conn.id;
	int ret = 0;

	if (peer->leaving)
		pthread_join(peer->thread, NULL);
	if (peer->left_qp)
		ibv_destroy_qp(peer->left_qp);
	conn_destroy_qp(&peer->conn);
	peer->conn.id = NULL;
	if (id)
		ret = rdma_destroy_id(id);
	peers[peer->conn.number] = NULL;
	free(peer);
	return ret;
}

static void *destroy_id_thread(void *data)
{
	struct peer *peer = data;
	double begun = now_ms();
	int ret = rdma_destroy_id(peer->leaving);

	out_begin("ID_DESTROYED");
	out_int("id", peer->conn.number);
	out_int("errno", ret ? errno : 0);
	out_ms("ms", now_ms() - begun);
	out_end();
	return NULL;
}

/* Its last events are still to be read, so the loop has to go on meanwhile. */
static int destroy_id(struct peer *peer)
{
	peer->leaving = peer->conn.id;
	peer->left_qp = peer->conn.id->qp;
	peer->conn.id = NULL;
	errno = pthread_create(&peer->thread, NULL, destroy_id_thread, peer);
	return errno ? -1 : 0;
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
	param->qp_num = options->qpn;
}

static int prepare_qp(struct peer *peer)
{
	unsigned int i;

	peer->conn.shared = peer->options.srq;
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

/* By number alone, whosever QP that is, as programs may that manage their own QPs. */
static int accept_qpn(struct peer *peer, struct rdma_conn_param *param)
{
	struct ibv_qp *qp = peer->conn.id->qp;
	int ret;

	peer->conn.id->qp = NULL;
	ret = rdma_accept(peer->conn.id, param);
	peer->conn.id->qp = qp;
	return ret;
}

static int do_accept(struct peer *peer)
{
	struct rdma_conn_param param;

	conn_param(&peer->options, &param);
	if (peer->options.qpn)
		return accept_qpn(peer, &param);
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

static int set_tos(struct rdma_cm_id *id, const struct options *options)
{
	uint8_t tos = (uint8_t)options->tos;

	return tos ? rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)) :
		     0;
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
	if (set_tos(id, options) || rdma_bind_addr(id, (struct sockaddr *)&addr) ||
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
		parse_address(options->src, options->sport, &src);
	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		return -1;
	peer = new_peer(id, options);
	if (!peer) {
		rdma_destroy_id(id);
		return -1;
	}
	peer->options.src = NULL;
	if (set_tos(id, options))
		return -1;
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
	if (!peer->options.qpn && prepare_qp(peer)) {
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

static int do_error(struct peer *peer)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	errno = ibv_modify_qp(peer->conn.id->qp, &attr, IBV_QP_STATE);
	return errno ? -1 : 0;
}

static int do_churn(struct peer *peer, unsigned int n)
{
	while (n--) {
		conn_destroy_qp(&peer->conn);
		if (prepare_qp(peer) || do_error(peer))
			return -1;
	}
	return 0;
}

static int do_query(struct peer *peer)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	errno = ibv_query_qp(peer->conn.id->qp, &attr, IBV_QP_STATE, &init);
	if (errno)
		return -1;
	out_begin("QP");
	out_int("id", peer->conn.number);
	out_text("state", attr.qp_state <= IBV_QPS_ERR ? qp_states[attr.qp_state] : "?");
	out_int("qp_num", peer->conn.id->qp->qp_num);
	out_int("max_rd_atomic", attr.max_rd_atomic);
	out_int("max_dest_rd_atomic", attr.max_dest_rd_atomic);
	out_end();
	return 0;
}

static int do_modify(struct peer *peer, const struct options *options)
{
	struct ibv_qp_attr attr = {
		.qp_state = (enum ibv_qp_state)options->state,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE,
	};
	int mask = options->state < 0 ? IBV_QP_ACCESS_FLAGS : IBV_QP_STATE;
	unsigned int n;

	for (n = 0; n < options->n; n++) {
		errno = ibv_modify_qp(peer->conn.id->qp, &attr, mask);
		if (errno)
			return -1;
	}
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

static int parse_state(const char *name, int *state)
{
	size_t i;

	for (i = 0; i < sizeof(qp_states) / sizeof(qp_states[0]); i++) {
		if (!strcmp(name, qp_states[i])) {
			*state = (int)i;
			return 0;
		}
	}
	return -1;
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
		{ "sport", &options->sport, 65535 },
		{ "n", &options->n, 1 << 20 },
		{ "qpn", &options->qpn, 0xffffffff },
		{ "tos", &options->tos, 255 },
		{ "srq", &options->srq, 1 },
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
	else if (!strcmp(word, "state"))
		return parse_state(value, &options->state);
	else if (!strcmp(word, "then"))
		options->then = !strcmp(value, "query") ? THEN_QUERY : THEN_DISCONNECT;
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
	if (!strcmp(command, "prepare")) {
		peer->options = *options;
		return prepare_qp(peer);
	}
	if (!strcmp(command, "modify"))
		return do_modify(peer, options);
	if (!strcmp(command, "query"))
		return do_query(peer);
	if (!strcmp(command, "disconnect"))
		return rdma_disconnect(peer->conn.id);
	if (!strcmp(command, "destroy"))
		return destroy_peer(peer);
	if (!strcmp(command, "destroy_srq"))
		return conn_destroy_srq(&peer->conn);
	if (!strcmp(command, "destroy_id"))
		return destroy_id(peer);
	if (!peer->conn.id->qp) {
		errno = EINVAL;
		return -1;
	}
	if (!strcmp(command, "error"))
		return do_error(peer);
	if (!strcmp(command, "churn"))
		return do_churn(peer, options->n);
	if (!strcmp(command, "destroy_qp")) {
		rdma_destroy_qp(peer->conn.id);
		return 0;
	}
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

static void out_address(const char *name, struct sockaddr *addr)
{
	char host[INET6_ADDRSTRLEN + IF_NAMESIZE + 1] = "", port[8] = "", text[80];

	if (addr->sa_family)
		getnameinfo(addr, addr->sa_family == AF_INET ? sizeof(struct sockaddr_in) :
							       sizeof(struct sockaddr_in6),
			    host, sizeof(host), port, sizeof(port),
			    NI_NUMERICHOST | NI_NUMERICSERV);
	snprintf(text, sizeof(text), "%s %s", host, port);
	out_text(name, text);
}

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
	out_address("local", rdma_get_local_addr(event->id));
	out_address("remote", rdma_get_peer_addr(event->id));
	out_end();
}

static void on_request(const struct rdma_cm_event *event, const struct peer *listener)
{
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

/* Before anything else: whoever reads the line of the event may be slower. */
static void on_established(struct peer *peer)
{
	if (post_sends(peer, peer->options.established))
		out_error("ibv_post_send", peer->conn.number);
	if (peer->options.then == THEN_QUERY && do_query(peer))
		out_error("ibv_query_qp", peer->conn.number);
	if (peer->options.then == THEN_DISCONNECT && rdma_disconnect(peer->conn.id))
		out_error("rdma_disconnect", peer->conn.number);
}

static void on_own_event(const struct rdma_cm_event *event, struct peer *peer)
{
	bool here = !peer->leaving;

	if (here && event->event == RDMA_CM_EVENT_ESTABLISHED && !event->status)
		on_established(peer);
	print_event(event, peer, NULL);
	if (here && event->event == RDMA_CM_EVENT_ADDR_RESOLVED &&
	    rdma_resolve_route(peer->conn.id, RESOLVE_MS))
		out_error("rdma_resolve_route", peer->conn.number);
	if (here && event->event == RDMA_CM_EVENT_ROUTE_RESOLVED)
		connect_now(peer);
}

static void handle_cm_event(void)
{
	struct rdma_cm_event *event, copy;
	const struct peer *listener;
	uint8_t data[256];

	/* What poll() saw goes when destroy_id_thread() destroys its id before we come. */
	if (rdma_get_cm_event(channel, &event))
		return;
	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
		/* Its id stays until it is acknowledged. */
		on_own_event(event, event->id->context);
		rdma_ack_cm_event(event);
		return;
	}
	/* Acknowledged before it is handled, since the handler may destroy its id. */
	listener = event->listen_id->context;
	copy = *event;
	if (event->param.conn.private_data) {
		memcpy(data, event->param.conn.private_data, event->param.conn.private_data_len);
		copy.param.conn.private_data = data;
	}
	rdma_ack_cm_event(event);
	on_request(&copy, listener);
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

	if (argc == 2 && !strcmp(argv[1], "many")) {
		conn_many();
	} else if (argc != 1) {
		fprintf(stderr, "usage: mpa2-cm %s [many]\n", argv[0]);
		return 2;
	}
	channel = rdma_create_event_channel();
	if (!channel) {
		perror("rdma_create_event_channel");
		return 1;
	}
	if (set_nonblocking(channel->fd)) {
		perror("fcntl");
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
