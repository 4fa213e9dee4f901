// SPDX-License-Identifier: GPL-2.0
/* The C face of the two machines, and the steps that they share. */
#include "conn.h"

namespace mpa2
{
namespace
{

Table TableOf(uint8_t role)
{
	return role == MPA2_INITIATOR ? InitiatorTable() : ResponderTable();
}

Handler FindHandler(uint8_t role, State state, uint8_t event)
{
	const Table table = TableOf(role);

	for (size_t i = 0; i < table.count; i++)
		if (table.rows[i].state == state && table.rows[i].event == event)
			return table.rows[i].handler;
	return nullptr;
}

} // namespace

void NoteCause(Conn &conn, mpa2_cause cause)
{
	if (conn.cause == MPA2_CAUSE_NONE)
		conn.cause = static_cast<uint8_t>(cause);
}

mpa2_status TakeOctets(Conn &conn, const mpa2_event &event, mpa2_key key,
		       mpa2_frame *frame, uint8_t *cause)
{
	const size_t room = static_cast<size_t>(conn.rx_total - conn.rx_len);
	const size_t len = event.octets_len < room ? event.octets_len : room;
	uint32_t total = 0;

	if (len)
		__builtin_memcpy(conn.rx + conn.rx_len, event.octets, len);
	conn.rx_len = static_cast<uint16_t>(conn.rx_len + len);
	const mpa2_status status =
		mpa2_frame_parse(conn.rx, conn.rx_len, key, frame, &total, cause);
	if (status == MPA2_NEED_MORE) {
		conn.rx_total = static_cast<uint16_t>(total);
		if (conn.rx_len >= MPA2_HDR_LEN)
			conn.state = State::kWaitData;
	}
	if (status == MPA2_DONE) {
		conn.ulp_pd_offset = frame->ulp_offset;
		conn.ulp_pd_len = frame->ulp_length;
		conn.frame_len = static_cast<uint16_t>(total);
	}
	return status;
}

void CloseSilently(Conn &conn, mpa2_cause cause, Actions &actions)
{
	NoteCause(conn, cause);
	conn.state = State::kClosed;
	actions.Add(MPA2_ACT_STOP_TIMER);
	actions.Add(MPA2_ACT_CLOSE);
}

void CloseAndFail(Conn &conn, mpa2_cause cause, mpa2_failure failure, Actions &actions)
{
	CloseSilently(conn, cause, actions);
	actions.Fail(failure);
}

void LingerForPeer(Actions &actions)
{
	actions.Add(MPA2_ACT_SHUTDOWN);
	actions.Add(MPA2_ACT_ARM_TIMER, MPA2_TIMER_CLOSE);
}

void SendAndFail(Conn &conn, mpa2_cause cause, mpa2_failure failure, Actions &actions)
{
	NoteCause(conn, cause);
	conn.failure = static_cast<uint8_t>(failure);
	conn.failing = 1;
	conn.state = State::kTerminated;
	actions.Send(conn);
}

void SendTerminate(Conn &conn, uint8_t code, bool markers, mpa2_cause cause,
		   mpa2_failure failure, Actions &actions)
{
	conn.terminate = code;
	conn.tx_len = static_cast<uint16_t>(
		mpa2_terminate_build(MPA2_TERM_LAYER_MPA, 0, code, conn.crc, markers,
				     conn.tx, sizeof(conn.tx)));
	SendAndFail(conn, cause, failure, actions);
}

namespace
{

void ReportFailure(Conn &conn, Actions &actions)
{
	if (conn.failing)
		actions.Fail(static_cast<mpa2_failure>(conn.failure));
	conn.failing = 0;
}

} // namespace

void OnTerminateSent(Conn &conn, const mpa2_event &, Actions &actions)
{
	LingerForPeer(actions);
	ReportFailure(conn, actions);
}

/* It could not be sent, or nobody waits any more. */
void OnTerminateOver(Conn &conn, const mpa2_event &, Actions &actions)
{
	CloseSilently(conn, MPA2_CAUSE_NONE, actions);
	ReportFailure(conn, actions);
}

void OnRejectSent(Conn &, const mpa2_event &, Actions &actions)
{
	LingerForPeer(actions);
}

/* The peer's FIN or reset, T_fin, or an abort: nobody waits any more. */
void OnLingerOver(Conn &conn, const mpa2_event &, Actions &actions)
{
	CloseSilently(conn, MPA2_CAUSE_NONE, actions);
}

} // namespace mpa2

using mpa2::Conn;
using mpa2::ConnOf;
using mpa2::State;

extern "C" void mpa2_conn_init(mpa2_conn *opaque, mpa2_role role,
			       const mpa2_policy *policy)
{
	Conn &conn = ConnOf(opaque);

	__builtin_memset(opaque, 0, sizeof(*opaque));
	conn.policy = *policy;
	conn.role = static_cast<uint8_t>(role);
	conn.rx_total = MPA2_HDR_LEN;
	if (role == MPA2_RESPONDER) {
		/* What a Rev 1 initiator leaves open is the local limit. */
		conn.local_ird = policy->cap_ird;
		conn.local_ord = policy->cap_ord;
	}
}

extern "C" void mpa2_conn_set_policy(mpa2_conn *opaque, const mpa2_policy *policy)
{
	Conn &conn = ConnOf(opaque);

	if (conn.role != MPA2_RESPONDER || conn.state != State::kUlp)
		return;
	conn.policy = *policy;
	conn.crc = conn.policy.crc || conn.peer_crc;
}

/* Source: requirements 4.1, 4.2. */
extern "C" void mpa2_conn_event(mpa2_conn *opaque, const mpa2_event *event,
				mpa2_actions *out)
{
	Conn &conn = ConnOf(opaque);
	mpa2::Actions actions(out);

	if (const auto handler = mpa2::FindHandler(conn.role, conn.state, event->type))
		handler(conn, *event, actions);
}

extern "C" uint32_t mpa2_conn_wanted(const mpa2_conn *opaque)
{
	const Conn &conn = ConnOf(opaque);

	switch (conn.state) {
	case State::kWaitHeader:
	case State::kWaitData:
		return static_cast<uint32_t>(conn.rx_total - conn.rx_len);
	case State::kWaitFpdu:
		return conn.fpdu_wanted ? conn.fpdu_wanted : MPA2_FPDU_LEN_OCTETS;
	default:
		return 0;
	}
}

extern "C" void mpa2_conn_info(const mpa2_conn *opaque, mpa2_info *info)
{
	const Conn &conn = ConnOf(opaque);
	const mpa2_enhanced &peer =
		conn.role == MPA2_INITIATOR ? conn.reply : conn.request;

	*info = mpa2_info{};
	info->role = conn.role;
	info->state = static_cast<uint8_t>(conn.state);
	info->rev = conn.rev;
	info->enhanced = conn.enhanced;
	info->peer_to_peer = conn.peer_to_peer;
	info->rtr_offered = conn.request.rtr;
	info->rtr_replied = conn.reply.rtr;
	info->rtr = conn.rtr;
	info->crc = conn.crc;
	info->peer_reject = conn.peer_reject;
	info->peer_data = conn.peer_data;
	info->retried = conn.retried;
	info->first_fpdu = conn.first_fpdu;
	info->first_fpdu_seen = conn.first_fpdu_seen;
	info->terminate = conn.terminate;
	info->cause = conn.cause;
	info->local_ird = conn.local_ird;
	info->local_ord = conn.local_ord;
	info->peer_ird = peer.ird;
	info->peer_ord = peer.ord;
	info->ulp_pd = conn.rx + conn.ulp_pd_offset;
	info->ulp_pd_len = conn.ulp_pd_len;
	info->peer_frame = conn.rx;
	info->peer_frame_len = conn.frame_len;
}

extern "C" bool mpa2_transition_exists(mpa2_role role, mpa2_state state,
				       mpa2_event_type event)
{
	return mpa2::FindHandler(static_cast<uint8_t>(role), static_cast<State>(state),
				 static_cast<uint8_t>(event)) != nullptr;
}
