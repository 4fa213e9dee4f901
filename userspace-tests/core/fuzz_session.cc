// SPDX-License-Identifier: GPL-2.0
/*
 * A session under any chunk in any order, with any event in between: it ends once,
 * holds what it may, delivers in order.  SCTP-09, SCTP-11, SCTP-12, SEC-01.
 */
#include <iw_mpa2/session.h>

#include <map>

#include "fuzz.h"

namespace
{

struct UserData {
	uint32_t ppid;
	std::vector<uint8_t> octets;
};

class Shell
{
public:
	Shell() { mpa2_session_init(&session_); }

	void Local(uint8_t type, const std::vector<uint8_t> &octets, bool enhanced)
	{
		mpa2_session_event event{};

		event.type = type;
		event.enhanced = enhanced;
		event.octets = octets.data();
		event.octets_len = static_cast<uint32_t>(octets.size());
		Feed(event, { 0, octets });
		Pump();
	}

	void Chunk(const UserData &data, bool no_room)
	{
		Take(data, false, no_room);
		Pump();
	}

	[[nodiscard]] mpa2_session_info Info() const
	{
		mpa2_session_info info;

		mpa2_session_look(&session_, &info);
		return info;
	}

private:
	void Take(const UserData &data, bool held, bool no_room)
	{
		mpa2_session_event event{};

		event.type = MPA2_SEV_CHUNK;
		event.held = held;
		event.no_room = no_room;
		event.ppid = data.ppid;
		event.octets = data.octets.data();
		event.octets_len = static_cast<uint32_t>(data.octets.size());
		Feed(event, data);
	}

	void Pump()
	{
		uint32_t slot;

		while ((slot = mpa2_session_ready(&session_)) != MPA2_HOLD_NONE) {
			LAW(held_.count(slot) == 1);
			const UserData data = held_[slot];
			held_.erase(slot);
			Take(data, true, false);
		}
		const mpa2_session_info info = Info();
		LAW(info.state < MPA2_SS_NR);
		LAW(info.held == held_.size());
		LAW(info.held <= MPA2_HOLD_CHUNKS &&
		    info.held_octets <= MPA2_HOLD_OCTETS);
		LAW(info.unacked <= MPA2_UNACKED_MAX + 1);
	}

	void Feed(const mpa2_session_event &event, const UserData &data)
	{
		mpa2_session_actions actions;

		mpa2_session_feed(&session_, &event, &actions);
		LAW(actions.count < MPA2_SESSION_ACTIONS_MAX);
		for (uint32_t i = 0; i < actions.count; i++)
			See(actions.list[i], data);
	}

	void See(const mpa2_session_action &action, const UserData &data)
	{
		switch (action.type) {
		case MPA2_SACT_SEND:
			LAW(!terminated_ && action.octets_len <= MPA2_CONTROL_MAX);
			Sent(action);
			terminated_ = action.octets[3] == MPA2_FN_TERMINATE;
			break;
		case MPA2_SACT_SEND_SEGMENT:
			LAW(open_ && !terminated_);
			Sent(action);
			break;
		case MPA2_SACT_HOLD:
			LAW(held_.emplace(action.arg, data).second);
			break;
		case MPA2_SACT_DROP_HELD:
			held_.clear();
			break;
		case MPA2_SACT_REQUEST:
			LAW(!waited_for_);
			waited_for_ = true;
			break;
		case MPA2_SACT_ACCEPTED:
			LAW(waited_for_);
			open_ = true;
			break;
		case MPA2_SACT_DELIVER:
			LAW(waited_for_ && action.octets_len >= MPA2_SEGMENT_MIN);
			break;
		case MPA2_SACT_REJECTED:
		case MPA2_SACT_ENDED:
			LAW(waited_for_);
			waited_for_ = open_ = false;
			break;
		case MPA2_SACT_REUSABLE:
			LAW(!waited_for_);
			terminated_ = false;
			next_ = 0;
			break;
		default:
			break;
		}
	}

	/* No gap in what we number. */
	void Sent(const mpa2_session_action &action)
	{
		LAW(action.octets_len >= MPA2_SSN_OCTETS);
		LAW((action.octets[0] << 8 | action.octets[1]) == next_);
		next_ = static_cast<uint16_t>(next_ + 1);
	}

public:
	/* The local end's own part in opening a session. */
	void Wait() { waited_for_ = true; }
	void Open() { open_ = true; }

private:
	mpa2_session session_;
	std::map<uint32_t, UserData> held_;
	bool waited_for_ = false, open_ = false, terminated_ = false;
	uint16_t next_ = 0;
};

void FeedChunk(Shell &shell, Source &source)
{
	const uint8_t how = source.Octet();
	const uint16_t ahead = source.Octet() % 8;
	UserData data{ (how & 1) ? MPA2_PPID_CONTROL : MPA2_PPID_SEGMENT, {} };
	uint16_t ssn = shell.Info().rx_ssn;

	/* Mostly what could be, sometimes anything. */
	ssn = static_cast<uint16_t>((how & 2) ? ssn + ahead : ssn);
	if ((how & 0x70) == 0x70)
		ssn = source.Word();
	if ((how & 0x88) == 0x88)
		data.ppid = source.Octet();
	data.octets = { static_cast<uint8_t>(ssn >> 8), static_cast<uint8_t>(ssn) };
	if (data.ppid == MPA2_PPID_CONTROL && !(how & 4)) {
		data.octets.push_back(0);
		data.octets.push_back(source.Octet() % 9);
	}
	const auto rest = source.Octets(source.Octet() % 40);
	data.octets.insert(data.octets.end(), rest.begin(), rest.end());
	if (data.ppid == MPA2_PPID_SEGMENT && !(how & 8))
		data.octets.resize(data.octets.size() + MPA2_SEGMENT_MIN);
	shell.Chunk(data, (how & 0xf0) == 0xf0);
}

void FeedLocal(Shell &shell, Source &source)
{
	const uint8_t type = source.Octet() % MPA2_SEV_NR;
	const bool enhanced = source.Octet() & 1;
	const uint8_t state = shell.Info().state;
	auto octets = source.Octets(source.Octet() % 40);

	/* Losing the association is the end of most inputs: seldom. */
	if (type == MPA2_SEV_CHUNK || (type == MPA2_SEV_LOST && octets.size() < 30))
		return;
	if (type == MPA2_SEV_SEGMENT)
		octets.resize(octets.size() + MPA2_SEGMENT_MIN);
	if (type == MPA2_SEV_INITIATE && state == MPA2_SS_IDLE)
		shell.Wait();
	if (type == MPA2_SEV_ACCEPT && state == MPA2_SS_P_WAIT)
		shell.Open();
	shell.Local(type, octets, enhanced);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Source source(data, size);
	Shell shell;

	while (!source.empty()) {
		if (source.Octet() % 3)
			FeedChunk(shell, source);
		else
			FeedLocal(shell, source);
	}
	return 0;
}
