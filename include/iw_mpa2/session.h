/* SPDX-License-Identifier: GPL-2.0 */
/*
 * DDP stream sessions over SCTP as C code sees them: chunks (requirements 1.7),
 * the machine of one session (4.4) and the way between chunks and MPA's octets.
 *
 * As in core.h: no I/O, no memory, no lock; a caller serialises the calls on one
 * struct mpa2_session and carries out the actions in their order.  All functions
 * may be called in any context.
 */
#ifndef IW_MPA2_SESSION_H
#define IW_MPA2_SESSION_H

#include <iw_mpa2/core.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Payload protocol identifiers, and the adaptation indication of RDDP (1.7). */
#define MPA2_PPID_SEGMENT 16u
#define MPA2_PPID_CONTROL 17u
#define MPA2_ADAPTATION_RDDP 1u

#define MPA2_SSN_OCTETS 2u	/* the DDP-SSN before everything else */
#define MPA2_CONTROL_HDR_LEN 4u /* DDP-SSN and function code */
#define MPA2_CONTROL_MAX (MPA2_CONTROL_HDR_LEN + MPA2_PD_MAX)
#define MPA2_SEGMENT_MIN 14u	/* a tagged DDP header */
#define MPA2_SEGMENT_MIN_MAX 516u /* the least that a maximum may be (SCTP-24) */
#define MPA2_FPDU_TAIL_MAX 7u	/* pad and CRC field */

/* What may be held back at once on one stream (SCTP-11, AMB-30). */
#define MPA2_HOLD_CHUNKS 1024u
#define MPA2_HOLD_OCTETS (1u << 20)
#define MPA2_HOLD_EARLY 64u /* chunks, before the session is open */
#define MPA2_HOLD_NONE 0xffffu

/* Chunks that may lack the peer's acknowledgement (SCTP-10). */
#define MPA2_UNACKED_MAX 32767u

/* Function codes of session control chunks. */
enum mpa2_function {
	MPA2_FN_INITIATE = 1,
	MPA2_FN_ACCEPT = 2,
	MPA2_FN_REJECT = 3,
	MPA2_FN_TERMINATE = 4,
	MPA2_FN_ENHANCED_INITIATE = 5,
	MPA2_FN_ENHANCED_ACCEPT = 6,
	MPA2_FN_ENHANCED_REJECT = 7,
};

/**
 * mpa2_function_text() - a function code in words
 * @code: enum mpa2_function
 *
 * Return: a short text, never NULL.
 */
const char *mpa2_function_text(unsigned int code);

/* What is wrong with a chunk, or with its place in the session. */
enum mpa2_chunk_fault {
	MPA2_CHUNK_GOOD = 0,
	MPA2_CHUNK_BAD_PPID,
	MPA2_CHUNK_SHORT,	/* no DDP-SSN, no function code, no DDP header */
	MPA2_CHUNK_PD_TOO_LONG,
	MPA2_CHUNK_NO_ENHANCED_DATA, /* code 5 or 6 with less than 4 octets */
	MPA2_CHUNK_BAD_CODE,	/* a function code that does not exist */
	MPA2_CHUNK_OUT_OF_PLACE, /* fits no legal sequence */
	MPA2_CHUNK_BAD_SSN,	/* a DDP-SSN that cannot be, or was there before */
	MPA2_CHUNK_NO_ROOM,	/* more would be held than may be */
	MPA2_CHUNK_FAULT_NR,
};

/**
 * mpa2_chunk_fault_text() - a fault in words
 * @fault: enum mpa2_chunk_fault
 *
 * Return: a short text, never NULL.
 */
const char *mpa2_chunk_fault_text(unsigned int fault);

/* The user data of one DATA chunk. */
struct mpa2_chunk {
	uint8_t control;	/* PPID 17 */
	uint16_t ssn;
	uint16_t code;		/* control: enum mpa2_function */
	const uint8_t *octets;	/* control: private data; else the DDP segment */
	uint32_t octets_len;
};

/**
 * mpa2_chunk_parse() - read the user data of a DATA chunk
 * @ppid: its payload protocol identifier
 * @octets: the user data, whole
 * @len: how many octets
 * @chunk: filled as far as can be, with octets in @octets, but none of a Terminate
 *
 * Return: enum mpa2_chunk_fault.
 *
 * Source: SCTP-12, SCTP-18, SCTP-30, SCTP-31, requirements 1.7, 4.4.
 */
MPA2_MUST_CHECK
enum mpa2_chunk_fault mpa2_chunk_parse(uint32_t ppid, const uint8_t *octets,
				       size_t len, struct mpa2_chunk *chunk);

/**
 * mpa2_control_build() - the user data of a control chunk
 * @ssn: its DDP-SSN
 * @code: the function code
 * @pd: private data, enhanced data included
 * @pd_len: its octets; 0 with a Terminate
 * @out: where it goes
 * @out_size: room there
 *
 * Return: the octets written, or 0 when the limits forbid it.
 *
 * Source: SCTP-18, SCTP-30, SCTP-31.
 */
MPA2_MUST_CHECK
size_t mpa2_control_build(uint16_t ssn, enum mpa2_function code, const void *pd,
			  size_t pd_len, uint8_t *out, size_t out_size);

/* ---- between MPA's octets and chunks ---- */

/* What a startup frame is as a control chunk. */
struct mpa2_carried {
	uint16_t code;		/* enum mpa2_function */
	uint16_t pd_offset;	/* of the private data in the frame, and what the */
	uint16_t pd_len;	/* chunk's is: they are the same octets */
};

/**
 * mpa2_frame_to_control() - the control chunk that says what a frame says
 * @frame: a whole Request or Reply
 * @carried: the code, and where the private data is
 *
 * Source: SCTP-28, SCTP-30, requirements 1.7.
 */
void mpa2_frame_to_control(const struct mpa2_frame *frame,
			   struct mpa2_carried *carried);

/**
 * mpa2_control_to_frame() - the frame that says what a control chunk says
 * @code: any enum mpa2_function but Terminate
 * @pd: the chunk's private data
 * @pd_len: its octets
 * @out: where the frame goes; never with Markers or a CRC
 * @out_size: room there
 *
 * Codes 1 to 3 become frames of Rev 1, the others of Rev 2 with S.
 *
 * Return: the octets written, or 0 when there is no such frame.
 */
MPA2_MUST_CHECK
size_t mpa2_control_to_frame(enum mpa2_function code, const void *pd, size_t pd_len,
			     uint8_t *out, size_t out_size);

/**
 * mpa2_fpdu_size() - the octets of an FPDU without Markers
 * @segment_len: octets of the DDP segment
 *
 * Return: length field, segment, pad and CRC field.
 */
uint32_t mpa2_fpdu_size(uint32_t segment_len);

/**
 * mpa2_fpdu_length() - the length of the DDP segment that an FPDU carries
 * @octets: the FPDU from its first octet
 * @len: octets that are there
 * @segment_len: its ULPDU_Length, on MPA2_DONE
 *
 * Return: enum mpa2_status; MPA2_NEED_MORE only below 2 octets.
 */
MPA2_MUST_CHECK
enum mpa2_status mpa2_fpdu_length(const uint8_t *octets, size_t len,
				  uint32_t *segment_len);

/**
 * mpa2_fpdu_head() - the two octets before a DDP segment
 * @segment_len: octets of the segment
 * @out: two octets
 *
 * Return: 2, or 0 for a segment that no FPDU can carry.
 */
MPA2_MUST_CHECK
size_t mpa2_fpdu_head(uint32_t segment_len, uint8_t *out);

/**
 * mpa2_fpdu_tail() - what follows a DDP segment where no CRC is in use
 * @segment_len: octets of the segment
 * @out: MPA2_FPDU_TAIL_MAX octets
 *
 * Return: the octets of pad and CRC field, all of them 0.
 */
MPA2_MUST_CHECK
size_t mpa2_fpdu_tail(uint32_t segment_len, uint8_t *out);

/* ---- the machine of one session (requirements 4.4) ---- */

enum mpa2_session_state {
	MPA2_SS_IDLE = 0,
	MPA2_SS_A_WAIT,	/* active: Initiate sent */
	MPA2_SS_P_WAIT,	/* passive: the ULP decides */
	MPA2_SS_OPEN,
	MPA2_SS_END,	/* over; the stream cannot be used again yet */
	MPA2_SS_NR,
};

/**
 * mpa2_session_state_text() - a state in words
 * @state: enum mpa2_session_state
 *
 * Return: a short text, never NULL.
 */
const char *mpa2_session_state_text(unsigned int state);

enum mpa2_session_event_type {
	MPA2_SEV_INITIATE = 0,	/* pd; enhanced says which code */
	MPA2_SEV_ACCEPT,	/* pd */
	MPA2_SEV_REJECT,	/* pd */
	MPA2_SEV_REFUSE,	/* too many requests, nobody listens, set-up off */
	MPA2_SEV_SEGMENT,	/* a DDP segment to be sent, whole */
	MPA2_SEV_CLOSE,		/* by the local end */
	MPA2_SEV_CHUNK,		/* from the peer, in the order of arrival */
	MPA2_SEV_ACKED,		/* all that was sent so far is acknowledged */
	MPA2_SEV_TIMER,		/* the timer armed last ran out */
	MPA2_SEV_LOST,		/* the association is gone */
	MPA2_SEV_NR,
};

struct mpa2_session_event {
	uint8_t type;		/* enum mpa2_session_event_type */
	uint8_t enhanced;	/* INITIATE */
	uint8_t held;		/* CHUNK: of the slot that mpa2_session_ready() named */
	uint8_t no_room;	/* CHUNK: the shell can hold no more */
	uint32_t ppid;		/* CHUNK */
	const uint8_t *octets;	/* pd, segment or user data */
	uint32_t octets_len;
};

enum mpa2_session_action_type {
	MPA2_SACT_NONE = 0,
	MPA2_SACT_SEND,		/* octets as PPID 17; valid until the next event */
	MPA2_SACT_SEND_SEGMENT,	/* octets, then the event's, as PPID 16 */
	MPA2_SACT_HOLD,		/* arg: slot; keep the event's chunk there */
	MPA2_SACT_DROP_HELD,	/* forget all slots */
	MPA2_SACT_REQUEST,	/* octets: private data */
	MPA2_SACT_ACCEPTED,	/* octets: private data */
	MPA2_SACT_REJECTED,	/* octets: private data; the session is over */
	MPA2_SACT_DELIVER,	/* octets: a DDP segment */
	MPA2_SACT_ENDED,	/* arg: enum mpa2_session_end */
	MPA2_SACT_ARM_TIMER,	/* arg: MPA2_TIMER_REPLY or MPA2_TIMER_CLOSE */
	MPA2_SACT_STOP_TIMER,
	MPA2_SACT_REUSABLE,	/* the machine is as new: SCTP-22 holds */
};

/* Why a session is over.  Told once, or MPA2_SACT_REJECTED instead. */
enum mpa2_session_end {
	MPA2_END_PEER = 0,	/* its Terminate, or its RDMAP Terminate */
	MPA2_END_REFUSED,	/* its Terminate instead of a reply */
	MPA2_END_LOCAL,		/* we closed, rejected or refused */
	MPA2_END_TIMEOUT,
	MPA2_END_ILLEGAL,	/* see mpa2_session_info.fault */
	MPA2_END_LOST,		/* with the association */
	MPA2_END_NR,
};

struct mpa2_session_action {
	uint8_t type;		/* enum mpa2_session_action_type */
	uint32_t arg;
	const uint8_t *octets;
	uint32_t octets_len;
};

#define MPA2_SESSION_ACTIONS_MAX 6u
struct mpa2_session_actions {
	uint32_t count;
	struct mpa2_session_action list[MPA2_SESSION_ACTIONS_MAX];
};

/* One session.  Opaque; no pointer inside, may be kept in any memory. */
#define MPA2_SESSION_WORDS 86u
struct mpa2_session {
	uint64_t words[MPA2_SESSION_WORDS];
};

struct mpa2_session_info {
	uint8_t state;		/* enum mpa2_session_state */
	uint8_t active;		/* we initiated */
	uint8_t enhanced;	/* codes 5 to 7 */
	uint8_t fault;		/* enum mpa2_chunk_fault, first one wins */
	uint8_t may_send;	/* MPA2_SEV_SEGMENT would be sent */
	uint16_t tx_ssn;	/* of the next chunk of ours */
	uint16_t rx_ssn;	/* of the next one of the peer's */
	uint16_t unacked;	/* chunks of ours since MPA2_SEV_ACKED */
	uint16_t held;		/* chunks */
	uint32_t held_octets;
};

/**
 * mpa2_session_init() - a stream that no session has used
 * @session: any memory
 */
void mpa2_session_init(struct mpa2_session *session);

/**
 * mpa2_session_feed() - feed one event, get the actions
 * @session: the session
 * @event: the event
 * @actions: what is to be done, in this order
 *
 * An event that the state does not know changes nothing and yields no action.
 * What is sent goes unordered (SCTP-07); the octets of MPA2_SACT_SEND_SEGMENT are
 * the DDP-SSN before the segment of the event.  After each event the shell asks mpa2_session_ready().
 */
void mpa2_session_feed(struct mpa2_session *session,
			const struct mpa2_session_event *event,
			struct mpa2_session_actions *actions);

/**
 * mpa2_session_ready() - the held chunk whose turn it is
 * @session: the session
 *
 * The shell takes it out of its slot, feeds it as MPA2_SEV_CHUNK with held set,
 * frees it and asks again.
 *
 * Return: its slot, below MPA2_HOLD_CHUNKS, or MPA2_HOLD_NONE.
 */
uint32_t mpa2_session_ready(const struct mpa2_session *session);

/**
 * mpa2_session_look() - what is known of a session
 * @session: the session
 * @info: a copy
 */
void mpa2_session_look(const struct mpa2_session *session,
		       struct mpa2_session_info *info);

#ifdef __cplusplus
}
#endif

#endif /* IW_MPA2_SESSION_H */
