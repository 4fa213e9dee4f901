// SPDX-License-Identifier: GPL-2.0
/*
 * What can be seen of handshakes: counters and trace events.  It looks at what
 * a machine was, what was fed to it and what it has become; nothing here
 * changes a connection.
 */
#include "../compat/compat.h"
#include "endpoint.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

static void count(struct mpa2_endpoint *ep, enum mpa2_counter counter)
{
	if (counter != MPA2_COUNT_NONE)
		atomic64_inc(&ep->dev->counters.count[counter]);
}

/**
 * mpa2_ep_count() - add one to a counter of the device
 * @ep: the endpoint
 * @counter: which, or MPA2_COUNT_NONE
 *
 * Context: any.
 */
void mpa2_ep_count(struct mpa2_endpoint *ep, enum mpa2_counter counter)
{
	count(ep, counter);
}

enum { FORMAT_REV1, FORMAT_REV2, FORMAT_ENHANCED };

static unsigned int format_of(const struct mpa2_frame *frame)
{
	if (frame->enhanced)
		return FORMAT_ENHANCED;
	return frame->rev == MPA2_REV_1 ? FORMAT_REV1 : FORMAT_REV2;
}

/* The three formats of one kind of frame are neighbours. */
static enum mpa2_counter frame_counter(const struct mpa2_wire *wire, bool sent)
{
	enum mpa2_counter first;

	if (wire->kind == MPA2_WIRE_REQUEST)
		first = sent ? MPA2_COUNT_requests_sent_rev1 :
			       MPA2_COUNT_requests_received_rev1;
	else if (wire->frame.reject)
		first = sent ? MPA2_COUNT_rejects_sent_rev1 :
			       MPA2_COUNT_rejects_received_rev1;
	else
		first = sent ? MPA2_COUNT_accepts_sent_rev1 :
			       MPA2_COUNT_accepts_received_rev1;
	return first + format_of(&wire->frame);
}

static enum mpa2_counter rtr_counter(u8 kind, bool sent)
{
	switch (kind) {
	case MPA2_RTR_SEND:
		return sent ? MPA2_COUNT_rtr_sent_send :
			      MPA2_COUNT_rtr_received_send;
	case MPA2_RTR_WRITE:
		return sent ? MPA2_COUNT_rtr_sent_write :
			      MPA2_COUNT_rtr_received_write;
	case MPA2_RTR_READ:
		return sent ? MPA2_COUNT_rtr_sent_read :
			      MPA2_COUNT_rtr_received_read;
	default:
		return MPA2_COUNT_NONE;
	}
}

static enum mpa2_counter terminate_counter(const struct mpa2_wire *wire, bool sent)
{
	if (wire->term_layer == MPA2_TERM_LAYER_MPA && !wire->term_etype) {
		switch (wire->term_code) {
		case MPA2_TERM_LOCAL_CATASTROPHIC:
			return sent ? MPA2_COUNT_terminates_sent_local :
				      MPA2_COUNT_terminates_received_local;
		case MPA2_TERM_INSUFFICIENT_IRD:
			return sent ? MPA2_COUNT_terminates_sent_ird :
				      MPA2_COUNT_terminates_received_ird;
		case MPA2_TERM_NO_MATCHING_RTR:
			return sent ? MPA2_COUNT_terminates_sent_rtr :
				      MPA2_COUNT_terminates_received_rtr;
		}
	}
	return sent ? MPA2_COUNT_terminates_sent_other :
		      MPA2_COUNT_terminates_received_other;
}

static const enum mpa2_counter cause_counter[MPA2_CAUSE_NR] = {
	[MPA2_CAUSE_NONE] = MPA2_COUNT_NONE,
	[MPA2_CAUSE_BAD_KEY] = MPA2_COUNT_malformed_key,
	[MPA2_CAUSE_BAD_REV] = MPA2_COUNT_malformed_rev,
	[MPA2_CAUSE_PD_TOO_LONG] = MPA2_COUNT_malformed_length,
	[MPA2_CAUSE_ENHANCED_TOO_SHORT] = MPA2_COUNT_malformed_enhanced,
	[MPA2_CAUSE_ENHANCED_OFF] = MPA2_COUNT_refused_enhanced_off,
	[MPA2_CAUSE_TRAILING_OCTETS] = MPA2_COUNT_malformed_trailing,
	[MPA2_CAUSE_NOT_ENHANCED] = MPA2_COUNT_malformed_unenhanced_reply,
	[MPA2_CAUSE_MARKERS] = MPA2_COUNT_NONE,	/* by role, below */
	[MPA2_CAUSE_REJECTED] = MPA2_COUNT_NONE,	/* its frame is counted */
	[MPA2_CAUSE_INSUFFICIENT_IRD] = MPA2_COUNT_NONE, /* its Terminate is */
	[MPA2_CAUSE_NO_MATCHING_RTR] = MPA2_COUNT_NONE,
	[MPA2_CAUSE_LOCAL] = MPA2_COUNT_handover_failures,
	[MPA2_CAUSE_CONNECT_FAILED] = MPA2_COUNT_connects_failed,
	[MPA2_CAUSE_PEER_CLOSED] = MPA2_COUNT_peer_closed,
	[MPA2_CAUSE_PEER_RESET] = MPA2_COUNT_peer_reset,
	[MPA2_CAUSE_TIMEOUT] = MPA2_COUNT_NONE,	/* by step, below */
	[MPA2_CAUSE_ABORTED] = MPA2_COUNT_aborted,
	[MPA2_CAUSE_SEND_FAILED] = MPA2_COUNT_send_failures,
	[MPA2_CAUSE_ULP_REJECT] = MPA2_COUNT_rejects_by_application,
	[MPA2_CAUSE_REQUIRED_ORD] = MPA2_COUNT_rejects_for_required_ord,
	[MPA2_CAUSE_BAD_CRC] = MPA2_COUNT_malformed_fpdu_crc,
	[MPA2_CAUSE_BAD_FPDU_LENGTH] = MPA2_COUNT_malformed_fpdu_length,
	[MPA2_CAUSE_BAD_HEADER] = MPA2_COUNT_malformed_fpdu_header,
	[MPA2_CAUSE_PEER_TERMINATE] = MPA2_COUNT_NONE,
	[MPA2_CAUSE_ULP_PD_TOO_LONG] = MPA2_COUNT_rejects_for_private_data,
	[MPA2_CAUSE_NOT_TAKEN] = MPA2_COUNT_rejects_for_resources,
};

/* The step that a timer was for. */
static enum mpa2_counter timeout_counter(const struct mpa2_info *before)
{
	switch (before->state) {
	case MPA2_ST_TCP:
		return MPA2_COUNT_timeouts_connect;
	case MPA2_ST_W_HDR:
	case MPA2_ST_W_PD:
		return before->role == MPA2_INITIATOR ? MPA2_COUNT_timeouts_reply :
							MPA2_COUNT_timeouts_request;
	case MPA2_ST_W_FPDU:
		return MPA2_COUNT_timeouts_rtr;
	default:
		return MPA2_COUNT_timeouts_close;
	}
}

static void count_cause(struct mpa2_endpoint *ep, u8 cause)
{
	if (cause == MPA2_CAUSE_MARKERS)
		count(ep, ep->role == MPA2_INITIATOR ? MPA2_COUNT_refused_markers :
						       MPA2_COUNT_rejects_for_markers);
	else
		count(ep, cause_counter[cause]);
}

static void observe_frame(struct mpa2_endpoint *ep, const struct mpa2_wire *wire,
			  const u8 *octets, bool sent)
{
	const u8 *pd = octets + wire->frame.ulp_offset;

	count(ep, frame_counter(wire, sent));
	if (sent)
		trace_frame_out(ep, wire, pd, wire->frame.ulp_length);
	else
		trace_frame_in(ep, wire, pd, wire->frame.ulp_length);
}

/* Octets that have left, or a frame or first FPDU that has come in. */
static void observe_octets(struct mpa2_endpoint *ep, const u8 *octets, u32 len,
			   bool sent)
{
	struct mpa2_wire wire;

	mpa2_wire_describe(octets, len, &wire);
	switch (wire.kind) {
	case MPA2_WIRE_REQUEST:
	case MPA2_WIRE_REPLY:
		observe_frame(ep, &wire, octets, sent);
		break;
	case MPA2_WIRE_RTR:
		count(ep, rtr_counter(wire.rtr, sent));
		trace_rtr(ep, sent, wire.rtr);
		break;
	case MPA2_WIRE_TERMINATE:
		count(ep, terminate_counter(&wire, sent));
		trace_terminate(ep, sent, &wire);
		break;
	default:
		if (!sent)
			count(ep, MPA2_COUNT_first_fpdu_no_rtr);
	}
}

/**
 * mpa2_ep_observe_sent() - octets were taken whole by TCP
 * @ep: the endpoint
 * @octets: a startup frame or an FPDU of ours
 * @len: how many
 *
 * Context: ep->lock held.
 */
void mpa2_ep_observe_sent(struct mpa2_endpoint *ep, const u8 *octets, u32 len)
{
	lockdep_assert_held(&ep->lock);
	observe_octets(ep, octets, len, true);
}

/**
 * mpa2_ep_observe() - the machine was fed
 * @ep: the endpoint
 * @before: what was known before
 * @event: what it was fed
 *
 * Context: ep->lock held.
 */
void mpa2_ep_observe(struct mpa2_endpoint *ep, const struct mpa2_info *before,
		     const struct mpa2_event *event)
{
	const struct mpa2_info after = mpa2_ep_info(ep);

	if (event->type == MPA2_EV_OCTETS && after.peer_frame_len &&
	    !before->peer_frame_len)
		observe_octets(ep, after.peer_frame, after.peer_frame_len, false);
	if (after.first_fpdu_seen && !before->first_fpdu_seen)
		observe_octets(ep, event->octets, event->octets_len, false);
	if (event->type == MPA2_EV_TIMER)
		count(ep, timeout_counter(before));
	if (after.cause != before->cause)
		count_cause(ep, after.cause);
	if (after.state != before->state)
		trace_state(ep, before->state, after.state);
}

static u32 us_since(ktime_t then)
{
	return clamp_t(s64, ktime_us_delta(ktime_get(), then), 0, U32_MAX);
}

/**
 * mpa2_ep_observe_fence() - the fence was opened
 * @ep: a responder's endpoint
 * @rtr: enum mpa2_rtr that was taken
 *
 * Context: ep->lock held.
 */
void mpa2_ep_observe_fence(struct mpa2_endpoint *ep, u8 rtr)
{
	lockdep_assert_held(&ep->lock);
	trace_fence_open(ep, rtr, us_since(ep->fenced_at));
}

/* The part of a role's sum that a cause belongs to. */
static const enum mpa2_counter outcome_of[MPA2_CAUSE_NR] = {
	[MPA2_CAUSE_NONE] = MPA2_COUNT_failed_local_initiator,
	[MPA2_CAUSE_BAD_KEY] = MPA2_COUNT_failed_malformed_initiator,
	[MPA2_CAUSE_BAD_REV] = MPA2_COUNT_failed_malformed_initiator,
	[MPA2_CAUSE_PD_TOO_LONG] = MPA2_COUNT_failed_malformed_initiator,
	[MPA2_CAUSE_ENHANCED_TOO_SHORT] = MPA2_COUNT_failed_malformed_initiator,
	[MPA2_CAUSE_ENHANCED_OFF] = MPA2_COUNT_failed_refused_initiator,
	[MPA2_CAUSE_TRAILING_OCTETS] = MPA2_COUNT_failed_malformed_initiator,
	[MPA2_CAUSE_NOT_ENHANCED] = MPA2_COUNT_failed_malformed_initiator,
	[MPA2_CAUSE_MARKERS] = MPA2_COUNT_failed_refused_initiator,
	[MPA2_CAUSE_REJECTED] = MPA2_COUNT_rejected_initiator,
	[MPA2_CAUSE_INSUFFICIENT_IRD] = MPA2_COUNT_failed_negotiation_initiator,
	[MPA2_CAUSE_NO_MATCHING_RTR] = MPA2_COUNT_failed_negotiation_initiator,
	[MPA2_CAUSE_LOCAL] = MPA2_COUNT_failed_local_initiator,
	[MPA2_CAUSE_CONNECT_FAILED] = MPA2_COUNT_failed_connect_initiator,
	[MPA2_CAUSE_PEER_CLOSED] = MPA2_COUNT_failed_closed_initiator,
	[MPA2_CAUSE_PEER_RESET] = MPA2_COUNT_failed_reset_initiator,
	[MPA2_CAUSE_TIMEOUT] = MPA2_COUNT_failed_timeout_initiator,
	[MPA2_CAUSE_ABORTED] = MPA2_COUNT_failed_aborted_initiator,
	[MPA2_CAUSE_SEND_FAILED] = MPA2_COUNT_failed_local_initiator,
	[MPA2_CAUSE_ULP_REJECT] = MPA2_COUNT_rejected_initiator,
	[MPA2_CAUSE_REQUIRED_ORD] = MPA2_COUNT_rejected_initiator,
	[MPA2_CAUSE_BAD_CRC] = MPA2_COUNT_failed_malformed_initiator,
	[MPA2_CAUSE_BAD_FPDU_LENGTH] = MPA2_COUNT_failed_malformed_initiator,
	[MPA2_CAUSE_BAD_HEADER] = MPA2_COUNT_failed_malformed_initiator,
	[MPA2_CAUSE_PEER_TERMINATE] = MPA2_COUNT_failed_terminated_initiator,
	[MPA2_CAUSE_ULP_PD_TOO_LONG] = MPA2_COUNT_rejected_initiator,
	[MPA2_CAUSE_NOT_TAKEN] = MPA2_COUNT_rejected_initiator,
};

/* The two roles of one count are neighbours. */
static void count_by_role(struct mpa2_endpoint *ep, enum mpa2_counter initiator)
{
	unsigned int role = ep->role;

	count(ep, initiator + role);
}

static void count_outcome(struct mpa2_endpoint *ep, int status, u8 cause)
{
	enum mpa2_counter outcome = status ? outcome_of[cause] :
					     MPA2_COUNT_established_initiator;

	/* A responder says no to Markers by a reject. */
	if (status && cause == MPA2_CAUSE_MARKERS && ep->role == MPA2_RESPONDER)
		outcome = MPA2_COUNT_rejected_initiator;
	count_by_role(ep, outcome);
}

/**
 * mpa2_ep_observe_start() - a handshake begins
 * @ep: the endpoint
 *
 * Context: ep->lock held.
 */
void mpa2_ep_observe_start(struct mpa2_endpoint *ep)
{
	lockdep_assert_held(&ep->lock);
	count_by_role(ep, MPA2_COUNT_started_initiator);
	atomic_inc(&ep->dev->nr_undecided[ep->role]);
}

/**
 * mpa2_ep_observe_result() - how the handshake ended, once
 * @ep: the endpoint
 * @status: 0 or -errno
 *
 * Context: ep->lock held.
 */
void mpa2_ep_observe_result(struct mpa2_endpoint *ep, int status)
{
	struct mpa2_info info = mpa2_ep_info(ep);

	if (ep->result_seen)
		return;
	ep->result_seen = true;
	count_outcome(ep, status, info.cause);
	atomic_dec(&ep->dev->nr_undecided[ep->role]);
	trace_result(ep, status, status ? mpa2_cause_text(info.cause) : "up",
		     us_since(ep->begun_at));
}
