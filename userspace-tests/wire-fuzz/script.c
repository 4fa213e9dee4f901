// SPDX-License-Identifier: GPL-2.0
/* What is sent in one exchange, and when: a frame, FPDUs, and what is wrong with them. */
#include <string.h>

#include "wire-fuzz.h"

/* ---- random numbers ---- */

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

void rng_seed(struct rng *rng, uint64_t seed, uint64_t index)
{
	rng->state = mix(seed + 0x9e3779b97f4a7c15) ^ mix(index * 0xd1342543de82ef95 + 1);
}

uint64_t rng_next(struct rng *rng)
{
	rng->state += 0x9e3779b97f4a7c15;
	return mix(rng->state);
}

unsigned int rng_below(struct rng *rng, unsigned int n)
{
	return (unsigned int)((rng_next(rng) >> 32) * n >> 32);
}

bool rng_chance(struct rng *rng, unsigned int percent)
{
	return rng_below(rng, 100) < percent;
}

static void rng_fill(struct rng *rng, uint8_t *octets, size_t len)
{
	while (len--)
		*octets++ = (uint8_t)rng_next(rng);
}

#define ONE_OF(rng, list) ((list)[rng_below(rng, sizeof(list) / sizeof((list)[0]))])

/* ---- what the application does ---- */

static void rng_behaviour(struct rng *rng, struct behaviour *behaviour)
{
	static const uint8_t depths[] = { 0, 0, 1, 1, 2, 3, 5, 16, 100, 128 };

	memset(behaviour, 0, sizeof(*behaviour));
	if (rng_chance(rng, 10))
		behaviour->reaction = REACT_REJECT;
	else if (rng_chance(rng, 5))
		behaviour->reaction = REACT_ABANDON;
	if (rng_chance(rng, 15))
		behaviour->delay_ms = (uint16_t)(1 + rng_below(rng, 40));
	behaviour->ird = ONE_OF(rng, depths);
	behaviour->ord = ONE_OF(rng, depths);
	behaviour->sends = (uint8_t)rng_below(rng, 3);
	behaviour->leaves = rng_chance(rng, 8);
	if (rng_chance(rng, 60))
		behaviour->pd_len = (uint8_t)rng_below(rng, rng_chance(rng, 20) ? 256 : 32);
	rng_fill(rng, behaviour->pd, behaviour->pd_len);
}

void behave(const uint8_t *pd, size_t len, struct behaviour *behaviour)
{
	struct rng rng;

	if (len == strlen(GOOD_PD) && !memcmp(pd, GOOD_PD, len)) {
		*behaviour = (struct behaviour){ .ird = 1, .ord = 1, .sends = 1 };
		return;
	}
	rng_seed(&rng, crc32c(pd, len), len);
	rng_behaviour(&rng, behaviour);
}

void choose_policy(uint64_t seed, uint32_t batch, struct policy *policy)
{
	static const uint8_t orders[][3] = {
		{ KIND_C, KIND_D, KIND_B }, { KIND_C, KIND_D, KIND_B }, { KIND_D, KIND_B, KIND_C },
		{ KIND_B, KIND_C, KIND_D }, { KIND_D }, { KIND_B }, { KIND_C }, { KIND_D, KIND_C },
	};
	struct rng rng;

	rng_seed(&rng, seed, (uint64_t)batch | 1ull << 40);
	memset(policy, 0, sizeof(*policy));
	policy->crc = rng_chance(&rng, 30);
	/* Every other batch has what most connections have. */
	policy->peer_to_peer = batch % 2 == 0 || rng_chance(&rng, 70);
	policy->accept_enhanced = batch % 2 == 0 || !rng_chance(&rng, 15);
	policy->rev = batch % 2 == 0 || rng_chance(&rng, 80) ? 2 : 1;
	memcpy(policy->order, ONE_OF(&rng, orders), 3);
}

/* ---- what is sent ---- */

/* A script being written: the stream consists of a frame and what follows it. */
struct draft {
	struct script *script;
	struct rng rng;
	unsigned int timer_ms;
	uint32_t frame_len;
	bool crc;		/* in force, as far as we see it */
	uint8_t kind;		/* of the RTR that fits; as responder: that we get */
	uint32_t msn;		/* of our next Send */
};

static void mutate(struct draft *draft, enum mutation mutation)
{
	draft->script->mutations |= 1u << mutation;
}

static bool mutated(const struct draft *draft, enum mutation mutation)
{
	return draft->script->mutations & 1u << mutation;
}

static uint16_t some_depth(struct rng *rng, bool large)
{
	static const uint16_t depths[] = { 0, 1, 1, 2, 3, 4, 5, 16, 127, 128 };
	static const uint16_t all[] = { 129, 255, 256, 1000, 0x3ffe, 0x3fff, 0x3fff };

	return large ? ONE_OF(rng, all) : ONE_OF(rng, depths);
}

static uint8_t some_kinds(struct rng *rng)
{
	static const uint8_t kinds[] = { 0, 1, 2, 2, 3, 4, 4, 5, 6, 6, 7, 7, 7 };

	return ONE_OF(rng, kinds);
}

static size_t some_pd_len(struct rng *rng)
{
	if (rng_chance(rng, 25))
		return 0;
	if (rng_chance(rng, 80))
		return 1 + rng_below(rng, 64);
	if (rng_chance(rng, 50))
		return 248 + rng_below(rng, 12);
	return rng_below(rng, 509);
}

/* What an application that connects would ask for. */
static void put_request(struct draft *draft)
{
	struct script *script = draft->script;
	struct rng *rng = &draft->rng;
	struct enhanced data = {
		.a = rng_chance(rng, 70),
		.kinds = some_kinds(rng),
		.ird = some_depth(rng, rng_chance(rng, 10)),
		.ord = some_depth(rng, rng_chance(rng, 10)),
	};
	bool enhanced = rng_chance(rng, 80);
	uint8_t pd[PD_LENGTH_MAX], flags = enhanced ? FLAG_S : 0;
	uint8_t rev = enhanced || rng_chance(rng, 20) ? 2 : 1;
	size_t extra = enhanced ? put_enhanced(pd, &data) : 0, len = some_pd_len(rng);
	struct behaviour behaviour;
	struct answer answer;

	if (rng_chance(rng, 30))
		flags |= FLAG_C;
	rng_fill(rng, pd + extra, len);
	draft->frame_len = (uint32_t)put_frame(script->out, false, flags, rev, pd, extra + len);
	draft->crc = script->policy.crc || flags & FLAG_C;
	if (!enhanced || !data.a)
		return;
	behave(pd + extra, len, &behaviour);
	negotiate(&data, &script->policy, behaviour.ird, behaviour.ord, &answer);
	draft->kind = answer.reply.kinds & KIND_C && data.kinds & KIND_C ? KIND_C :
		      answer.reply.kinds & KIND_D && data.kinds & KIND_D ? KIND_D : KIND_B;
}

/* What a responder would answer to the application's Request. */
static void put_reply(struct draft *draft)
{
	struct script *script = draft->script;
	struct rng *rng = &draft->rng;
	bool enhanced = script->policy.rev == 2, odd = rng_chance(rng, 15);
	uint8_t offered = policy_kinds(&script->policy);
	struct enhanced data = {
		.a = script->policy.peer_to_peer != (odd && rng_chance(rng, 30)),
		.kinds = some_kinds(rng),
		.ird = some_depth(rng, odd),
		.ord = some_depth(rng, odd),
	};
	uint8_t pd[PD_LENGTH_MAX], flags = enhanced ? FLAG_S : 0;
	size_t extra = enhanced ? ENHANCED_LEN : 0, len = some_pd_len(rng);
	struct enhanced sent = {
		.a = script->policy.peer_to_peer, .kinds = offered,
		.ird = script->app.ird, .ord = script->app.ord,
	};
	struct check check;

	/* Mostly an answer that fits. */
	if (!odd)
		data.kinds = offered & (data.kinds | script->policy.order[0]);
	if (enhanced)
		put_enhanced(pd, &data);
	if (rng_chance(rng, 30))
		flags |= FLAG_C;
	if (rng_chance(rng, 20))
		flags |= FLAG_R;
	rng_fill(rng, pd + extra, len);
	draft->frame_len = (uint32_t)put_frame(script->out, true, flags, enhanced ? 2 : 1, pd,
					       extra + len);
	draft->crc = script->policy.crc || flags & FLAG_C;
	if (!enhanced)
		return;
	check_reply(&sent, &data, &script->policy, sent.ird, sent.ord, &check);
	draft->kind = check.kind;
}

/* ---- what is wrong with the frame ---- */

static void mutate_length(struct draft *draft)
{
	static const uint16_t lengths[] = {
		0, 1, 2, 3, 4, 5, 255, 256, 257, 511, 512, 513, 516, 0x1000, 0x7fff, 0xffff,
	};
	uint8_t *at = draft->script->out + 18;
	int by = (int)rng_below(&draft->rng, 9) - 4;

	if (rng_chance(&draft->rng, 40)) {
		put16(at, (unsigned int)(get16(at) + by));
	} else if (rng_chance(&draft->rng, 60)) {
		put16(at, ONE_OF(&draft->rng, lengths));
	} else {
		/* All of it is there. */
		put16(at, 500 + rng_below(&draft->rng, rng_chance(&draft->rng, 50) ? 30 : 2000));
		draft->frame_len = HEADER_LEN + get16(at);
		rng_fill(&draft->rng, at + 6, draft->frame_len - HEADER_LEN - ENHANCED_LEN);
	}
}

static void mutate_key(struct draft *draft)
{
	uint8_t *out = draft->script->out;

	if (rng_chance(&draft->rng, 40))
		out[9] ^= 1;	/* the other one's key */
	else
		out[rng_below(&draft->rng, KEY_LEN)] ^= 1u << rng_below(&draft->rng, 8);
}

static void mutate_text(struct draft *draft)
{
	static const char * const texts[] = {
		"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n", "220 mail.example ESMTP\r\n",
		"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "\x16\x03\x01\x02", "\r\n",
	};
	const char *text = ONE_OF(&draft->rng, texts);

	draft->frame_len = (uint32_t)strlen(text);
	memcpy(draft->script->out, text, draft->frame_len);
}

static void mutate_frame(struct draft *draft, enum mutation mutation)
{
	static const uint8_t revs[] = { 0, 1, 2, 3, 4, 129, 255 };
	struct rng *rng = &draft->rng;
	uint8_t *out = draft->script->out;

	switch (mutation) {
	case MUT_FLAGS:
		out[16] = rng_chance(rng, 50) ? out[16] ^ (uint8_t)(1u << rng_below(rng, 8)) :
						(uint8_t)rng_next(rng);
		break;
	case MUT_REV:
		out[17] = ONE_OF(rng, revs);
		break;
	case MUT_KEY:
		mutate_key(draft);
		break;
	case MUT_LENGTH:
		mutate_length(draft);
		break;
	case MUT_ENHANCED:
		rng_fill(rng, out + HEADER_LEN, ENHANCED_LEN);
		if (draft->frame_len < HEADER_LEN + ENHANCED_LEN)
			draft->frame_len = HEADER_LEN + ENHANCED_LEN;
		break;
	case MUT_GARBAGE:
		draft->frame_len = 1 + rng_below(rng, 600);
		rng_fill(rng, out, draft->frame_len);
		break;
	case MUT_TEXT:
		mutate_text(draft);
		break;
	default:
		break;
	}
	/* The CRC that we then have to use, if the other end takes it for a frame. */
	draft->crc = draft->script->policy.crc || out[16] & FLAG_C;
}

/* ---- FPDUs ---- */

static uint8_t *room(struct draft *draft)
{
	return draft->script->out + draft->script->out_len;
}

static void took(struct draft *draft, size_t len)
{
	draft->script->out_len += (uint32_t)len;
}

static size_t put_send(struct draft *draft, uint8_t *ulpdu, size_t len)
{
	size_t header = put_untagged(ulpdu, OP_SEND, 0, draft->msn++, 0);

	rng_fill(&draft->rng, ulpdu + header, len);
	return header + len;
}

static size_t put_terminate_of_any_kind(struct draft *draft, uint8_t *out)
{
	struct rng *rng = &draft->rng;
	uint8_t layer = (uint8_t)rng_below(rng, rng_chance(rng, 10) ? 16 : 3);
	uint8_t code = rng_chance(rng, 70) ? (uint8_t)rng_below(rng, 10) : (uint8_t)rng_next(rng);
	size_t len = put_terminate(out, layer, (uint8_t)rng_below(rng, 4), code, draft->crc, false);

	if (!rng_chance(rng, 30))
		return len;
	/* With what it complains about, or shorter than it may be. */
	len = 18 + rng_below(rng, 60);
	rng_fill(rng, out + 2 + 20, len);
	return finish_fpdu(out, len, draft->crc);
}

/* A message that is no RTR. */
static size_t put_other_message(struct draft *draft, uint8_t *out)
{
	struct rng *rng = &draft->rng;
	uint8_t *ulpdu = out + 2;
	size_t len;

	switch (rng_below(rng, 5)) {
	case 0:
		len = put_tagged(ulpdu, OP_WRITE, (uint32_t)rng_next(rng), rng_next(rng));
		rng_fill(rng, ulpdu + len, 16);
		len += 16;
		break;
	case 1:
		len = put_read_request(ulpdu, 1, 1 + rng_below(rng, 4096));
		break;
	case 2:
		len = put_tagged(ulpdu, OP_READ_RESPONSE, 1, 0);
		break;
	case 3:
		len = put_send(draft, ulpdu, 1 + rng_below(rng, 2 * MESSAGE_LEN));
		ulpdu[1] = (uint8_t)(0x43 + rng_below(rng, 4));
		break;
	default:
		len = put_send(draft, ulpdu, 1 + rng_below(rng, MESSAGE_LEN));
	}
	return finish_fpdu(out, len, draft->crc);
}

static void mutate_header(struct draft *draft, uint8_t *out)
{
	static const uint8_t at[] = { 0, 0, 1, 1, 9, 13, 17 };
	struct rng *rng = &draft->rng;
	size_t len = get16(out);
	size_t where = rng_chance(rng, 80) ? ONE_OF(rng, at) : rng_below(rng, (unsigned int)len);

	if (where < len)
		out[2 + where] = rng_chance(rng, 50) ? (uint8_t)rng_next(rng) :
				 out[2 + where] ^ (uint8_t)(1u << rng_below(rng, 8));
	/* siw may forget a receive that is never completed (limits.rst): it stays one. */
	out[2] |= 0x40;
	if (rng_chance(rng, 15))
		len = 1 + rng_below(rng, 20);
	finish_fpdu(out, len, draft->crc);
}

static void mutate_fpdu_length(struct draft *draft, uint8_t *out)
{
	static const uint16_t lengths[] = { 0, 1, 2, 5, 13, 17, 19, 45, 64768, 64769, 65535 };
	int by = (int)rng_below(&draft->rng, 9) - 4;

	if (rng_chance(&draft->rng, 40))
		put16(out, (unsigned int)(get16(out) + by));
	else
		put16(out, ONE_OF(&draft->rng, lengths));
}

static size_t put_first_fpdu(struct draft *draft, uint8_t *out)
{
	struct rng *rng = &draft->rng;
	size_t len;

	if (mutated(draft, MUT_TERMINATE))
		return put_terminate_of_any_kind(draft, out);
	if (mutated(draft, MUT_OTHER_FIRST))
		return put_other_message(draft, out);
	if (mutated(draft, MUT_FPDU_BIG))
		return finish_fpdu(out, put_send(draft, out + 2, 300 + rng_below(rng, 64450)),
				   draft->crc);
	if (mutated(draft, MUT_FPDU_EMPTY)) {
		return finish_fpdu(out, 0, draft->crc);
	} else if (draft->kind && !draft->script->responder) {
		draft->msn += draft->kind == KIND_B;
		len = put_rtr(out, draft->kind, draft->crc);
	} else if (draft->kind == KIND_D && draft->script->responder && rng_chance(rng, 90)) {
		len = put_read_response(out, 1, 0, draft->crc);
	} else {
		len = finish_fpdu(out, put_send(draft, out + 2, 1 + rng_below(rng, MESSAGE_LEN)),
				  draft->crc);
	}
	if (mutated(draft, MUT_FPDU_HEADER))
		mutate_header(draft, out);
	if (mutated(draft, MUT_FPDU_LENGTH))
		mutate_fpdu_length(draft, out);
	return len;
}

static void put_fpdus(struct draft *draft)
{
	unsigned int more = rng_below(&draft->rng, 3);
	size_t len;

	draft->msn = 1;
	len = put_first_fpdu(draft, room(draft));
	if (mutated(draft, MUT_FPDU_CRC))
		room(draft)[len - 1 - rng_below(&draft->rng, (unsigned int)len)] ^=
			(uint8_t)(1u << rng_below(&draft->rng, 8));
	took(draft, len);
	while (more-- && draft->script->out_len < OUT_MAX - 512)
		took(draft, finish_fpdu(room(draft), put_send(draft, room(draft) + 2,
							      rng_below(&draft->rng, MESSAGE_LEN)),
					draft->crc));
}

/* ---- when ---- */

static void step(struct draft *draft, enum step_kind kind, uint32_t value)
{
	struct script *script = draft->script;

	/* Room is kept for the end. */
	if (script->nr_steps < STEPS_MAX - 4 || kind > STEP_SEND_FIN)
		script->steps[script->nr_steps++] = (struct step){ kind, value };
}

/* The first octets, one a segment, over a while; how many are left. */
static uint32_t drip(struct draft *draft, uint32_t len)
{
	uint32_t gap = 1 + rng_below(&draft->rng, rng_chance(&draft->rng, 80) ? 3 : 12);
	unsigned int drops;

	for (drops = 0; drops < 60 && len; drops++, len--) {
		step(draft, STEP_SEND, 1);
		step(draft, STEP_PAUSE, gap);
	}
	return len;
}

static void send_part(struct draft *draft, uint32_t len)
{
	struct rng *rng = &draft->rng;

	if (!len)
		return;
	if (mutated(draft, MUT_DRIP) && rng_chance(rng, 70)) {
		len = drip(draft, len);
	} else if (mutated(draft, MUT_SPLIT)) {
		unsigned int cuts = 1 + rng_below(rng, 5);

		while (cuts-- && len > 1) {
			uint32_t some = 1 + rng_below(rng, len - 1);

			step(draft, STEP_SEND, some);
			len -= some;
			if (rng_chance(rng, 60))
				step(draft, STEP_PAUSE, 1 + rng_below(rng, 5));
		}
	}
	if (len)
		step(draft, STEP_SEND, len);
}

static void send_frame(struct draft *draft, uint32_t len)
{
	uint32_t some;

	if (mutated(draft, MUT_URGENT) && len > 1) {
		some = 1 + rng_below(&draft->rng, len - 1);
		send_part(draft, some);
		step(draft, STEP_URGENT, rng_below(&draft->rng, 256));
		len -= some;
	}
	if (mutated(draft, MUT_LATE) && rng_chance(&draft->rng, 50)) {
		some = rng_below(&draft->rng, len);
		send_part(draft, some);
		step(draft, STEP_PAUSE, draft->timer_ms + 50);
		len -= some;
	}
	send_part(draft, len);
}

/* How it ends when nothing ends it before. */
static void end(struct draft *draft)
{
	struct script *script = draft->script;
	struct step *last = &script->steps[script->nr_steps - 1];

	if (mutated(draft, MUT_CUT_RST)) {
		step(draft, STEP_RESET, 0);
		return;
	}
	if (mutated(draft, MUT_DATA_FIN) && !mutated(draft, MUT_URGENT) && script->nr_steps &&
	    last->kind == STEP_SEND) {
		last->kind = STEP_SEND_FIN;
		return;
	}
	if (mutated(draft, MUT_SILENT))
		step(draft, STEP_AWAIT_END, 2 * draft->timer_ms + 1000);
	else if (!mutated(draft, MUT_CUT_FIN))
		step(draft, STEP_AWAIT_MORE, 1 + rng_below(&draft->rng, 100));
	/*
	 * A segment with urgent data is dropped as often as it is sent again: what
	 * is behind it, a FIN as well, never arrives.
	 */
	step(draft, mutated(draft, MUT_URGENT) ? STEP_RESET : STEP_FIN, 0);
}

static void write_steps(struct draft *draft)
{
	struct script *script = draft->script;
	struct rng *rng = &draft->rng;
	uint32_t len = script->out_len, frame_len = draft->frame_len;
	bool reads_first = script->responder && !mutated(draft, MUT_EARLY);

	/* Cuts are where the octets are most interesting, but anywhere. */
	if (mutated(draft, MUT_CUT_FIN) || mutated(draft, MUT_CUT_RST) ||
	    mutated(draft, MUT_DATA_FIN))
		len = rng_below(rng, 1 + (rng_chance(rng, 50) ? frame_len :
					  rng_chance(rng, 90) && len > 200 ? 200 : len));
	if (mutated(draft, MUT_SILENT))
		len = rng_chance(rng, 50) ? frame_len : rng_below(rng, frame_len);
	script->out_len = len;
	if (frame_len > len)
		frame_len = len;
	script->frame_len = frame_len;

	if (reads_first)
		step(draft, STEP_AWAIT_FRAME, 2000);
	if (frame_len && mutated(draft, MUT_EARLY) && !script->responder) {
		/* Behind the Request, in the same segment or another. */
		send_frame(draft, rng_chance(rng, 50) ? len : frame_len);
		if (script->nr_steps && len > frame_len) {
			uint32_t sent = 0;
			unsigned int i;

			for (i = 0; i < script->nr_steps; i++)
				if (script->steps[i].kind == STEP_SEND)
					sent += script->steps[i].value;
			send_part(draft, len - sent);
		}
	} else {
		if (frame_len)
			send_frame(draft, frame_len);
		if (!script->responder && len > frame_len)
			step(draft, STEP_AWAIT_FRAME, 2000);
		else if (len > frame_len && rng_chance(rng, 50))
			step(draft, STEP_AWAIT_MORE, 1 + rng_below(rng, 20));
		if (mutated(draft, MUT_LATE) && rng_chance(rng, 50))
			step(draft, STEP_PAUSE, draft->timer_ms + 50);
		send_part(draft, len - frame_len);
	}
	end(draft);
}

/* ---- all together ---- */

static void choose_mutations(struct draft *draft)
{
	static const uint8_t of_frame[] = {
		MUT_FLAGS, MUT_FLAGS, MUT_REV, MUT_KEY, MUT_LENGTH, MUT_LENGTH, MUT_ENHANCED,
		MUT_ENHANCED, MUT_GARBAGE, MUT_TEXT,
	};
	static const uint8_t of_fpdu[] = {
		MUT_FPDU_HEADER, MUT_FPDU_HEADER, MUT_FPDU_HEADER, MUT_FPDU_LENGTH, MUT_FPDU_CRC,
		MUT_FPDU_EMPTY, MUT_FPDU_BIG, MUT_TERMINATE, MUT_TERMINATE, MUT_OTHER_FIRST,
		MUT_OTHER_FIRST,
	};
	static const uint8_t of_delivery[] = {
		MUT_SPLIT, MUT_SPLIT, MUT_SPLIT, MUT_DRIP, MUT_EARLY, MUT_EARLY, MUT_LATE,
		MUT_SILENT, MUT_CUT_FIN, MUT_CUT_FIN, MUT_CUT_FIN, MUT_CUT_RST, MUT_CUT_RST,
		MUT_CUT_RST, MUT_DATA_FIN, MUT_DATA_FIN, MUT_URGENT,
	};
	struct rng *rng = &draft->rng;

	if (rng_chance(rng, 15)) {
		mutate(draft, MUT_NONE);
		return;
	}
	do {
		if (rng_chance(rng, 35))
			mutate(draft, ONE_OF(rng, of_frame));
		if (rng_chance(rng, 35))
			mutate(draft, ONE_OF(rng, of_fpdu));
		if (rng_chance(rng, 50))
			mutate(draft, ONE_OF(rng, of_delivery));
	} while (!draft->script->mutations);
}

void write_script(uint64_t seed, uint32_t index, unsigned int timer_ms, struct script *script)
{
	struct draft draft = { .script = script, .timer_ms = timer_ms };
	unsigned int mutation;

	memset(script, 0, sizeof(*script));
	rng_seed(&draft.rng, seed, index);
	choose_policy(seed, index / BATCH, &script->policy);
	script->responder = rng_chance(&draft.rng, 35);
	script->v6 = rng_chance(&draft.rng, 50);
	choose_mutations(&draft);
	if (script->responder) {
		rng_behaviour(&draft.rng, &script->app);
		put_reply(&draft);
	} else {
		put_request(&draft);
	}
	for (mutation = 0; mutation < MUT_NR; mutation++)
		if (mutated(&draft, mutation))
			mutate_frame(&draft, mutation);
	script->out_len = draft.frame_len;
	put_fpdus(&draft);
	write_steps(&draft);
}
