/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The protocol core of iw_mpa2 as C code sees it.
 *
 * The core is freestanding C++ behind these extern "C" functions: no I/O, no
 * memory allocation, no lock, no kernel header.  A caller owns every struct
 * here, serialises the calls on one struct mpa2_conn, and carries out the
 * actions that mpa2_conn_event() returns, in their order.  All functions may
 * be called in any context.  Integers in these structs are in host order;
 * only octet buffers are wire data.
 */
#ifndef IW_MPA2_CORE_H
#define IW_MPA2_CORE_H

#if defined(__KERNEL__) && !defined(__cplusplus)
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What a caller has to look at. */
#define MPA2_MUST_CHECK __attribute__((warn_unused_result))

/* ---- sizes and numbers of the standard (requirements 1.1 to 1.6) ---- */

#define MPA2_HDR_LEN 20u	/* octets before the private data */
#define MPA2_PD_MAX 512u	/* private data octets, enhanced data included */
#define MPA2_FRAME_MAX (MPA2_HDR_LEN + MPA2_PD_MAX)
#define MPA2_ENHANCED_LEN 4u	/* octets of enhanced data */
#define MPA2_DEPTH_MAX 0x3ffeu	/* largest IRD or ORD that is a number */
#define MPA2_DEPTH_NONE 0x3fffu /* "no automatic negotiation" */
#define MPA2_REV_1 1u
#define MPA2_REV_2 2u

#define MPA2_FPDU_LEN_OCTETS 2u	/* ULPDU_Length */
#define MPA2_ULPDU_MAX 64768u	/* largest ULPDU_Length */
#define MPA2_FPDU_MAX (2u + MPA2_ULPDU_MAX + 3u + 4u)
#define MPA2_RTR_MAX 56u	/* Read RTR behind a Marker */
#define MPA2_TERMINATE_MAX 80u	/* Terminate with headers, behind a Marker */
#define MPA2_TX_MAX MPA2_FRAME_MAX

/* Connection results: bytes of the Terminate Control field (1.6). */
#define MPA2_TERM_LAYER_MPA 2u
#define MPA2_TERM_LOCAL_CATASTROPHIC 5u
#define MPA2_TERM_INSUFFICIENT_IRD 6u
#define MPA2_TERM_NO_MATCHING_RTR 7u

/* What a parser says.  There is no fourth answer. */
enum mpa2_status {
	MPA2_DONE = 0,
	MPA2_NEED_MORE = 1,
	MPA2_ERROR = 2,
};

/* RTR kinds; also the control flags B, C and D of the enhanced data. */
enum mpa2_rtr {
	MPA2_RTR_NONE = 0,
	MPA2_RTR_SEND = 1,	/* flag B */
	MPA2_RTR_WRITE = 2,	/* flag C */
	MPA2_RTR_READ = 4,	/* flag D */
	MPA2_RTR_ALL = 7,
};

enum mpa2_key {
	MPA2_KEY_REQUEST = 0,
	MPA2_KEY_REPLY = 1,
};

/* ---- frames: plain functions, used by the machines and by tests ---- */

/* The 32 bits of enhanced connection data (1.2). */
struct mpa2_enhanced {
	uint16_t ird;		/* 14 bits */
	uint16_t ord;		/* 14 bits */
	uint8_t peer_to_peer;	/* flag A */
	uint8_t rtr;		/* flags B, C, D as enum mpa2_rtr bits */
};

/* One Request or Reply frame (1.1). */
struct mpa2_frame {
	uint8_t key;		/* enum mpa2_key */
	uint8_t rev;
	uint8_t markers;	/* M */
	uint8_t crc;		/* C */
	uint8_t reject;		/* R */
	uint8_t enhanced;	/* S, already 0 when rev is 1 (AMB-08) */
	uint16_t pd_length;	/* PD_Length as on the wire */
	struct mpa2_enhanced data; /* valid if has_data */
	uint8_t has_data;	/* enhanced and pd_length >= 4 */
	uint16_t ulp_offset;	/* where the ULP's private data starts in the frame */
	uint16_t ulp_length;	/* and its octets */
};

/* Why a frame, an FPDU or a whole connection was refused. */
enum mpa2_cause {
	MPA2_CAUSE_NONE = 0,
	MPA2_CAUSE_BAD_KEY,
	MPA2_CAUSE_BAD_REV,
	MPA2_CAUSE_PD_TOO_LONG,
	MPA2_CAUSE_ENHANCED_TOO_SHORT,	/* S=1 with PD_Length < 4 */
	MPA2_CAUSE_ENHANCED_OFF,	/* S=1 while accept_enhanced is off */
	MPA2_CAUSE_TRAILING_OCTETS,	/* octets behind a Request */
	MPA2_CAUSE_NOT_ENHANCED,	/* S=0 or Rev 1 accept to our S=1 */
	MPA2_CAUSE_MARKERS,		/* peer wants Markers */
	MPA2_CAUSE_REJECTED,		/* R=1 */
	MPA2_CAUSE_INSUFFICIENT_IRD,	/* Terminate 2/0/6 sent */
	MPA2_CAUSE_NO_MATCHING_RTR,	/* Terminate 2/0/7 sent */
	MPA2_CAUSE_LOCAL,		/* local failure, Terminate 2/0/5 if sendable */
	MPA2_CAUSE_CONNECT_FAILED,	/* TCP did not come up */
	MPA2_CAUSE_PEER_CLOSED,		/* EOF */
	MPA2_CAUSE_PEER_RESET,
	MPA2_CAUSE_TIMEOUT,
	MPA2_CAUSE_ABORTED,		/* by the local ULP */
	MPA2_CAUSE_SEND_FAILED,
	MPA2_CAUSE_ULP_REJECT,		/* our ULP rejected */
	MPA2_CAUSE_REQUIRED_ORD,	/* policy: the Request's IRD is too small */
	MPA2_CAUSE_BAD_CRC,
	MPA2_CAUSE_BAD_FPDU_LENGTH,
	MPA2_CAUSE_BAD_HEADER,		/* first FPDU: DDP or RDMAP field wrong */
	MPA2_CAUSE_PEER_TERMINATE,	/* first FPDU is a Terminate */
	MPA2_CAUSE_ULP_PD_TOO_LONG,	/* more than rdma_cm can carry */
	MPA2_CAUSE_NOT_TAKEN,		/* iw_cm had no room for the Request */
	MPA2_CAUSE_NR,
};

/**
 * mpa2_cause_text() - a cause in words
 * @cause: enum mpa2_cause
 *
 * Return: a short lower-case text for a log line, never NULL.
 */
const char *mpa2_cause_text(unsigned int cause);

/**
 * mpa2_crc32c() - the CRC of some octets
 * @octets: the octets
 * @len: how many
 *
 * Return: the CRC as a number.
 */
uint32_t mpa2_crc32c(const void *octets, size_t len);

/**
 * mpa2_frame_parse() - read one Request or Reply
 * @octets: what there is of the stream
 * @len: how many octets that are
 * @expected_key: the key that the other end must send
 * @frame: filled on MPA2_DONE
 * @need_total: on MPA2_NEED_MORE the octets that the whole frame has, or 20 while
 * 	that is unknown; on MPA2_DONE those that it takes
 * @cause: enum mpa2_cause on MPA2_ERROR
 *
 * Return: enum mpa2_status.
 */
MPA2_MUST_CHECK
enum mpa2_status mpa2_frame_parse(const uint8_t *octets, size_t len,
				  enum mpa2_key expected_key,
				  struct mpa2_frame *frame,
				  uint32_t *need_total, uint8_t *cause);

/**
 * mpa2_frame_build() - write one Request or Reply
 * @frame: key, rev, markers, crc, reject, enhanced and data; pd_length is computed
 * @ulp_pd: the ULP's private data; may lie in @out
 * @ulp_len: its octets
 * @out: where the frame goes
 * @out_size: room there
 *
 * Return: the octets written, or 0 when @out_size or the limits of the frame
 * forbid it.
 */
MPA2_MUST_CHECK
size_t mpa2_frame_build(const struct mpa2_frame *frame, const void *ulp_pd,
			size_t ulp_len, uint8_t *out, size_t out_size);

/**
 * mpa2_rtr_build() - one of the three RTR messages as a whole FPDU
 * @kind: which
 * @crc: whether its CRC is in use
 * @markers: whether a Marker stands before it
 * @out: where it goes
 * @out_size: room there
 *
 * Return: the octets written, or 0 when they do not fit.
 */
MPA2_MUST_CHECK
size_t mpa2_rtr_build(enum mpa2_rtr kind, bool crc, bool markers, uint8_t *out,
		      size_t out_size);

/**
 * mpa2_read_response_build() - the answer of length zero to a Read RTR
 * @sink_stag: as the Read Request has it
 * @sink_to: likewise
 * @crc: whether its CRC is in use
 * @markers: whether a Marker stands before it
 * @out: where it goes
 * @out_size: room there
 *
 * Return: the octets written, or 0 when they do not fit.
 */
MPA2_MUST_CHECK
size_t mpa2_read_response_build(uint32_t sink_stag, uint64_t sink_to, bool crc,
				bool markers, uint8_t *out, size_t out_size);

/**
 * mpa2_terminate_build() - a Terminate without headers
 * @layer: the layer that it reports of
 * @etype: the type of the error
 * @code: the error
 * @crc: whether its CRC is in use
 * @markers: whether a Marker stands before it
 * @out: where it goes
 * @out_size: room there
 *
 * Return: the octets written, or 0 when they do not fit.
 */
MPA2_MUST_CHECK
size_t mpa2_terminate_build(uint8_t layer, uint8_t etype, uint8_t code,
			    bool crc, bool markers, uint8_t *out,
			    size_t out_size);

/**
 * mpa2_terminate_build_with_header() - a Terminate with the DDP header it means
 * @layer: the layer that it reports of
 * @etype: the type of the error
 * @code: the error
 * @header: the DDP header
 * @header_len: 14 or 18 octets, or 0 for none
 * @segment_length: the DDP Segment Length
 * @crc: whether its CRC is in use
 * @markers: whether a Marker stands before it
 * @out: where it goes
 * @out_size: room there
 *
 * Return: the octets written, or 0 when they do not fit.
 */
MPA2_MUST_CHECK
size_t mpa2_terminate_build_with_header(uint8_t layer, uint8_t etype,
					uint8_t code, const uint8_t *header,
					size_t header_len,
					uint16_t segment_length, bool crc,
					bool markers, uint8_t *out,
					size_t out_size);

/* What the first FPDU of a stream turned out to be. */
enum mpa2_fpdu_kind {
	MPA2_FPDU_RTR = 0,	/* one of the three RTR messages */
	MPA2_FPDU_MESSAGE,	/* any other valid RDMAP message */
	MPA2_FPDU_TERMINATE,
	MPA2_FPDU_EMPTY,	/* bare FPDU of length 0 (AMB-01) */
};

struct mpa2_fpdu {
	uint8_t kind;		/* enum mpa2_fpdu_kind */
	uint8_t rtr;		/* enum mpa2_rtr when kind is MPA2_FPDU_RTR */
	uint8_t opcode;		/* RDMAP opcode */
	uint8_t term_layer;	/* kind TERMINATE: what it reports; */
	uint8_t term_etype;	/* on MPA2_ERROR with cause BAD_HEADER: */
	uint8_t term_code;	/* the Terminate to answer with */
	uint8_t term_header_len; /* 0, or octets of the DDP header to send back */
	uint16_t ulpdu_length;
	uint32_t sink_stag;	/* Read Request */
	uint64_t sink_to;
};

/**
 * mpa2_fpdu_parse() - look at the first FPDU of a stream
 * @octets: the stream from its start (no Markers: we never ask for them)
 * @len: octets that are there
 * @crc: whether its CRC is in use
 * @fpdu: what it is, on MPA2_DONE; what to answer, on MPA2_ERROR
 * @need_total: on MPA2_NEED_MORE the octets wanted in all, first 2, then the whole
 * 	FPDU; on MPA2_DONE its size
 * @cause: enum mpa2_cause on MPA2_ERROR
 *
 * Return: enum mpa2_status.
 */
MPA2_MUST_CHECK
enum mpa2_status mpa2_fpdu_parse(const uint8_t *octets, size_t len, bool crc,
				 struct mpa2_fpdu *fpdu, uint32_t *need_total,
				 uint8_t *cause);

/* What octets of ours or the peer's are, for counters and traces. */
enum mpa2_wire_kind {
	MPA2_WIRE_OTHER = 0,
	MPA2_WIRE_REQUEST,
	MPA2_WIRE_REPLY,
	MPA2_WIRE_RTR,
	MPA2_WIRE_READ_RESPONSE,
	MPA2_WIRE_TERMINATE,
	MPA2_WIRE_NR,
};

struct mpa2_wire {
	uint8_t kind;		/* enum mpa2_wire_kind */
	uint8_t rtr;		/* RTR: enum mpa2_rtr */
	uint8_t term_layer;	/* TERMINATE: what it reports */
	uint8_t term_etype;
	uint8_t term_code;
	struct mpa2_frame frame; /* REQUEST, REPLY */
};

/**
 * mpa2_wire_describe() - what octets are
 * @octets: one whole startup frame, or an FPDU, with or without a Marker before it
 * @len: how many
 * @wire: what they are; MPA2_WIRE_OTHER when that is not known
 */
void mpa2_wire_describe(const uint8_t *octets, size_t len, struct mpa2_wire *wire);

/**
 * mpa2_rtr_text() - an RTR kind in words
 * @kind: enum mpa2_rtr
 *
 * Return: "none", "send", "write" or "read".
 */
const char *mpa2_rtr_text(unsigned int kind);

/* ---- negotiation (requirements 3.1 to 3.3), pure functions ---- */

struct mpa2_policy {
	uint8_t rev;		  /* initiator: 1 or 2 */
	uint8_t peer_to_peer;	  /* initiator: A */
	uint8_t fallback;	  /* initiator: one retry in Rev 1 */
	uint8_t accept_enhanced;  /* responder: 0 closes S=1 Requests (F9) */
	uint8_t crc;		  /* our C bit */
	uint8_t round_ord;	  /* round the local ORD down to a power of two */
	uint8_t no_negotiate_ird; /* initiator: send 0x3FFF as IRD */
	uint8_t no_negotiate_ord; /* initiator: send 0x3FFF as ORD */
	uint8_t rtr_order[3];	  /* enum mpa2_rtr, most wanted first, 0 ends */
	uint16_t require_ord;	  /* responder: reject a smaller IRD; 0 = off */
	uint16_t cap_ird;	  /* device limits */
	uint16_t cap_ord;
};

/**
 * mpa2_policy_rtr_set() - all kinds in rtr_order, as a set
 * @policy: the policy
 *
 * Return: bits of enum mpa2_rtr.
 */
uint8_t mpa2_policy_rtr_set(const struct mpa2_policy *policy);

struct mpa2_reply_result {
	struct mpa2_enhanced reply; /* what goes on the wire */
	uint16_t local_ird;	    /* what our QP gets */
	uint16_t local_ord;
	uint8_t reject;		    /* R=1: require_ord not met */
};

/**
 * mpa2_negotiate_reply() - the responder's answer to an enhanced Request (3.1, 3.3)
 * @request: the Request's enhanced data
 * @policy: ours
 * @ulp_ird: the ULP's responder_resources
 * @ulp_ord: the ULP's initiator_depth
 * @result: the answer, and what the QP gets
 */
void mpa2_negotiate_reply(const struct mpa2_enhanced *request,
			  const struct mpa2_policy *policy, uint32_t ulp_ird,
			  uint32_t ulp_ord, struct mpa2_reply_result *result);

struct mpa2_check_result {
	uint16_t local_ird;
	uint16_t local_ord;
	uint8_t rtr;		/* enum mpa2_rtr to send, 0 = none */
	uint8_t terminate;	/* 0, or the layer 2 type 0 code to send */
};

/**
 * mpa2_negotiate_check() - what an accept Reply means to the initiator (3.1, 3.3)
 * @sent: our Request's enhanced data
 * @reply: the Reply's
 * @policy: ours
 * @ulp_ird: the local value, which differs from @sent where 0x3FFF was sent
 * @ulp_ord: likewise
 * @result: what the QP gets, and what to send
 */
void mpa2_negotiate_check(const struct mpa2_enhanced *sent,
			  const struct mpa2_enhanced *reply,
			  const struct mpa2_policy *policy, uint32_t ulp_ird,
			  uint32_t ulp_ord, struct mpa2_check_result *result);

/* ---- the two machines (requirements 4.1, 4.2) ---- */

enum mpa2_role {
	MPA2_INITIATOR = 0,
	MPA2_RESPONDER = 1,
};

enum mpa2_state {
	MPA2_ST_IDLE = 0,
	MPA2_ST_TCP,	/* initiator: TCP being set up */
	MPA2_ST_W_HDR,
	MPA2_ST_W_PD,
	MPA2_ST_CHECK,	/* initiator: reply accepted, QP being bound */
	MPA2_ST_RTR,	/* initiator: RTR being sent */
	MPA2_ST_ULP,	/* responder: the ULP decides */
	MPA2_ST_BIND,	/* responder: QP being bound, Reply not yet sent */
	MPA2_ST_W_FPDU,	/* responder: Reply sent, fence closed */
	MPA2_ST_EST,
	MPA2_ST_REJ,	/* reject sent, waiting for the peer's close */
	MPA2_ST_TERM,	/* Terminate sent, waiting for the peer's close */
	MPA2_ST_CLOSED,
	MPA2_ST_NR,
};

/**
 * mpa2_state_text() - a state in words
 * @state: enum mpa2_state
 *
 * Return: a short text, never NULL.
 */
const char *mpa2_state_text(unsigned int state);

enum mpa2_event_type {
	MPA2_EV_START = 0,	/* initiator: the ULP connects */
	MPA2_EV_CONNECTED,	/* TCP is up */
	MPA2_EV_CONNECT_FAILED,	/* TCP refused or unreachable */
	MPA2_EV_OCTETS,		/* startup octets, consumed from the stream */
	MPA2_EV_FPDU,		/* octets of the first FPDU, only looked at */
	MPA2_EV_EOF,
	MPA2_EV_RESET,
	MPA2_EV_TIMER,		/* the timer that was armed last ran out */
	MPA2_EV_ACCEPT,		/* responder: ULP accepts */
	MPA2_EV_REJECT,		/* responder: ULP rejects */
	MPA2_EV_ABORT,		/* ULP, QP or device is going away */
	MPA2_EV_BOUND,		/* MPA2_ACT_BIND succeeded */
	MPA2_EV_LOCAL_FAILURE,	/* MPA2_ACT_BIND failed, or no memory */
	MPA2_EV_SENT,		/* MPA2_ACT_SEND was taken whole by TCP */
	MPA2_EV_SEND_FAILED,
	MPA2_EV_NR,
};

struct mpa2_event {
	uint8_t type;		/* enum mpa2_event_type */
	uint8_t more_queued;	/* OCTETS: the stream holds further octets */
	const uint8_t *octets;	/* OCTETS, FPDU */
	uint32_t octets_len;
	uint32_t ulp_ird;	/* START, ACCEPT: responder_resources */
	uint32_t ulp_ord;	/* START, ACCEPT: initiator_depth */
	const void *ulp_pd;	/* START, ACCEPT, REJECT */
	uint32_t ulp_pd_len;
	uint8_t cause;		/* REJECT: why, 0 = the ULP's wish */
};

enum mpa2_action_type {
	MPA2_ACT_NONE = 0,
	MPA2_ACT_CONNECT,	/* open TCP (START, and the Rev 1 retry: a new
				 * socket to the same addresses; the old one is
				 * closed first) */
	MPA2_ACT_SEND,		/* send octets/octets_len in one piece, then
				 * feed MPA2_EV_SENT or MPA2_EV_SEND_FAILED */
	MPA2_ACT_ARM_TIMER,	/* arg: enum mpa2_timer; replaces a running one */
	MPA2_ACT_STOP_TIMER,
	MPA2_ACT_CONNECT_REQUEST, /* tell the ULP; see mpa2_conn_info() */
	MPA2_ACT_BIND,		/* hand the socket to the QP with the negotiated
				 * depths and CRC; responder: with the fence
				 * closed.  Then feed MPA2_EV_BOUND or
				 * MPA2_EV_LOCAL_FAILURE */
	MPA2_ACT_CONSUME,	/* arg: octets of the RTR to take from the stream */
	MPA2_ACT_OPEN_FENCE,	/* responder; arg: enum mpa2_rtr that was taken */
	MPA2_ACT_ESTABLISHED,	/* tell the ULP */
	MPA2_ACT_REJECTED,	/* initiator: tell the ULP */
	MPA2_ACT_FAILED,	/* tell the ULP; arg: enum mpa2_failure */
	MPA2_ACT_SHUTDOWN,	/* no more sends (FIN), discard what comes, close
				 * at the peer's FIN or when T_fin runs out */
	MPA2_ACT_CLOSE,		/* close TCP by FIN */
	MPA2_ACT_RESET,		/* close TCP by RST */
};

enum mpa2_timer {
	MPA2_TIMER_CONNECT = 0,
	MPA2_TIMER_REQUEST,	/* T_req */
	MPA2_TIMER_REPLY,	/* T_rep */
	MPA2_TIMER_RTR,		/* T_rtr */
	MPA2_TIMER_CLOSE,	/* T_fin */
	MPA2_TIMER_NR,
};

/* What the ULP is told; the shell turns it into an errno. */
enum mpa2_failure {
	MPA2_FAIL_RESET = 0,	/* -ECONNRESET: peer closed, reset, refused TCP */
	MPA2_FAIL_TIMEOUT,	/* -ETIMEDOUT */
	MPA2_FAIL_PROTOCOL,	/* -EPROTO */
	MPA2_FAIL_LOCAL,	/* -ENOMEM or the like */
	MPA2_FAIL_ABORTED,	/* -ECONNABORTED */
};

struct mpa2_action {
	uint8_t type;		/* enum mpa2_action_type */
	uint32_t arg;
	const uint8_t *octets;	/* SEND: valid until the next event */
	uint32_t octets_len;
};

#define MPA2_ACTIONS_MAX 8u
struct mpa2_actions {
	uint32_t count;
	struct mpa2_action list[MPA2_ACTIONS_MAX];
};

/* One connection.  Opaque; no pointer inside, may be kept in any memory. */
#define MPA2_CONN_WORDS 156u
struct mpa2_conn {
	uint64_t words[MPA2_CONN_WORDS];
};

/* What is known of a connection, for events, logs and dumps. */
struct mpa2_info {
	uint8_t role;
	uint8_t state;
	uint8_t rev;		/* Rev in use */
	uint8_t enhanced;	/* S=1 agreed or asked for */
	uint8_t peer_to_peer;	/* A agreed (asked for, until then) */
	uint8_t rtr_offered;	/* flags of the Request */
	uint8_t rtr_replied;	/* flags of the Reply */
	uint8_t rtr;		/* the kind sent or taken, 0 = none */
	uint8_t crc;		/* CRC in force */
	uint8_t peer_reject;	/* R=1 seen */
	uint8_t peer_data;	/* peer_ird and peer_ord are valid */
	uint8_t retried;	/* this is the Rev 1 retry */
	uint8_t first_fpdu;	/* responder: enum mpa2_fpdu_kind of the first FPDU */
	uint8_t first_fpdu_seen;
	uint8_t terminate;	/* code of the layer 2 Terminate sent, 0 = none */
	uint8_t cause;		/* enum mpa2_cause, first one wins */
	uint16_t local_ird;
	uint16_t local_ord;
	uint16_t peer_ird;	/* 14 bits as received, 0x3FFF included */
	uint16_t peer_ord;
	const uint8_t *ulp_pd;	/* the peer's ULP private data, inside the conn */
	uint16_t ulp_pd_len;
	uint16_t peer_frame_len; /* its whole startup frame, 0 until that is in */
	const uint8_t *peer_frame;
};

/**
 * mpa2_conn_init() - start from nothing
 * @conn: any memory
 * @role: initiator or responder
 * @policy: copied
 */
void mpa2_conn_init(struct mpa2_conn *conn, enum mpa2_role role,
		    const struct mpa2_policy *policy);

/**
 * mpa2_conn_set_policy() - another policy for what is not decided yet
 * @conn: the connection
 * @policy: copied
 *
 * Of use to a responder until its MPA2_EV_ACCEPT; elsewhere it changes nothing.
 */
void mpa2_conn_set_policy(struct mpa2_conn *conn, const struct mpa2_policy *policy);

/**
 * mpa2_conn_event() - feed one event, get the actions
 * @conn: the connection
 * @event: the event
 * @actions: what is to be done, in this order
 *
 * An event that the state does not know changes nothing and yields no action
 * (mpa2_transition_exists() says so).  MPA2_EV_START with too much private data
 * yields MPA2_ACT_FAILED only.
 */
void mpa2_conn_event(struct mpa2_conn *conn, const struct mpa2_event *event,
		     struct mpa2_actions *actions);

/**
 * mpa2_conn_wanted() - octets wanted next
 * @conn: the connection
 *
 * Return: in W_HDR and W_PD how many to consume at most (never more, so what
 * follows stays in the stream), in W_FPDU how many must be visible in all before
 * MPA2_EV_FPDU is worth feeding; 0 elsewhere.
 */
uint32_t mpa2_conn_wanted(const struct mpa2_conn *conn);

/**
 * mpa2_conn_info() - what is known of a connection
 * @conn: the connection
 * @info: a copy, with pointers into @conn
 */
void mpa2_conn_info(const struct mpa2_conn *conn, struct mpa2_info *info);

/**
 * mpa2_transition_exists() - whether the table has a row for an event in a state
 * @role: whose table
 * @state: the state
 * @event: the event
 *
 * Return: whether it has.
 */
bool mpa2_transition_exists(enum mpa2_role role, enum mpa2_state state,
			    enum mpa2_event_type event);

#ifdef __cplusplus
}
#endif

#endif /* IW_MPA2_CORE_H */
