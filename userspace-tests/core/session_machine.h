/* SPDX-License-Identifier: GPL-2.0 */
/* A session under test with a shell that keeps what the machine has it hold. */
#ifndef IW_MPA2_TEST_SESSION_MACHINE_H
#define IW_MPA2_TEST_SESSION_MACHINE_H

#include <iw_mpa2/session.h>

#include <map>
#include <stdexcept>

#include "machine.h"

struct UserData {
	uint32_t ppid;
	Octets octets;
};

inline UserData Control(const std::string &hex)
{
	return { MPA2_PPID_CONTROL, Hex(hex) };
}

/* A segment of an RDMA Write whose last octet tells it from others. */
inline UserData Segment(uint16_t ssn, uint8_t mark = 0)
{
	Octets octets = { static_cast<uint8_t>(ssn >> 8), static_cast<uint8_t>(ssn) };

	return { MPA2_PPID_SEGMENT,
		 octets + Hex("c140 00000001 0000000000000000") + Octets{ mark } };
}

class SessionMachine
{
public:
	SessionMachine() { mpa2_session_init(&session); }

	/* "SEND(hex)", "DELIVER(15)", "ENDED(4)", ... of this event and of what was
	 * held until it. */
	Names Feed(const mpa2_session_event &event)
	{
		Names names = One(event, nullptr);

		for (;;) {
			const uint32_t slot = mpa2_session_ready(&session);

			if (slot == MPA2_HOLD_NONE)
				return names;
			const UserData data = held.at(slot);
			held.erase(slot);
			for (const auto &name : Take(data, true))
				names.push_back(name);
		}
	}

	Names Local(mpa2_session_event_type type, const Octets &octets = {},
		    bool enhanced = false)
	{
		mpa2_session_event event{};

		event.type = static_cast<uint8_t>(type);
		event.enhanced = enhanced;
		event.octets = octets.data();
		event.octets_len = static_cast<uint32_t>(octets.size());
		return Feed(event);
	}

	Names Chunk(const UserData &data, bool no_room = false)
	{
		mpa2_session_event event = EventOf(data);

		event.no_room = no_room;
		current = &data;
		return Feed(event);
	}

	Names Control(const std::string &hex) { return Chunk(::Control(hex)); }

	mpa2_session_info Info() const
	{
		mpa2_session_info info;

		mpa2_session_look(&session, &info);
		return info;
	}

	mpa2_session session;
	std::map<uint32_t, UserData> held;
	int ends = 0; /* ENDED and REJECTED */

private:
	static mpa2_session_event EventOf(const UserData &data)
	{
		mpa2_session_event event{};

		event.type = MPA2_SEV_CHUNK;
		event.ppid = data.ppid;
		event.octets = data.octets.data();
		event.octets_len = static_cast<uint32_t>(data.octets.size());
		return event;
	}

	Names Take(const UserData &data, bool was_held)
	{
		mpa2_session_event event = EventOf(data);

		event.held = was_held;
		return One(event, &data);
	}

	Names One(const mpa2_session_event &event, const UserData *data)
	{
		mpa2_session_actions actions;
		Names names;

		mpa2_session_feed(&session, &event, &actions);
		for (uint32_t i = 0; i < actions.count; i++)
			names.push_back(Do(actions.list[i], data ? data : current));
		return names;
	}

	std::string Do(const mpa2_session_action &action, const UserData *data)
	{
		static const char *const names[] = {
			"NONE",      "SEND",       "SEND_SEGMENT", "HOLD",    "DROP",
			"REQUEST",   "ACCEPTED",   "REJECTED",     "DELIVER", "ENDED",
			"ARM_TIMER", "STOP_TIMER", "REUSABLE",
		};
		const std::string name = names[action.type];

		switch (action.type) {
		case MPA2_SACT_HOLD:
			if (!held.emplace(action.arg, *data).second)
				throw std::logic_error("slot in use");
			return name + "(" + std::to_string(action.arg) + ")";
		case MPA2_SACT_DROP_HELD:
			held.clear();
			return name;
		case MPA2_SACT_REJECTED:
			ends++;
			break;
		case MPA2_SACT_ENDED:
			ends++;
			return name + "(" + std::to_string(action.arg) + ")";
		case MPA2_SACT_ARM_TIMER:
			return name + "(" + std::to_string(action.arg) + ")";
		case MPA2_SACT_STOP_TIMER:
		case MPA2_SACT_REUSABLE:
			return name;
		default:
			break;
		}
		return name + "(" + HexOf(action.octets, action.octets_len) + ")";
	}

	static std::string HexOf(const uint8_t *octets, size_t len)
	{
		static const char digits[] = "0123456789abcdef";
		std::string text;

		for (size_t i = 0; i < len; i++) {
			text += digits[octets[i] >> 4];
			text += digits[octets[i] & 15];
		}
		return text;
	}

	const UserData *current = nullptr;
};

#endif /* IW_MPA2_TEST_SESSION_MACHINE_H */
