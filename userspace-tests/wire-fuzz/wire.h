/* SPDX-License-Identifier: GPL-2.0 */
/*
 * MPA startup frames and FPDUs as the standard has them: building, reading, and
 * what follows from them.  Nothing here shares code with the module under test.
 */
#ifndef WIRE_H
#define WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEY_LEN 16
#define HEADER_LEN 20
#define ENHANCED_LEN 4
#define PD_LENGTH_MAX 512
#define FRAME_MAX (HEADER_LEN + PD_LENGTH_MAX)
#define DEPTH_NONE 0x3fff
/* What siw's devices can do, in either direction. */
#define DEPTH_CAP 128

enum { FLAG_M = 0x80, FLAG_C = 0x40, FLAG_R = 0x20, FLAG_S = 0x10, FLAG_RES = 0x0f };

/* Kinds of RTR, by their flag in the enhanced data. */
enum { KIND_B = 1, KIND_C = 2, KIND_D = 4, KIND_ALL = 7 };

enum { OP_WRITE, OP_READ_REQUEST, OP_READ_RESPONSE, OP_SEND, OP_TERMINATE = 7 };

enum { TERM_LOCAL = 5, TERM_IRD = 6, TERM_RTR = 7 };

struct enhanced {
	bool a;
	uint8_t kinds;
	uint16_t ird, ord;
};

/* Why octets are no frame. */
enum fault { FAULT_NONE, FAULT_KEY, FAULT_REV, FAULT_LENGTH, FAULT_ENHANCED, FAULT_NR };

struct frame {
	bool reply;
	enum fault fault;
	uint8_t flags, rev;
	uint16_t pd_length;
	bool is_enhanced;	/* S counts */
	bool has_data;		/* and the enhanced data is there */
	struct enhanced data;
	uint16_t ulp_offset, ulp_len, total;
};

enum parsed { PARSED_PART, PARSED_BAD, PARSED_WHOLE };

/** parse_frame() - MPA-01..04, MPA-15, MPA-25, AMB-05, AMB-08, AMB-09 */
enum parsed parse_frame(const uint8_t *octets, size_t len, bool reply, struct frame *frame);

/** put_frame() - a startup frame; the octets it takes */
size_t put_frame(uint8_t *out, bool reply, uint8_t flags, uint8_t rev, const void *pd,
		 size_t pd_len);

/** put_enhanced() - four octets */
size_t put_enhanced(uint8_t *out, const struct enhanced *data);

struct fpdu {
	uint16_t length;	/* ULPDU_Length */
	uint32_t size;		/* all of it, with pad and CRC */
	const uint8_t *ulpdu;
	bool crc_good;
};

/** parse_fpdu() - cut one FPDU off a stream; PARSED_BAD: an impossible length */
enum parsed parse_fpdu(const uint8_t *octets, size_t len, struct fpdu *fpdu);

/* What the first FPDU of a stream is. */
enum first {
	FIRST_PART,	/* nothing, or not all of it */
	FIRST_BAD,	/* length or CRC: no FPDU at all */
	FIRST_FAULT,	/* an FPDU whose header is wrong: a Terminate is due */
	FIRST_EMPTY,	/* without a ULPDU */
	FIRST_TERMINATE,
	FIRST_RTR,
	FIRST_MESSAGE,
};

struct first_fpdu {
	enum first what;
	struct fpdu fpdu;
	uint8_t kind;		/* of an RTR */
	uint8_t layer, etype, code;
	size_t header_len;	/* what the Terminate cites of it, 0: nothing */
	uint32_t sink_stag;
	uint64_t sink_to;
};

/** look_at_first() - SEC-07, RTR-18, RTR-20, RTR-21, AMB-01; crc: it is in force */
void look_at_first(const uint8_t *octets, size_t len, bool crc, struct first_fpdu *first);

uint32_t crc32c(const uint8_t *octets, size_t len);

/** finish_fpdu() - length, pad and CRC around a ULPDU that lies at out + 2 */
size_t finish_fpdu(uint8_t *out, size_t ulpdu_len, bool crc);

size_t put_untagged(uint8_t *out, uint8_t opcode, uint32_t queue, uint32_t msn, uint32_t mo);
size_t put_tagged(uint8_t *out, uint8_t opcode, uint32_t stag, uint64_t to);
size_t put_read_request(uint8_t *out, uint32_t msn, uint32_t size);

/* Whole FPDUs; marker: with one in front. */
size_t put_rtr(uint8_t *out, uint8_t kind, bool crc);
size_t put_read_response(uint8_t *out, uint32_t stag, uint64_t to, bool crc);
size_t put_terminate(uint8_t *out, uint8_t layer, uint8_t etype, uint8_t code, bool crc,
		     bool marker);
/* A Terminate that cites the DDP header of the FPDU that it complains about. */
size_t put_terminate_for(uint8_t *out, const struct first_fpdu *first, bool crc);

/* What the administrator has set for a batch. */
struct policy {
	bool crc, peer_to_peer, accept_enhanced;
	uint8_t rev;
	uint8_t order[3];	/* kinds, most wanted first; 0: no more */
};

uint8_t policy_kinds(const struct policy *policy);

struct answer {
	struct enhanced reply;
	uint16_t local_ird;
};

/** negotiate() - the responder's side of the tables 3.1 and 3.3 */
void negotiate(const struct enhanced *request, const struct policy *policy, unsigned int ird,
	       unsigned int ord, struct answer *answer);

struct check {
	uint8_t kind;		/* of the RTR that is due, 0: none */
	uint8_t terminate;	/* the code that is due instead, 0: none */
};

/** check_reply() - the initiator's side of the same */
void check_reply(const struct enhanced *sent, const struct enhanced *reply,
		 const struct policy *policy, unsigned int ird, unsigned int ord,
		 struct check *check);

static inline uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t get32(const uint8_t *p)
{
	return (uint32_t)get16(p) << 16 | get16(p + 2);
}

static inline void put16(uint8_t *p, unsigned int value)
{
	p[0] = (uint8_t)(value >> 8);
	p[1] = (uint8_t)value;
}

static inline void put32(uint8_t *p, uint32_t value)
{
	put16(p, value >> 16);
	put16(p + 2, value & 0xffff);
}

static inline void put64(uint8_t *p, uint64_t value)
{
	put32(p, (uint32_t)(value >> 32));
	put32(p + 4, (uint32_t)value);
}

#endif
