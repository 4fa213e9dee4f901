// SPDX-License-Identifier: GPL-2.0
/* Plays the scripts, a few at the same time, over raw TCP sockets. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../tools/mpa2-cm.h"
#include "wire-fuzz.h"

#define SLOTS_MAX 64
#define CONNECT_MS 20000
#define END_MS 5000
#define REST_MS 30000

enum slot_state { SLOT_FREE, SLOT_CONNECTING, SLOT_LISTENING, SLOT_PLAYING, SLOT_ENDING };

struct slot {
	enum slot_state state;
	int listener, fd;
	struct talk *talk;
	unsigned int step;
	uint32_t step_sent;
	double begun, due;
	bool waiting;		/* due belongs to the step */
	bool we_ended;
	struct script script;
};

static struct slot slots[SLOTS_MAX];
/* When poll() returned before it last did: nothing that is new can be older. */
static double looked_before, looked_last;

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "wire-fuzz: %s: %s\n", what, strerror(errno));
	exit(1);
}

/*
 * What the kernel's timers go by.  The ticks of a busy emulated machine come late
 * and then many at once, so that a timer may seem to fire early by any other clock.
 */
static double ticks_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

/* ---- the victim's ear and mouth ---- */

void give_order(const struct attack *attack, const struct order *order)
{
	if (send(attack->control, order, sizeof(*order), MSG_NOSIGNAL) != sizeof(*order))
		die("the application under attack has ended");
}

bool get_report(const struct attack *attack, struct report *report, int timeout_ms)
{
	struct pollfd pfd = { .fd = attack->control, .events = POLLIN };

	if (poll(&pfd, 1, timeout_ms) <= 0)
		return false;
	if (recv(attack->control, report, sizeof(*report), 0) != sizeof(*report)) {
		errno = ECHILD;
		die("the application under attack has ended");
	}
	return true;
}

static void keep_report(struct batch *batch, const struct report *report)
{
	uint32_t i = report->index - batch->first;

	/* As responder it knows only the peer's port. */
	if (report->responder)
		i = (report->index - RAW_PORT + RAW_PORTS - batch->first % RAW_PORTS) % RAW_PORTS;
	if (i >= batch->count) {
		fprintf(stderr, "wire-fuzz: a report on nothing of this batch: %s %u\n",
			report->responder ? "port" : "exchange", report->index);
		exit(1);
	}
	if (batch->reported[i]) {
		fprintf(stderr, "wire-fuzz: a second report on exchange %u\n", batch->first + i);
		exit(1);
	}
	batch->reported[i] = true;
	batch->reports[i] = *report;
}

/* ---- sockets ---- */

static void any_address(bool v6, const char *host, unsigned int port, struct sockaddr_storage *addr)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)addr;
	struct sockaddr_in *in = (struct sockaddr_in *)addr;

	memset(addr, 0, sizeof(*addr));
	addr->ss_family = v6 ? AF_INET6 : AF_INET;
	if (v6)
		in6->sin6_port = htons((uint16_t)port);
	else
		in->sin_port = htons((uint16_t)port);
	if (inet_pton(addr->ss_family, host,
		      v6 ? (void *)&in6->sin6_addr : (void *)&in->sin_addr) != 1)
		die(host);
}

static int tcp_socket(int family)
{
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)))
		die("socket");
	return fd;
}

void open_slots(struct attack *attack)
{
	struct sockaddr_storage addr;
	unsigned int i;

	if (attack->slots > SLOTS_MAX)
		attack->slots = SLOTS_MAX;
	for (i = 0; i < attack->slots; i++) {
		slots[i].fd = -1;
		slots[i].listener = tcp_socket(AF_INET6);
		any_address(true, "::", SLOT_PORT + i, &addr);
		if (bind(slots[i].listener, (struct sockaddr *)&addr, sizeof(addr)) ||
		    listen(slots[i].listener, 8))
			die("listen");
	}
}

static void begin_connect(struct slot *slot)
{
	struct sockaddr_storage local, remote;
	bool v6 = slot->script.v6;

	any_address(v6, v6 ? ADDRESS_A6 : ADDRESS_A,
		    RAW_PORT + slot->talk->index % RAW_PORTS, &local);
	any_address(v6, v6 ? ADDRESS_B6 : ADDRESS_B, VICTIM_PORT, &remote);
	slot->fd = tcp_socket(local.ss_family);
	if (bind(slot->fd, (struct sockaddr *)&local, sizeof(local)))
		die("bind");
	if (connect(slot->fd, (struct sockaddr *)&remote, sizeof(remote)) && errno != EINPROGRESS)
		die("connect");
	slot->state = SLOT_CONNECTING;
}

static void order_connect(const struct attack *attack, struct slot *slot)
{
	const struct order order = {
		.type = ORDER_CONNECT,
		.index = slot->talk->index,
		.v6 = slot->script.v6,
		.port = (uint16_t)(SLOT_PORT + (slot - slots)),
		.behaviour = slot->script.app,
	};

	give_order(attack, &order);
	slot->state = SLOT_LISTENING;
}

static void begin(const struct attack *attack, struct slot *slot, uint32_t index,
		  struct talk *talk)
{
	memset(talk, 0, sizeof(*talk));
	talk->index = index;
	slot->talk = talk;
	slot->step = 0;
	slot->step_sent = 0;
	slot->waiting = false;
	slot->we_ended = false;
	slot->begun = ticks_ms();
	slot->due = now_ms() + CONNECT_MS;
	write_script(attack->seed, index, attack->timer_ms, &slot->script);
	if (slot->script.responder)
		order_connect(attack, slot);
	else
		begin_connect(slot);
}

static void finish(struct slot *slot)
{
	slot->talk->ms = ticks_ms() - slot->begun;
	close(slot->fd);
	slot->fd = -1;
	slot->state = SLOT_FREE;
}

static void connected(struct slot *slot)
{
	int on = 1;

	setsockopt(slot->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	slot->talk->connected = true;
	if (slot->state == SLOT_LISTENING)
		slot->begun = looked_before;
	slot->state = SLOT_PLAYING;
}

/* ---- steps ---- */

static void note_end(struct slot *slot, bool reset)
{
	if (slot->talk->ended)
		return;
	slot->talk->ended = true;
	slot->talk->reset = reset;
	slot->talk->ended_alone = !slot->we_ended;
}

static void receive(struct slot *slot)
{
	struct talk *talk = slot->talk;
	uint8_t more[512];
	ssize_t got;

	while (!talk->ended) {
		got = recv(slot->fd, more, sizeof(more), 0);
		if (got < 0 && errno == EAGAIN)
			return;
		if (got <= 0) {
			note_end(slot, got < 0);
			return;
		}
		if ((size_t)got > IN_MAX - talk->in_len) {
			talk->too_much = true;
			got = (ssize_t)(IN_MAX - talk->in_len);
		}
		memcpy(talk->in + talk->in_len, more, (size_t)got);
		talk->in_len += (uint32_t)got;
	}
}

/* The octets of the frame that has come, 0 while it has not. */
static uint32_t frame_in(const struct talk *talk)
{
	uint32_t len;

	if (talk->in_len < HEADER_LEN)
		return 0;
	len = HEADER_LEN + get16(talk->in + 18);
	return talk->in_len >= len ? len : 0;
}

/* Return: whether the step is done. */
static bool send_octets(struct slot *slot, uint32_t len, bool fin)
{
	struct talk *talk = slot->talk;
	ssize_t sent;

	while (slot->step_sent < len) {
		sent = send(slot->fd, slot->script.out + talk->sent, len - slot->step_sent,
			    MSG_NOSIGNAL | (fin ? MSG_MORE : 0));
		if (sent < 0 && errno == EAGAIN && !talk->ended)
			return false;
		if (sent < 0) {
			/* What it has said before its RST cannot be told any more. */
			receive(slot);
			note_end(slot, true);
			return true;
		}
		slot->step_sent += (uint32_t)sent;
		talk->sent += (uint32_t)sent;
	}
	slot->step_sent = 0;
	if (fin) {
		slot->we_ended = true;
		shutdown(slot->fd, SHUT_WR);
	}
	return true;
}

static void reset(struct slot *slot)
{
	const struct linger linger = { .l_onoff = 1 };

	receive(slot);
	slot->we_ended = true;
	slot->talk->we_reset = true;
	note_end(slot, true);
	setsockopt(slot->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}

static bool waited(struct slot *slot, uint32_t ms, bool enough)
{
	double now = now_ms();

	if (!slot->waiting) {
		slot->waiting = true;
		slot->due = now + ms;
	}
	if (!enough && !slot->talk->ended && now < slot->due)
		return false;
	slot->waiting = false;
	return true;
}

static bool do_step(struct slot *slot, const struct step *step)
{
	struct talk *talk = slot->talk;
	uint8_t octet = (uint8_t)step->value;

	switch (step->kind) {
	case STEP_SEND:
		return send_octets(slot, step->value, false);
	case STEP_SEND_FIN:
		return send_octets(slot, step->value, true);
	case STEP_URGENT:
		send(slot->fd, &octet, 1, MSG_OOB | MSG_NOSIGNAL);
		return true;
	case STEP_AWAIT_FRAME:
		return waited(slot, step->value, frame_in(talk));
	case STEP_AWAIT_MORE:
		return waited(slot, step->value, frame_in(talk) && talk->in_len > frame_in(talk));
	case STEP_AWAIT_END:
	case STEP_PAUSE:
		return waited(slot, step->value, false);
	case STEP_FIN:
		slot->we_ended = true;
		shutdown(slot->fd, SHUT_WR);
		return true;
	case STEP_RESET:
		reset(slot);
		return true;
	}
	return true;
}

static void play(const struct attack *attack, struct slot *slot)
{
	const struct script *script = &slot->script;

	receive(slot);
	while (slot->state == SLOT_PLAYING && slot->step < script->nr_steps) {
		if (!slot->talk->we_reset && !do_step(slot, &script->steps[slot->step]))
			return;
		slot->step++;
		receive(slot);
	}
	if (slot->state == SLOT_PLAYING) {
		slot->state = SLOT_ENDING;
		slot->due = now_ms() + END_MS * attack->scale;
	}
	if (slot->talk->ended || now_ms() >= slot->due)
		finish(slot);
}

static void on_connecting(const struct attack *attack, struct slot *slot)
{
	socklen_t len = sizeof(int);
	int error = 0;

	getsockopt(slot->fd, SOL_SOCKET, SO_ERROR, &error, &len);
	if (error) {
		/* The listener always takes connections. */
		finish(slot);
		return;
	}
	connected(slot);
	play(attack, slot);
}

static void on_listening(const struct attack *attack, struct slot *slot)
{
	slot->fd = accept4(slot->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (slot->fd < 0)
		return;
	connected(slot);
	play(attack, slot);
}

static void watch(const struct slot *slot, struct pollfd *pfd, double *next)
{
	bool listening = slot->state == SLOT_LISTENING;
	bool sending = slot->state == SLOT_CONNECTING || slot->step_sent;

	pfd->fd = slot->state == SLOT_FREE ? -1 : listening ? slot->listener : slot->fd;
	/* After an end poll() would return for ever. */
	if (pfd->fd >= 0 && slot->state == SLOT_PLAYING && slot->talk->ended)
		pfd->fd = -1;
	pfd->events = sending ? POLLIN | POLLOUT : POLLIN;
	if (slot->state != SLOT_FREE && slot->due < *next &&
	    (slot->state != SLOT_PLAYING || slot->waiting))
		*next = slot->due;
}

static void attend(const struct attack *attack, struct slot *slot, bool ready)
{
	switch (slot->state) {
	case SLOT_FREE:
		break;
	case SLOT_CONNECTING:
	case SLOT_LISTENING:
		if (ready && slot->state == SLOT_CONNECTING)
			on_connecting(attack, slot);
		else if (ready)
			on_listening(attack, slot);
		else if (now_ms() >= slot->due)
			finish(slot);
		break;
	case SLOT_PLAYING:
	case SLOT_ENDING:
		play(attack, slot);
	}
}

static void play_all(struct attack *attack, struct batch *batch)
{
	struct pollfd fds[SLOTS_MAX + 1];
	struct report report;
	uint32_t next = 0;
	unsigned int i, busy;

	looked_last = ticks_ms();
	do {
		double due = now_ms() + 1000;
		int timeout;

		for (i = busy = 0; i < attack->slots; i++) {
			if (slots[i].state == SLOT_FREE && next < batch->count) {
				begin(attack, &slots[i], batch->first + next, &batch->talks[next]);
				next++;
			}
			busy += slots[i].state != SLOT_FREE;
			watch(&slots[i], &fds[i], &due);
		}
		fds[i] = (struct pollfd){ .fd = attack->control, .events = POLLIN };
		timeout = (int)(due - now_ms()) + 1;
		if (poll(fds, attack->slots + 1, timeout > 0 ? timeout : 0) < 0)
			die("poll");
		looked_before = looked_last;
		looked_last = ticks_ms();
		while (get_report(attack, &report, 0))
			keep_report(batch, &report);
		for (i = 0; i < attack->slots; i++)
			attend(attack, &slots[i], fds[i].fd >= 0 && fds[i].revents);
	} while (busy);
}

static void wait_for_rest(struct attack *attack, struct batch *batch)
{
	struct order order = { .type = ORDER_BARRIER };
	double end = now_ms() + REST_MS * attack->scale;
	struct report report;

	give_order(attack, &order);
	while (now_ms() < end) {
		if (!get_report(attack, &report, 1000))
			continue;
		if (report.type == REPORT_BARRIER) {
			batch->at_rest = true;
			return;
		}
		keep_report(batch, &report);
	}
	order.type = ORDER_WHO;
	give_order(attack, &order);
	while (get_report(attack, &report, 2000))
		keep_report(batch, &report);
}

void play_batch(struct attack *attack, struct batch *batch)
{
	memset(batch->reported, 0, sizeof(batch->reported));
	batch->at_rest = false;
	play_all(attack, batch);
	wait_for_rest(attack, batch);
}
