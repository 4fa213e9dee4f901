// SPDX-License-Identifier: GPL-2.0
/* The responder's machine (requirements 4.2). */
#include "conn.h"
#include "negotiate.h"

namespace mpa2
{
namespace
{

void OnConnected(Conn &conn, const mpa2_event &, Actions &actions)
{
	conn.state = State::kWaitHeader;
	actions.Add(MPA2_ACT_ARM_TIMER, MPA2_TIMER_REQUEST);
}

/* Before CONNECT_REQUEST the ULP knows nothing and is told nothing (MPA-03). */
template <mpa2_cause cause>
void OnEarlyEnd(Conn &conn, const mpa2_event &, Actions &actions)
{
	CloseSilently(conn, cause, actions);
}

/* C in force if either frame says so; our Reply repeats the peer's wish. */
uint8_t ReplyCrc(const Conn &conn)
{
	return conn.policy.crc || conn.peer_crc;
}

[[nodiscard]] bool BuildReply(Conn &conn, bool reject, const void *ulp_pd, size_t ulp_len)
{
	mpa2_frame frame{};

	frame.key = MPA2_KEY_REPLY;
	frame.rev = conn.rev; /* AMB-07 */
	frame.crc = ReplyCrc(conn);
	frame.reject = reject;
	frame.enhanced = conn.enhanced; /* ENH-08, ENH-09, AMB-05 */
	frame.data = conn.reply;
	conn.tx_len = static_cast<uint16_t>(
		mpa2_frame_build(&frame, ulp_pd, ulp_len, conn.tx, sizeof(conn.tx)));
	return conn.tx_len != 0;
}

void SendReject(Conn &conn, const void *ulp_pd, size_t ulp_len, Actions &actions)
{
	/* Data that does not fit is worth less than the reject. */
	if (!BuildReply(conn, true, ulp_pd, ulp_len) &&
	    !BuildReply(conn, true, nullptr, 0)) {
		CloseSilently(conn, MPA2_CAUSE_LOCAL, actions);
		return;
	}
	conn.state = State::kRejected;
	actions.Send(conn);
}

/* Without the ULP's values: what would be granted to this Request (AMB-05). */
void NegotiateForReject(Conn &conn)
{
	mpa2_reply_result result;

	if (!conn.enhanced)
		return;
	mpa2_negotiate_reply(&conn.request, &conn.policy, 0, conn.policy.cap_ord,
			     &result);
	conn.reply = result.reply;
}

void TakeRequest(Conn &conn, const mpa2_frame &frame, Actions &actions)
{
	conn.rev = frame.rev;
	conn.enhanced = frame.enhanced;
	conn.peer_crc = frame.crc;
	conn.crc = ReplyCrc(conn);
	conn.peer_data = frame.has_data;
	conn.request = frame.data;
	if (!conn.request.peer_to_peer)
		conn.request.rtr = 0; /* RTR-05 */
	conn.peer_to_peer = conn.request.peer_to_peer;
	if (frame.markers) {
		/* siw cannot insert them (exception to MPA-17, MPA-18). */
		NoteCause(conn, MPA2_CAUSE_MARKERS);
		NegotiateForReject(conn);
		SendReject(conn, nullptr, 0, actions);
		return;
	}
	conn.state = State::kUlp;
	actions.Add(MPA2_ACT_CONNECT_REQUEST);
}

/* F9 is known from the header, before the private data is in. */
bool EnhancedIsOff(const Conn &conn, const mpa2_frame &frame)
{
	return conn.rx_len >= MPA2_HDR_LEN && frame.enhanced &&
	       !conn.policy.accept_enhanced;
}

void OnOctets(Conn &conn, const mpa2_event &event, Actions &actions)
{
	mpa2_frame frame;
	uint8_t cause = MPA2_CAUSE_NONE;
	const mpa2_status status =
		TakeOctets(conn, event, MPA2_KEY_REQUEST, &frame, &cause);

	if (status == MPA2_ERROR) {
		CloseSilently(conn, static_cast<mpa2_cause>(cause), actions);
		return;
	}
	if (EnhancedIsOff(conn, frame)) {
		/* By RST, so that a peer falls back to Rev 1 (contract R8). */
		NoteCause(conn, MPA2_CAUSE_ENHANCED_OFF);
		conn.state = State::kClosed;
		actions.Add(MPA2_ACT_STOP_TIMER);
		actions.Add(MPA2_ACT_RESET);
		return;
	}
	if (status == MPA2_NEED_MORE)
		return;
	if (event.more_queued) {
		CloseSilently(conn, MPA2_CAUSE_TRAILING_OCTETS, actions); /* AMB-19 */
		return;
	}
	actions.Add(MPA2_ACT_STOP_TIMER);
	TakeRequest(conn, frame, actions);
}

/* While the ULP decides an end is only remembered. */
template <mpa2_cause cause>
void OnEndWhileDeciding(Conn &conn, const mpa2_event &, Actions &)
{
	NoteCause(conn, cause);
	conn.peer_gone = 1;
}

void OnAccept(Conn &conn, const mpa2_event &event, Actions &actions)
{
	mpa2_reply_result result;

	if (conn.peer_gone) {
		CloseAndFail(conn, MPA2_CAUSE_PEER_CLOSED, MPA2_FAIL_RESET, actions);
		return;
	}
	if (conn.enhanced) {
		mpa2_negotiate_reply(&conn.request, &conn.policy, event.ulp_ird,
				     event.ulp_ord, &result);
		conn.reply = result.reply;
		conn.local_ird = result.local_ird;
		conn.local_ord = result.local_ord;
		if (result.reject) {
			NoteCause(conn, MPA2_CAUSE_REQUIRED_ORD);
			SendReject(conn, nullptr, 0, actions);
			actions.Fail(MPA2_FAIL_PROTOCOL);
			return;
		}
	} else {
		conn.local_ird = ClampDepth(event.ulp_ird, conn.policy.cap_ird);
		conn.local_ord = LocalOrd(conn.policy,
					  ClampDepth(event.ulp_ord, conn.policy.cap_ord));
	}
	if (!BuildReply(conn, false, event.ulp_pd, event.ulp_pd_len)) {
		NoteCause(conn, MPA2_CAUSE_PD_TOO_LONG);
		SendReject(conn, nullptr, 0, actions);
		actions.Fail(MPA2_FAIL_LOCAL);
		return;
	}
	conn.state = State::kBind;
	actions.Add(MPA2_ACT_BIND);
}

void OnReject(Conn &conn, const mpa2_event &event, Actions &actions)
{
	if (conn.peer_gone) {
		CloseSilently(conn, MPA2_CAUSE_PEER_CLOSED, actions);
		return;
	}
	NoteCause(conn, event.cause ? static_cast<mpa2_cause>(event.cause) :
				      MPA2_CAUSE_ULP_REJECT);
	NegotiateForReject(conn);
	SendReject(conn, event.ulp_pd, event.ulp_pd_len, actions);
}

void OnBound(Conn &conn, const mpa2_event &, Actions &actions)
{
	actions.Send(conn);
}

void OnBindFailed(Conn &conn, const mpa2_event &, Actions &actions)
{
	NoteCause(conn, MPA2_CAUSE_LOCAL);
	SendReject(conn, nullptr, 0, actions); /* AMB-03 */
	actions.Fail(MPA2_FAIL_LOCAL);
}

void OnReplySent(Conn &conn, const mpa2_event &, Actions &actions)
{
	conn.state = State::kWaitFpdu;
	if (conn.peer_to_peer) {
		actions.Add(MPA2_ACT_ARM_TIMER, MPA2_TIMER_RTR);
		return;
	}
	conn.told = 1; /* AMB-24 */
	actions.Add(MPA2_ACT_ESTABLISHED);
}

template <mpa2_cause cause, mpa2_failure failure>
void OnFailure(Conn &conn, const mpa2_event &, Actions &actions)
{
	CloseAndFail(conn, cause, failure, actions);
}

void Establish(Conn &conn, Actions &actions)
{
	conn.state = State::kEstablished;
	actions.Add(MPA2_ACT_OPEN_FENCE, conn.rtr);
	if (!conn.told)
		actions.Add(MPA2_ACT_ESTABLISHED);
	conn.told = 1;
}

/*
 * Which RTR is taken from the stream: the kinds of a p2p connection, as far as
 * siw would not do the right thing with them itself.  The rest stays for siw.
 */
uint8_t KindToTake(const Conn &conn, const mpa2_fpdu &fpdu)
{
	if (!conn.peer_to_peer || fpdu.kind != MPA2_FPDU_RTR)
		return MPA2_RTR_NONE;
	switch (fpdu.rtr) {
	case MPA2_RTR_SEND: /* AMB-02: ours only if we have flagged it */
		return conn.reply.rtr & MPA2_RTR_SEND;
	case MPA2_RTR_READ: /* AMB-18: answered if a slot exists */
		return conn.local_ird ? MPA2_RTR_READ : MPA2_RTR_NONE;
	default:
		return fpdu.rtr;
	}
}

void TakeBadHeader(Conn &conn, const mpa2_event &event, const mpa2_fpdu &fpdu,
		   Actions &actions)
{
	conn.tx_len = static_cast<uint16_t>(mpa2_terminate_build_with_header(
		fpdu.term_layer, fpdu.term_etype, fpdu.term_code,
		event.octets + MPA2_FPDU_LEN_OCTETS, fpdu.term_header_len,
		fpdu.ulpdu_length, conn.crc, false, conn.tx, sizeof(conn.tx)));
	SendAndFail(conn, MPA2_CAUSE_BAD_HEADER, MPA2_FAIL_PROTOCOL, actions);
}

/* A bare FPDU counts as a Send RTR only where we have flagged B (AMB-01). */
void TakeEmpty(Conn &conn, const mpa2_event &event, const mpa2_fpdu &fpdu, uint32_t size,
	       Actions &actions)
{
	if (!conn.peer_to_peer || !(conn.reply.rtr & MPA2_RTR_SEND)) {
		TakeBadHeader(conn, event, fpdu, actions);
		return;
	}
	/* It used no MSN, so none is accounted for. */
	actions.Add(MPA2_ACT_CONSUME, size);
	Establish(conn, actions);
}

void TakeFpdu(Conn &conn, const mpa2_fpdu &fpdu, uint32_t size, Actions &actions)
{
	conn.rtr = KindToTake(conn, fpdu);
	if (conn.rtr != MPA2_RTR_NONE)
		actions.Add(MPA2_ACT_CONSUME, size);
	if (conn.rtr != MPA2_RTR_READ) {
		Establish(conn, actions);
		return;
	}
	conn.tx_len = static_cast<uint16_t>(mpa2_read_response_build(
		fpdu.sink_stag, fpdu.sink_to, conn.crc, false, conn.tx, sizeof(conn.tx)));
	conn.state = State::kRtr;
	actions.Send(conn);
}

void OnFpdu(Conn &conn, const mpa2_event &event, Actions &actions)
{
	mpa2_fpdu fpdu;
	uint32_t size = 0;
	uint8_t cause = MPA2_CAUSE_NONE;
	const mpa2_status status = mpa2_fpdu_parse(event.octets, event.octets_len,
						   conn.crc, &fpdu, &size, &cause);

	if (status == MPA2_NEED_MORE) {
		conn.fpdu_wanted = size;
		return;
	}
	if (status == MPA2_ERROR && cause != MPA2_CAUSE_BAD_HEADER) {
		/* No valid FPDU was seen, so none may be sent (MPA-14). */
		CloseAndFail(conn, static_cast<mpa2_cause>(cause), MPA2_FAIL_PROTOCOL,
			     actions);
		return;
	}
	conn.first_fpdu = fpdu.kind;
	conn.first_fpdu_seen = 1;
	if (fpdu.kind == MPA2_FPDU_TERMINATE) {
		CloseAndFail(conn, MPA2_CAUSE_PEER_TERMINATE, MPA2_FAIL_RESET, actions);
		return;
	}
	actions.Add(MPA2_ACT_STOP_TIMER);
	if (status == MPA2_ERROR)
		TakeBadHeader(conn, event, fpdu, actions);
	else if (fpdu.kind == MPA2_FPDU_EMPTY)
		TakeEmpty(conn, event, fpdu, size, actions);
	else
		TakeFpdu(conn, fpdu, size, actions);
}

void OnAnswerSent(Conn &conn, const mpa2_event &, Actions &actions)
{
	Establish(conn, actions);
}

constexpr auto OnPeerClosed = OnFailure<MPA2_CAUSE_PEER_CLOSED, MPA2_FAIL_RESET>;
constexpr auto OnPeerReset = OnFailure<MPA2_CAUSE_PEER_RESET, MPA2_FAIL_RESET>;
constexpr auto OnSendFailed = OnFailure<MPA2_CAUSE_SEND_FAILED, MPA2_FAIL_RESET>;
constexpr auto OnRtrTimeout = OnFailure<MPA2_CAUSE_TIMEOUT, MPA2_FAIL_TIMEOUT>;
constexpr auto OnAbort = OnFailure<MPA2_CAUSE_ABORTED, MPA2_FAIL_ABORTED>;
constexpr auto OnNoMemory = OnFailure<MPA2_CAUSE_LOCAL, MPA2_FAIL_LOCAL>;

constexpr Transition kTable[] = {
	{ State::kIdle, MPA2_EV_CONNECTED, OnConnected },

	{ State::kWaitHeader, MPA2_EV_OCTETS, OnOctets },
	{ State::kWaitHeader, MPA2_EV_EOF, OnEarlyEnd<MPA2_CAUSE_PEER_CLOSED> },
	{ State::kWaitHeader, MPA2_EV_RESET, OnEarlyEnd<MPA2_CAUSE_PEER_RESET> },
	{ State::kWaitHeader, MPA2_EV_TIMER, OnEarlyEnd<MPA2_CAUSE_TIMEOUT> },
	{ State::kWaitHeader, MPA2_EV_ABORT, OnEarlyEnd<MPA2_CAUSE_ABORTED> },

	{ State::kWaitData, MPA2_EV_OCTETS, OnOctets },
	{ State::kWaitData, MPA2_EV_EOF, OnEarlyEnd<MPA2_CAUSE_PEER_CLOSED> },
	{ State::kWaitData, MPA2_EV_RESET, OnEarlyEnd<MPA2_CAUSE_PEER_RESET> },
	{ State::kWaitData, MPA2_EV_TIMER, OnEarlyEnd<MPA2_CAUSE_TIMEOUT> },
	{ State::kWaitData, MPA2_EV_ABORT, OnEarlyEnd<MPA2_CAUSE_ABORTED> },

	{ State::kUlp, MPA2_EV_ACCEPT, OnAccept },
	{ State::kUlp, MPA2_EV_REJECT, OnReject },
	{ State::kUlp, MPA2_EV_EOF, OnEndWhileDeciding<MPA2_CAUSE_PEER_CLOSED> },
	{ State::kUlp, MPA2_EV_RESET, OnEndWhileDeciding<MPA2_CAUSE_PEER_RESET> },
	{ State::kUlp, MPA2_EV_ABORT, OnEarlyEnd<MPA2_CAUSE_ABORTED> },

	{ State::kBind, MPA2_EV_BOUND, OnBound },
	{ State::kBind, MPA2_EV_LOCAL_FAILURE, OnBindFailed },
	{ State::kBind, MPA2_EV_SENT, OnReplySent },
	{ State::kBind, MPA2_EV_SEND_FAILED, OnSendFailed },
	{ State::kBind, MPA2_EV_ABORT, OnAbort },

	{ State::kWaitFpdu, MPA2_EV_FPDU, OnFpdu },
	{ State::kWaitFpdu, MPA2_EV_EOF, OnPeerClosed },
	{ State::kWaitFpdu, MPA2_EV_RESET, OnPeerReset },
	{ State::kWaitFpdu, MPA2_EV_TIMER, OnRtrTimeout },
	{ State::kWaitFpdu, MPA2_EV_ABORT, OnAbort },
	{ State::kWaitFpdu, MPA2_EV_LOCAL_FAILURE, OnNoMemory },

	{ State::kRtr, MPA2_EV_SENT, OnAnswerSent },
	{ State::kRtr, MPA2_EV_SEND_FAILED, OnSendFailed },
	{ State::kRtr, MPA2_EV_ABORT, OnAbort },

	{ State::kRejected, MPA2_EV_SENT, OnRejectSent },
	{ State::kRejected, MPA2_EV_SEND_FAILED, OnLingerOver },
	{ State::kRejected, MPA2_EV_EOF, OnLingerOver },
	{ State::kRejected, MPA2_EV_RESET, OnLingerOver },
	{ State::kRejected, MPA2_EV_TIMER, OnLingerOver },
	{ State::kRejected, MPA2_EV_ABORT, OnLingerOver },

	{ State::kTerminated, MPA2_EV_SENT, OnTerminateSent },
	{ State::kTerminated, MPA2_EV_SEND_FAILED, OnTerminateOver },
	{ State::kTerminated, MPA2_EV_EOF, OnTerminateOver },
	{ State::kTerminated, MPA2_EV_RESET, OnTerminateOver },
	{ State::kTerminated, MPA2_EV_TIMER, OnTerminateOver },
	{ State::kTerminated, MPA2_EV_ABORT, OnTerminateOver },
};

} // namespace

Table ResponderTable()
{
	return { kTable, sizeof(kTable) / sizeof(kTable[0]) };
}

} // namespace mpa2
