// SPDX-License-Identifier: GPL-2.0
/*
 * The machine of one DDP stream session over SCTP (requirements 2.6, 4.4).  Who
 * initiates is the active side.  Chunks are taken in the order of their DDP-SSN;
 * one that comes early is held, within limits, by the shell.
 */
#include <iw_mpa2/session.h>

#include "octets.h"

namespace mpa2
{
namespace
{

enum class Phase : uint8_t {
	kIdle = MPA2_SS_IDLE,
	kActiveWait = MPA2_SS_A_WAIT,
	kPassiveWait = MPA2_SS_P_WAIT,
	kOpen = MPA2_SS_OPEN,
	kEnd = MPA2_SS_END,
};

constexpr size_t kBits = 64;

struct Session {
	uint64_t held[MPA2_HOLD_CHUNKS / kBits]; /* slots in use, by DDP-SSN */
	uint32_t held_octets;
	uint16_t held_count;
	uint16_t tx_ssn;
	uint16_t rx_ssn;
	uint16_t unacked;
	Phase phase;
	uint8_t active;
	uint8_t enhanced;
	uint8_t told;          /* the local end waits for the session's end */
	uint8_t control_out;   /* a control chunk is neither acked nor answered */
	uint8_t terminated;    /* our Terminate was sent */
	uint8_t terminate_due; /* it waits for control_out (SCTP-20) */
	uint8_t peer_final;    /* the peer sends nothing more */
	uint8_t linger_over;   /* T_fin ran out */
	uint8_t early_segment; /* the next chunk waits for the ULP's decision */
	uint8_t lost;
	uint8_t fault;
	uint8_t ssn_octets[MPA2_SSN_OCTETS]; /* of the segment that goes out */
	uint8_t tx[MPA2_CONTROL_MAX];
};

static_assert(sizeof(Session) <= sizeof(mpa2_session), "raise MPA2_SESSION_WORDS");
static_assert(alignof(Session) <= alignof(mpa2_session));

Session &SessionOf(mpa2_session *session)
{
	return *reinterpret_cast<Session *>(session->words);
}

const Session &SessionOf(const mpa2_session *session)
{
	return *reinterpret_cast<const Session *>(session->words);
}

class Actions
{
public:
	explicit Actions(mpa2_session_actions *out) : out_(out) { out->count = 0; }

	void Add(mpa2_session_action_type type) { Add(type, 0); }

	void Add(mpa2_session_action_type type, uint32_t arg)
	{
		Put({ static_cast<uint8_t>(type), arg, nullptr, 0 });
	}

	void Add(mpa2_session_action_type type, const uint8_t *octets, size_t len)
	{
		Put({ static_cast<uint8_t>(type), 0, octets,
		      static_cast<uint32_t>(len) });
	}

private:
	void Put(const mpa2_session_action &action)
	{
		if (out_->count < MPA2_SESSION_ACTIONS_MAX)
			out_->list[out_->count++] = action;
	}

	mpa2_session_actions *out_;
};

/* ---- what is held ---- */

uint32_t SlotOf(uint16_t ssn)
{
	return ssn % MPA2_HOLD_CHUNKS;
}

bool IsHeld(const Session &session, uint16_t ssn)
{
	const uint32_t slot = SlotOf(ssn);

	return session.held[slot / kBits] >> (slot % kBits) & 1;
}

void Hold(Session &session, uint16_t ssn, uint32_t len, Actions &actions)
{
	const uint32_t slot = SlotOf(ssn);

	session.held[slot / kBits] |= uint64_t{ 1 } << (slot % kBits);
	session.held_octets += len;
	session.held_count++;
	actions.Add(MPA2_SACT_HOLD, slot);
}

void Unhold(Session &session, uint16_t ssn, uint32_t len)
{
	const uint32_t slot = SlotOf(ssn);

	session.held[slot / kBits] &= ~(uint64_t{ 1 } << (slot % kBits));
	session.held_octets -= len;
	session.held_count--;
}

void DropHeld(Session &session, Actions &actions)
{
	session.early_segment = 0;
	if (!session.held_count)
		return;
	__builtin_memset(session.held, 0, sizeof(session.held));
	session.held_octets = 0;
	session.held_count = 0;
	actions.Add(MPA2_SACT_DROP_HELD);
}

/* What comes now is of the stream's next session. */
bool AwaitsNext(const Session &session)
{
	return session.phase == Phase::kEnd && session.peer_final;
}

/* How far ahead a chunk may be: less, while nobody has agreed to anything. */
uint32_t HoldLimit(const Session &session)
{
	if (session.phase == Phase::kOpen || session.phase == Phase::kActiveWait)
		return MPA2_HOLD_CHUNKS;
	return AwaitsNext(session) || session.phase != Phase::kEnd ? MPA2_HOLD_EARLY :
								     MPA2_HOLD_CHUNKS;
}

bool HasRoom(const Session &session, const mpa2_session_event &event)
{
	return !event.no_room && session.held_count < HoldLimit(session) &&
	       event.octets_len <= MPA2_HOLD_OCTETS - session.held_octets;
}

/* ---- what goes out ---- */

void Count(Session &session)
{
	session.tx_ssn++;
	if (session.unacked < UINT16_MAX)
		session.unacked++;
}

/* False when the limits of the chunk forbid it. */
[[nodiscard]] bool SendControl(Session &session, mpa2_function code, const void *pd,
			       size_t pd_len, Actions &actions)
{
	const size_t len = mpa2_control_build(session.tx_ssn, code, pd, pd_len,
					      session.tx, sizeof(session.tx));

	if (!len)
		return false;
	actions.Add(MPA2_SACT_SEND, session.tx, len);
	session.control_out = 1;
	Count(session);
	return true;
}

/* SCTP-20: it waits for a control chunk that it could overtake. */
void SendTerminate(Session &session, Actions &actions)
{
	if (session.terminated || session.lost)
		return;
	session.terminate_due = session.control_out;
	if (session.terminate_due)
		return;
	session.terminated = SendControl(session, MPA2_FN_TERMINATE, nullptr, 0, actions);
}

mpa2_function Enhanced(const Session &session, mpa2_function code)
{
	return static_cast<mpa2_function>(
		code +
		(session.enhanced ? MPA2_FN_ENHANCED_INITIATE - MPA2_FN_INITIATE : 0));
}

/* ---- the end ---- */

/* SCTP-22: nothing of the old session can be on its way any more. */
void ReuseIfOver(Session &session, Actions &actions)
{
	if (session.phase != Phase::kEnd || session.lost || session.unacked ||
	    session.terminate_due || !(session.peer_final || session.linger_over))
		return;
	/* What is held belongs to the next session, if the peer ended this one. */
	if (!session.peer_final)
		DropHeld(session, actions);
	actions.Add(MPA2_SACT_STOP_TIMER);
	actions.Add(MPA2_SACT_REUSABLE);
	session.phase = Phase::kIdle;
	session.tx_ssn = 0;
	session.rx_ssn = 0;
	session.active = 0;
	session.enhanced = 0;
	session.control_out = 0;
	session.terminated = 0;
	session.peer_final = 0;
	session.linger_over = 0;
	session.fault = MPA2_CHUNK_GOOD;
}

void PeerIsFinal(Session &session, Actions &actions)
{
	if (session.peer_final)
		return;
	DropHeld(session, actions);
	session.peer_final = 1;
	session.rx_ssn = 0;
}

void Tell(Session &session, mpa2_session_end end, Actions &actions)
{
	if (session.told)
		actions.Add(MPA2_SACT_ENDED, static_cast<uint32_t>(end));
	session.told = 0;
}

void Enter(Session &session, mpa2_session_end end, Actions &actions)
{
	session.phase = Phase::kEnd;
	session.early_segment = 0;
	actions.Add(MPA2_SACT_ARM_TIMER, MPA2_TIMER_CLOSE);
	Tell(session, end, actions);
	ReuseIfOver(session, actions);
}

void End(Session &session, mpa2_session_end end, Actions &actions)
{
	SendTerminate(session, actions);
	Enter(session, end, actions);
}

/* SCTP-12; what comes once the session is over matters to nobody. */
void Illegal(Session &session, mpa2_chunk_fault fault, Actions &actions)
{
	if (session.phase == Phase::kEnd)
		return;
	session.fault = static_cast<uint8_t>(fault);
	DropHeld(session, actions);
	End(session, MPA2_END_ILLEGAL, actions);
}

/* ---- chunks whose turn it is ---- */

using Taker = void (*)(Session &session, const mpa2_chunk &chunk, Actions &actions);

void OnInitiate(Session &session, const mpa2_chunk &chunk, Actions &actions)
{
	session.enhanced = chunk.code == MPA2_FN_ENHANCED_INITIATE;
	session.phase = Phase::kPassiveWait;
	session.told = 1;
	actions.Add(MPA2_SACT_REQUEST, chunk.octets, chunk.octets_len);
}

void OnAccepted(Session &session, const mpa2_chunk &chunk, Actions &actions)
{
	session.phase = Phase::kOpen;
	session.control_out = 0;
	actions.Add(MPA2_SACT_STOP_TIMER);
	actions.Add(MPA2_SACT_ACCEPTED, chunk.octets, chunk.octets_len);
}

void OnRejected(Session &session, const mpa2_chunk &chunk, Actions &actions)
{
	session.control_out = 0;
	session.told = 0;
	PeerIsFinal(session, actions);
	actions.Add(MPA2_SACT_REJECTED, chunk.octets, chunk.octets_len);
	Enter(session, MPA2_END_PEER, actions);
}

/* SCTP-16, AMB-29: no answer of ours belongs to this sequence. */
void OnRefused(Session &session, const mpa2_chunk &, Actions &actions)
{
	session.control_out = 0;
	PeerIsFinal(session, actions);
	Enter(session, MPA2_END_REFUSED, actions);
}

void OnWithdrawn(Session &session, const mpa2_chunk &, Actions &actions)
{
	PeerIsFinal(session, actions);
	Enter(session, MPA2_END_PEER, actions);
}

void OnPeerEnd(Session &session, const mpa2_chunk &, Actions &actions)
{
	PeerIsFinal(session, actions);
	End(session, MPA2_END_PEER, actions);
}

void OnFinal(Session &session, const mpa2_chunk &, Actions &actions)
{
	session.control_out = 0;
	PeerIsFinal(session, actions);
	if (session.terminate_due)
		SendTerminate(session, actions);
	ReuseIfOver(session, actions);
}

/* The legal sequences Q1 to Q6; what has no row here fits none of them. */
struct Row {
	Phase phase;
	mpa2_function code;
	Taker taker;
};

constexpr Row kRows[] = {
	{ Phase::kIdle, MPA2_FN_INITIATE, OnInitiate },
	{ Phase::kIdle, MPA2_FN_ENHANCED_INITIATE, OnInitiate },
	{ Phase::kActiveWait, MPA2_FN_ACCEPT, OnAccepted },
	{ Phase::kActiveWait, MPA2_FN_ENHANCED_ACCEPT, OnAccepted },
	{ Phase::kActiveWait, MPA2_FN_REJECT, OnRejected },
	{ Phase::kActiveWait, MPA2_FN_ENHANCED_REJECT, OnRejected },
	{ Phase::kActiveWait, MPA2_FN_TERMINATE, OnRefused },
	{ Phase::kPassiveWait, MPA2_FN_TERMINATE, OnWithdrawn },
	{ Phase::kOpen, MPA2_FN_TERMINATE, OnPeerEnd },
	{ Phase::kEnd, MPA2_FN_TERMINATE, OnFinal },
	{ Phase::kEnd, MPA2_FN_REJECT, OnFinal },
	{ Phase::kEnd, MPA2_FN_ENHANCED_REJECT, OnFinal },
};

/* A reply is of the family of its Initiate. */
bool OfFamily(const Session &session, uint16_t code)
{
	return session.phase != Phase::kActiveWait || code == MPA2_FN_TERMINATE ||
	       (code > MPA2_FN_TERMINATE) == !!session.enhanced;
}

void TakeControl(Session &session, const mpa2_chunk &chunk, Actions &actions)
{
	if (OfFamily(session, chunk.code)) {
		for (const Row &row : kRows) {
			if (row.phase == session.phase && row.code == chunk.code) {
				row.taker(session, chunk, actions);
				return;
			}
		}
	}
	Illegal(session, MPA2_CHUNK_OUT_OF_PLACE, actions);
}

/* Whether a segment is an RDMAP Terminate, after which a session ends. */
bool IsTerminate(const uint8_t *segment, size_t len)
{
	constexpr uint8_t kTagged = 0x80;
	constexpr uint8_t kOpcodeMask = 0x0F;
	constexpr uint8_t kTerminate = 7;
	Reader in(segment, len);
	uint8_t ddp = 0, rdmap = 0;

	return in.Read(&ddp) && in.Read(&rdmap) && !(ddp & kTagged) &&
	       (rdmap & kOpcodeMask) == kTerminate;
}

void TakeSegment(Session &session, const mpa2_chunk &chunk, Actions &actions)
{
	if (session.phase != Phase::kOpen || chunk.ssn == 0) {
		Illegal(session, MPA2_CHUNK_OUT_OF_PLACE, actions);
		return;
	}
	actions.Add(MPA2_SACT_DELIVER, chunk.octets, chunk.octets_len);
	if (IsTerminate(chunk.octets, chunk.octets_len))
		End(session, MPA2_END_PEER, actions);
}

/* AMB-30: segments that come before the ULP has decided wait for it. */
bool MustWait(const Session &session, const mpa2_chunk &chunk)
{
	if (AwaitsNext(session))
		return true;
	return session.phase == Phase::kPassiveWait && !chunk.control;
}

void TakeInOrder(Session &session, const mpa2_chunk &chunk, Actions &actions)
{
	session.rx_ssn++;
	if (chunk.control)
		TakeControl(session, chunk, actions);
	else
		TakeSegment(session, chunk, actions);
}

void HoldIfRoom(Session &session, const mpa2_session_event &event,
		const mpa2_chunk &chunk, Actions &actions)
{
	if (!HasRoom(session, event)) {
		Illegal(session, MPA2_CHUNK_NO_ROOM, actions);
		return;
	}
	Hold(session, chunk.ssn, event.octets_len, actions);
}

void OnChunk(Session &session, const mpa2_session_event &event, Actions &actions)
{
	mpa2_chunk chunk;
	const mpa2_chunk_fault fault =
		mpa2_chunk_parse(event.ppid, event.octets, event.octets_len, &chunk);

	if (fault != MPA2_CHUNK_GOOD) {
		Illegal(session, fault, actions);
		return;
	}
	const auto ahead = static_cast<uint16_t>(chunk.ssn - session.rx_ssn);
	if (event.held && IsHeld(session, chunk.ssn))
		Unhold(session, chunk.ssn, event.octets_len);
	if (ahead >= HoldLimit(session) || IsHeld(session, chunk.ssn)) {
		Illegal(session, MPA2_CHUNK_BAD_SSN, actions);
		return;
	}
	if (ahead == 0 && !MustWait(session, chunk)) {
		TakeInOrder(session, chunk, actions);
		return;
	}
	if (ahead == 0 && session.phase == Phase::kPassiveWait)
		session.early_segment = 1;
	HoldIfRoom(session, event, chunk, actions);
}

/* ---- events of the local end ---- */

void OnLocalInitiate(Session &session, const mpa2_session_event &event, Actions &actions)
{
	session.active = 1;
	session.enhanced = event.enhanced;
	session.told = 1;
	if (!SendControl(session, Enhanced(session, MPA2_FN_INITIATE), event.octets,
			 event.octets_len, actions)) {
		session.active = 0;
		Tell(session, MPA2_END_LOCAL, actions);
		return;
	}
	session.phase = Phase::kActiveWait;
	actions.Add(MPA2_SACT_ARM_TIMER, MPA2_TIMER_REPLY);
}

/* SCTP-15: what is not the ULP's decision is a Terminate. */
void OnRefuse(Session &session, const mpa2_session_event &, Actions &actions)
{
	PeerIsFinal(session, actions);
	End(session, MPA2_END_LOCAL, actions);
}

void OnAccept(Session &session, const mpa2_session_event &event, Actions &actions)
{
	if (!SendControl(session, Enhanced(session, MPA2_FN_ACCEPT), event.octets,
			 event.octets_len, actions)) {
		OnRefuse(session, event, actions);
		return;
	}
	session.phase = Phase::kOpen;
	session.early_segment = 0;
}

void OnReject(Session &session, const mpa2_session_event &event, Actions &actions)
{
	if (!SendControl(session, Enhanced(session, MPA2_FN_REJECT), event.octets,
			 event.octets_len, actions)) {
		OnRefuse(session, event, actions);
		return;
	}
	PeerIsFinal(session, actions);
	Enter(session, MPA2_END_LOCAL, actions);
}

void OnSegment(Session &session, const mpa2_session_event &event, Actions &actions)
{
	Writer ssn(session.ssn_octets, sizeof(session.ssn_octets));

	if (session.unacked >= MPA2_UNACKED_MAX)
		return;
	ssn.Write(session.tx_ssn);
	actions.Add(MPA2_SACT_SEND_SEGMENT, session.ssn_octets, ssn.size());
	Count(session);
	if (IsTerminate(event.octets, event.octets_len))
		End(session, MPA2_END_LOCAL, actions);
}

void OnClose(Session &session, const mpa2_session_event &, Actions &actions)
{
	End(session, MPA2_END_LOCAL, actions);
}

void OnNoReply(Session &session, const mpa2_session_event &, Actions &actions)
{
	End(session, MPA2_END_TIMEOUT, actions);
}

void OnLingerOver(Session &session, const mpa2_session_event &, Actions &actions)
{
	session.linger_over = 1;
	ReuseIfOver(session, actions);
}

void OnAcked(Session &session, const mpa2_session_event &, Actions &actions)
{
	session.unacked = 0;
	session.control_out = 0;
	if (session.terminate_due)
		SendTerminate(session, actions);
	ReuseIfOver(session, actions);
}

void OnLost(Session &session, const mpa2_session_event &, Actions &actions)
{
	if (session.lost)
		return;
	session.lost = 1;
	session.phase = Phase::kEnd;
	DropHeld(session, actions);
	actions.Add(MPA2_SACT_STOP_TIMER);
	Tell(session, MPA2_END_LOST, actions);
}

using Handler = void (*)(Session &session, const mpa2_session_event &event,
			 Actions &actions);

struct Event {
	Phase phase;
	mpa2_session_event_type event;
	Handler handler;
};

constexpr Event kEvents[] = {
	{ Phase::kIdle, MPA2_SEV_INITIATE, OnLocalInitiate },
	{ Phase::kIdle, MPA2_SEV_CHUNK, OnChunk },
	{ Phase::kIdle, MPA2_SEV_LOST, OnLost },
	{ Phase::kActiveWait, MPA2_SEV_CHUNK, OnChunk },
	{ Phase::kActiveWait, MPA2_SEV_TIMER, OnNoReply },
	{ Phase::kActiveWait, MPA2_SEV_CLOSE, OnClose },
	{ Phase::kActiveWait, MPA2_SEV_ACKED, OnAcked },
	{ Phase::kActiveWait, MPA2_SEV_LOST, OnLost },
	{ Phase::kPassiveWait, MPA2_SEV_CHUNK, OnChunk },
	{ Phase::kPassiveWait, MPA2_SEV_ACCEPT, OnAccept },
	{ Phase::kPassiveWait, MPA2_SEV_REJECT, OnReject },
	{ Phase::kPassiveWait, MPA2_SEV_REFUSE, OnRefuse },
	{ Phase::kPassiveWait, MPA2_SEV_CLOSE, OnRefuse },
	{ Phase::kPassiveWait, MPA2_SEV_LOST, OnLost },
	{ Phase::kOpen, MPA2_SEV_CHUNK, OnChunk },
	{ Phase::kOpen, MPA2_SEV_SEGMENT, OnSegment },
	{ Phase::kOpen, MPA2_SEV_CLOSE, OnClose },
	{ Phase::kOpen, MPA2_SEV_ACKED, OnAcked },
	{ Phase::kOpen, MPA2_SEV_LOST, OnLost },
	{ Phase::kEnd, MPA2_SEV_CHUNK, OnChunk },
	{ Phase::kEnd, MPA2_SEV_ACKED, OnAcked },
	{ Phase::kEnd, MPA2_SEV_TIMER, OnLingerOver },
	{ Phase::kEnd, MPA2_SEV_LOST, OnLost },
};

} // namespace
} // namespace mpa2

using mpa2::Phase;
using mpa2::Session;
using mpa2::SessionOf;

extern "C" void mpa2_session_init(mpa2_session *session)
{
	__builtin_memset(session, 0, sizeof(*session));
}

/* Source: requirements 4.4. */
extern "C" void mpa2_session_feed(mpa2_session *opaque, const mpa2_session_event *event,
				  mpa2_session_actions *out)
{
	Session &session = SessionOf(opaque);
	mpa2::Actions actions(out);

	for (const mpa2::Event &row : mpa2::kEvents) {
		if (row.phase == session.phase && row.event == event->type) {
			row.handler(session, *event, actions);
			return;
		}
	}
}

/* Source: SCTP-09, AMB-30. */
extern "C" uint32_t mpa2_session_ready(const mpa2_session *opaque)
{
	const Session &session = SessionOf(opaque);

	if (mpa2::AwaitsNext(session) || session.early_segment || session.lost ||
	    !mpa2::IsHeld(session, session.rx_ssn))
		return MPA2_HOLD_NONE;
	return mpa2::SlotOf(session.rx_ssn);
}

extern "C" void mpa2_session_look(const mpa2_session *opaque, mpa2_session_info *info)
{
	const Session &session = SessionOf(opaque);

	*info = mpa2_session_info{};
	info->state = static_cast<uint8_t>(session.phase);
	info->active = session.active;
	info->enhanced = session.enhanced;
	info->fault = session.fault;
	info->may_send =
		session.phase == Phase::kOpen && session.unacked < MPA2_UNACKED_MAX;
	info->tx_ssn = session.tx_ssn;
	info->rx_ssn = session.rx_ssn;
	info->unacked = session.unacked;
	info->held = session.held_count;
	info->held_octets = session.held_octets;
}
