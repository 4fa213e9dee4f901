// SPDX-License-Identifier: GPL-2.0
/* The initiator's machine (requirements 4.1). */
#include "conn.h"
#include "negotiate.h"

namespace mpa2
{
namespace
{

bool WantsEnhanced(const Conn &conn)
{
	return conn.policy.rev >= MPA2_REV_2 && !conn.retried;
}

/* What our Request's enhanced data says (NEG-01, RTR-01..04). */
mpa2_enhanced Offer(const Conn &conn)
{
	mpa2_enhanced offer{};

	offer.peer_to_peer = !!conn.policy.peer_to_peer;
	if (offer.peer_to_peer)
		offer.rtr = mpa2_policy_rtr_set(&conn.policy);
	offer.ird = conn.policy.no_negotiate_ird ?
			    uint16_t{ MPA2_DEPTH_NONE } :
			    ClampDepth(conn.ulp_ird, MPA2_DEPTH_MAX);
	offer.ord = conn.policy.no_negotiate_ord ?
			    uint16_t{ MPA2_DEPTH_NONE } :
			    ClampDepth(conn.ulp_ord, MPA2_DEPTH_MAX);
	return offer;
}

/* The ULP's data may already lie in tx, from the Request that failed. */
[[nodiscard]] bool BuildRequest(Conn &conn, const void *ulp_pd, size_t ulp_len)
{
	mpa2_frame frame{};

	conn.enhanced = WantsEnhanced(conn);
	conn.rev = conn.enhanced ? MPA2_REV_2 : MPA2_REV_1;
	conn.request = conn.enhanced ? Offer(conn) : mpa2_enhanced{};
	conn.peer_to_peer = conn.request.peer_to_peer;
	frame.key = MPA2_KEY_REQUEST;
	frame.rev = conn.rev;
	frame.crc = !!conn.policy.crc;
	frame.enhanced = conn.enhanced;
	frame.data = conn.request;
	conn.tx_len = static_cast<uint16_t>(
		mpa2_frame_build(&frame, ulp_pd, ulp_len, conn.tx, sizeof(conn.tx)));
	return conn.tx_len != 0;
}

void OpenTcp(Conn &conn, Actions &actions)
{
	conn.state = State::kTcp;
	actions.Add(MPA2_ACT_CONNECT);
	actions.Add(MPA2_ACT_ARM_TIMER, MPA2_TIMER_CONNECT);
}

void OnStart(Conn &conn, const mpa2_event &event, Actions &actions)
{
	conn.ulp_ird = event.ulp_ird;
	conn.ulp_ord = event.ulp_ord;
	conn.local_ird = ClampDepth(event.ulp_ird, conn.policy.cap_ird);
	conn.local_ord = ClampDepth(event.ulp_ord, conn.policy.cap_ord);
	if (!BuildRequest(conn, event.ulp_pd, event.ulp_pd_len)) {
		NoteCause(conn, MPA2_CAUSE_PD_TOO_LONG);
		conn.state = State::kClosed;
		actions.Fail(MPA2_FAIL_LOCAL);
		return;
	}
	OpenTcp(conn, actions);
}

void OnConnected(Conn &conn, const mpa2_event &, Actions &actions)
{
	conn.state = State::kWaitHeader;
	conn.rx_len = 0;
	conn.frame_len = 0;
	conn.rx_total = MPA2_HDR_LEN;
	actions.Send(conn);
	actions.Add(MPA2_ACT_ARM_TIMER, MPA2_TIMER_REPLY);
}

void OnConnectFailed(Conn &conn, const mpa2_event &, Actions &actions)
{
	CloseAndFail(conn, MPA2_CAUSE_CONNECT_FAILED, MPA2_FAIL_RESET, actions);
}

void OnTimeout(Conn &conn, const mpa2_event &, Actions &actions)
{
	NoteCause(conn, MPA2_CAUSE_TIMEOUT);
	conn.state = State::kClosed;
	actions.Add(MPA2_ACT_RESET);
	actions.Fail(MPA2_FAIL_TIMEOUT);
}

void OnAbort(Conn &conn, const mpa2_event &, Actions &actions)
{
	CloseAndFail(conn, MPA2_CAUSE_ABORTED, MPA2_FAIL_ABORTED, actions);
}

/*
 * A close with no octet of a reply may come from a peer that knows no enhanced
 * set-up: once, and where the application permits it, Rev 1 (ENH-12).
 */
bool MayFallBack(const Conn &conn)
{
	return conn.policy.fallback && conn.enhanced && conn.rx_len == 0;
}

void FallBack(Conn &conn, Actions &actions)
{
	constexpr size_t kUlpStart = MPA2_HDR_LEN + MPA2_ENHANCED_LEN;

	conn.retried = 1;
	if (!BuildRequest(conn, conn.tx + kUlpStart, conn.tx_len - kUlpStart)) {
		CloseAndFail(conn, MPA2_CAUSE_LOCAL, MPA2_FAIL_LOCAL, actions);
		return;
	}
	OpenTcp(conn, actions);
}

void OnLoss(Conn &conn, mpa2_cause cause, Actions &actions)
{
	if (MayFallBack(conn))
		FallBack(conn, actions);
	else
		CloseAndFail(conn, cause, MPA2_FAIL_RESET, actions);
}

void OnEof(Conn &conn, const mpa2_event &, Actions &actions)
{
	OnLoss(conn, MPA2_CAUSE_PEER_CLOSED, actions);
}

void OnReset(Conn &conn, const mpa2_event &, Actions &actions)
{
	OnLoss(conn, MPA2_CAUSE_PEER_RESET, actions);
}

void OnSendFailed(Conn &conn, const mpa2_event &, Actions &actions)
{
	OnLoss(conn, MPA2_CAUSE_SEND_FAILED, actions);
}

void Bind(Conn &conn, Actions &actions)
{
	conn.state = State::kCheck;
	actions.Add(MPA2_ACT_BIND);
}

void TakeReject(Conn &conn, Actions &actions)
{
	NoteCause(conn, MPA2_CAUSE_REJECTED);
	conn.peer_reject = 1;
	conn.state = State::kRejected;
	actions.Add(MPA2_ACT_REJECTED);
	LingerForPeer(actions);
}

void TakeEnhancedAccept(Conn &conn, Actions &actions)
{
	mpa2_check_result check;

	mpa2_negotiate_check(&conn.request, &conn.reply, &conn.policy, conn.ulp_ird,
			     conn.ulp_ord, &check);
	conn.local_ird = check.local_ird;
	conn.local_ord = check.local_ord;
	if (check.terminate) {
		SendTerminate(conn, check.terminate, false,
			      check.terminate == MPA2_TERM_INSUFFICIENT_IRD ?
				      MPA2_CAUSE_INSUFFICIENT_IRD :
				      MPA2_CAUSE_NO_MATCHING_RTR,
			      MPA2_FAIL_PROTOCOL, actions);
		return;
	}
	conn.peer_to_peer = conn.reply.peer_to_peer;
	conn.rtr = check.rtr;
	if (conn.rtr == MPA2_RTR_NONE) {
		Bind(conn, actions);
		return;
	}
	conn.tx_len = static_cast<uint16_t>(
		mpa2_rtr_build(static_cast<mpa2_rtr>(conn.rtr), conn.crc, false, conn.tx,
			       sizeof(conn.tx)));
	conn.state = State::kRtr;
	actions.Send(conn);
}

void TakeAccept(Conn &conn, const mpa2_frame &frame, Actions &actions)
{
	if (conn.enhanced && !frame.enhanced) {
		CloseAndFail(conn, MPA2_CAUSE_NOT_ENHANCED, MPA2_FAIL_PROTOCOL,
			     actions); /* AMB-10 */
		return;
	}
	if (frame.markers) {
		/* siw cannot insert them (exception to MPA-17, MPA-18). */
		SendTerminate(conn, MPA2_TERM_LOCAL_CATASTROPHIC, true,
			      MPA2_CAUSE_MARKERS, MPA2_FAIL_LOCAL, actions);
		return;
	}
	if (conn.enhanced) {
		TakeEnhancedAccept(conn, actions);
		return;
	}
	conn.local_ord = LocalOrd(conn.policy, conn.local_ord);
	Bind(conn, actions);
}

void OnOctets(Conn &conn, const mpa2_event &event, Actions &actions)
{
	mpa2_frame frame;
	uint8_t cause = MPA2_CAUSE_NONE;

	switch (TakeOctets(conn, event, MPA2_KEY_REPLY, &frame, &cause)) {
	case MPA2_NEED_MORE:
		return;
	case MPA2_ERROR:
		CloseAndFail(conn, static_cast<mpa2_cause>(cause), MPA2_FAIL_PROTOCOL,
			     actions); /* AMB-11 */
		return;
	case MPA2_DONE:
		break;
	}
	actions.Add(MPA2_ACT_STOP_TIMER);
	conn.crc = conn.policy.crc || frame.crc;
	conn.peer_data = frame.has_data;
	conn.reply = frame.data;
	if (frame.reject)
		TakeReject(conn, actions);
	else
		TakeAccept(conn, frame, actions);
}

void OnRtrSent(Conn &conn, const mpa2_event &, Actions &actions)
{
	Bind(conn, actions);
}

void OnRtrFailed(Conn &conn, const mpa2_event &, Actions &actions)
{
	CloseAndFail(conn, MPA2_CAUSE_SEND_FAILED, MPA2_FAIL_RESET, actions);
}

void OnBound(Conn &conn, const mpa2_event &, Actions &actions)
{
	conn.state = State::kEstablished;
	actions.Add(MPA2_ACT_ESTABLISHED);
}

void OnBindFailed(Conn &conn, const mpa2_event &, Actions &actions)
{
	/* TERM-02 speaks of enhanced set-up; Rev 1 has no such code. */
	if (conn.enhanced)
		SendTerminate(conn, MPA2_TERM_LOCAL_CATASTROPHIC, false, MPA2_CAUSE_LOCAL,
			      MPA2_FAIL_LOCAL, actions);
	else
		CloseAndFail(conn, MPA2_CAUSE_LOCAL, MPA2_FAIL_LOCAL, actions);
}

constexpr Transition kTable[] = {
	{ State::kIdle, MPA2_EV_START, OnStart },

	{ State::kTcp, MPA2_EV_CONNECTED, OnConnected },
	{ State::kTcp, MPA2_EV_CONNECT_FAILED, OnConnectFailed },
	{ State::kTcp, MPA2_EV_TIMER, OnTimeout },
	{ State::kTcp, MPA2_EV_ABORT, OnAbort },

	{ State::kWaitHeader, MPA2_EV_OCTETS, OnOctets },
	{ State::kWaitHeader, MPA2_EV_EOF, OnEof },
	{ State::kWaitHeader, MPA2_EV_RESET, OnReset },
	{ State::kWaitHeader, MPA2_EV_SEND_FAILED, OnSendFailed },
	{ State::kWaitHeader, MPA2_EV_TIMER, OnTimeout },
	{ State::kWaitHeader, MPA2_EV_ABORT, OnAbort },

	{ State::kWaitData, MPA2_EV_OCTETS, OnOctets },
	{ State::kWaitData, MPA2_EV_EOF, OnEof },
	{ State::kWaitData, MPA2_EV_RESET, OnReset },
	{ State::kWaitData, MPA2_EV_TIMER, OnTimeout },
	{ State::kWaitData, MPA2_EV_ABORT, OnAbort },

	{ State::kRtr, MPA2_EV_SENT, OnRtrSent },
	{ State::kRtr, MPA2_EV_SEND_FAILED, OnRtrFailed },
	{ State::kRtr, MPA2_EV_ABORT, OnAbort },

	{ State::kCheck, MPA2_EV_BOUND, OnBound },
	{ State::kCheck, MPA2_EV_LOCAL_FAILURE, OnBindFailed },
	{ State::kCheck, MPA2_EV_ABORT, OnAbort },

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

Table InitiatorTable()
{
	return { kTable, sizeof(kTable) / sizeof(kTable[0]) };
}

} // namespace mpa2
