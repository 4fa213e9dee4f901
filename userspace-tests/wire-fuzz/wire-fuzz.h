/* SPDX-License-Identifier: GPL-2.0 */
/*
 * wire-fuzz: exchanges that no good peer would have, with an rdma_cm application.
 *
 * hosta                               hostb
 *   attacker: raw TCP sockets    <->    victim: an ordinary rdma_cm application,
 *   that play either role               which listens and connects
 *
 * An exchange is derived from (seed, index) and nothing else: script.c writes what
 * is sent and when, and what the application does; attacker.c plays it; judge.c
 * compares what came back, and what the application was told, with the standard.
 */
#ifndef WIRE_FUZZ_H
#define WIRE_FUZZ_H

#include "wire.h"

#define ADDRESS_A "10.77.0.1"
#define ADDRESS_A6 "fd77::1"
#define ADDRESS_B "10.77.0.2"
#define ADDRESS_B6 "fd77::2"
#define DEVICE_B "siw_b"
#define VICTIM_PORT 7174
#define GOOD_PORT 7175
#define SLOT_PORT 7200		/* and following: where the raw responders listen */
/* The raw initiators' ports, by which the victim names an exchange. */
#define RAW_PORT 10000
#define RAW_PORTS 22000

/* Exchanges with the same module parameters, then a good connection. */
#define BATCH 250
#define MESSAGE_LEN 64
#define PD_MAX 255		/* what rdma_cm carries */

/* ---- random numbers: a sequence per exchange ---- */

struct rng {
	uint64_t state;
};

void rng_seed(struct rng *rng, uint64_t seed, uint64_t index);
uint64_t rng_next(struct rng *rng);
/** rng_below() - 0 to n - 1 */
unsigned int rng_below(struct rng *rng, unsigned int n);
/** rng_chance() - true so many times in a hundred */
bool rng_chance(struct rng *rng, unsigned int percent);

/* ---- what the application does ---- */

enum reaction { REACT_ACCEPT, REACT_REJECT, REACT_ABANDON };

struct behaviour {
	enum reaction reaction;
	uint16_t delay_ms;	/* before that */
	uint8_t ird, ord;
	uint8_t sends;		/* posted as early as it may */
	bool leaves;		/* disconnects as soon as it is connected */
	uint8_t pd_len;
	uint8_t pd[PD_MAX];
};

/** behave() - what the victim's listener does with a Request of that data */
void behave(const uint8_t *pd, size_t len, struct behaviour *behaviour);

#define GOOD_PD "good"

/* ---- the script of one exchange ---- */

/* What is wrong with an exchange; judge.c has their names. */
enum mutation {
	MUT_NONE, MUT_FLAGS, MUT_REV, MUT_KEY, MUT_LENGTH, MUT_ENHANCED, MUT_GARBAGE,
	MUT_TEXT, MUT_SPLIT, MUT_DRIP, MUT_EARLY, MUT_LATE, MUT_SILENT, MUT_CUT_FIN,
	MUT_CUT_RST, MUT_DATA_FIN, MUT_URGENT, MUT_FPDU_HEADER, MUT_FPDU_LENGTH,
	MUT_FPDU_CRC, MUT_FPDU_EMPTY, MUT_FPDU_BIG, MUT_TERMINATE, MUT_OTHER_FIRST,
	MUT_NR
};

enum step_kind {
	STEP_SEND,		/* value octets of the stream */
	STEP_SEND_FIN,		/* the same, the FIN in their last segment */
	STEP_URGENT,		/* one octet, value, that is not of the stream */
	STEP_AWAIT_FRAME,	/* a startup frame, an end, or value ms */
	STEP_AWAIT_MORE,	/* octets behind it, an end, or value ms */
	STEP_AWAIT_END,		/* an end, or value ms */
	STEP_PAUSE,		/* value ms */
	STEP_FIN,
	STEP_RESET,
};

struct step {
	enum step_kind kind;
	uint32_t value;
};

#define STEPS_MAX 400
#define OUT_MAX 70000

struct script {
	bool responder;		/* what the attacker plays */
	bool v6;
	uint32_t mutations;	/* bits of enum mutation */
	struct policy policy;
	struct behaviour app;	/* of an application that connects */
	uint8_t out[OUT_MAX];
	uint32_t out_len;
	uint32_t frame_len;	/* the octets of it that are sent as a frame */
	unsigned int nr_steps;
	struct step steps[STEPS_MAX];
};

/** write_script() - the exchange of (seed, index) */
void write_script(uint64_t seed, uint32_t index, unsigned int timer_ms, struct script *script);

/** choose_policy() - the module parameters of a batch */
void choose_policy(uint64_t seed, uint32_t batch, struct policy *policy);

/* ---- what happened ---- */

#define IN_MAX 2048

struct talk {
	uint32_t index;
	bool connected;
	bool reset;		/* it ended by RST, else by FIN */
	bool ended;
	bool ended_alone;	/* before we sent a FIN or RST */
	bool we_reset;
	bool too_much;		/* more octets than fit */
	uint32_t sent;		/* of the stream */
	uint32_t in_len;
	double ms;		/* from the TCP connection to its end, by the kernel's ticks */
	uint8_t in[IN_MAX];
};

/* ---- the victim ---- */

enum order_type { ORDER_CONNECT, ORDER_BARRIER, ORDER_WHO, ORDER_QUIT };

struct order {
	enum order_type type;
	uint32_t index;
	bool v6;
	uint16_t port;
	struct behaviour behaviour;
};

enum report_type { REPORT_READY, REPORT_CONN, REPORT_OPEN, REPORT_BARRIER };

#define EVENTS_MAX 6

/* All that one id of the application was told. */
struct report {
	enum report_type type;
	bool responder;		/* the application was */
	uint32_t index;		/* or the peer's port */
	int call_errno;		/* of rdma_connect() or of the answer */
	uint8_t nr_events;
	struct {
		uint8_t type;
		int status;
	} events[EVENTS_MAX];
	uint8_t received;	/* messages */
	bool garbled;		/* a completion that nobody can explain */
	/* of CONNECT_REQUEST, or of the event that decided */
	uint8_t responder_resources, initiator_depth;
	uint8_t pd_len;
	uint8_t pd[PD_MAX];
};

/** victim_main() - the application; returns its exit status */
int victim_main(int control);

/* ---- attacker, judge, good connections ---- */

struct attack {
	uint64_t seed;
	unsigned int timer_ms;
	unsigned int scale;	/* how much slower than a fast machine */
	unsigned int slots;
	int control;		/* to the victim */
};

/* Exchanges that were played with the same module parameters. */
struct batch {
	uint32_t first, count;
	struct talk talks[BATCH];
	struct report reports[BATCH];
	bool reported[BATCH];
	bool at_rest;		/* the victim has nothing open any more */
};

/** open_slots() - listen where the victim will connect to */
void open_slots(struct attack *attack);
/** play_batch() - play its exchanges and collect what the victim reports */
void play_batch(struct attack *attack, struct batch *batch);
/** give_order() - exits when the victim has died */
void give_order(const struct attack *attack, const struct order *order);
/** get_report() - the next one; false when there is none in that time */
bool get_report(const struct attack *attack, struct report *report, int timeout_ms);

enum outcome {
	OUT_SILENCE, OUT_REJECT, OUT_ACCEPT, OUT_TERMINATE, OUT_RTR, OUT_READ_RESPONSE,
	OUT_MESSAGE, OUT_APP_REQUEST, OUT_APP_ESTABLISHED, OUT_APP_REJECTED, OUT_APP_FAILED,
	OUT_APP_TIMEOUT, OUT_APP_GONE,
	OUT_NR
};

struct tally {
	unsigned long exchanges[2];	/* by what the attacker plays: initiator, responder */
	unsigned long mutations[2][MUT_NR];
	unsigned long outcomes[2][OUT_NR];
	unsigned long clean[2], clean_up[2];
	unsigned long unconnected;	/* connects that got no TCP connection in time */
	/* No frames, and those that were closed before a timer can have done it. */
	unsigned long faulty[2][FAULT_NR], prompt[2][FAULT_NR];
};

/**
 * judge() - one exchange
 * @report: what the application said, NULL if it has not heard of it
 *
 * Return: NULL, or what was wrong in words.
 */
const char *judge(const struct attack *attack, const struct talk *talk,
		  const struct report *report, struct tally *tally);

void print_exchange(const struct attack *attack, const struct talk *talk,
		    const struct report *report);
void print_tally(const struct tally *tally);
/** check_shares() - false when hardly anything of a kind has happened */
bool check_shares(const struct tally *tally);

void good_open(void);
/** good_connections() - one in either role, with data; the longer time, or -1 */
double good_connections(struct attack *attack, bool v6, int limit_ms);

#endif
