/* SPDX-License-Identifier: GPL-2.0 */
/* A machine under test, fed by hand, and its actions in a form to compare. */
#ifndef IW_MPA2_TEST_MACHINE_H
#define IW_MPA2_TEST_MACHINE_H

#include <iw_mpa2/core.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

using Octets = std::vector<uint8_t>;

inline Octets Hex(const std::string &text)
{
	Octets octets;
	std::string digits;

	for (const char c : text)
		if (c != ' ')
			digits += c;
	for (size_t i = 0; i + 1 < digits.size(); i += 2)
		octets.push_back(static_cast<uint8_t>(
			std::stoul(digits.substr(i, 2), nullptr, 16)));
	return octets;
}

inline Octets operator+(Octets left, const Octets &right)
{
	left.insert(left.end(), right.begin(), right.end());
	return left;
}

inline const Octets kRequestKey = Hex("4d504120494420526571204672616d65");
inline const Octets kReplyKey = Hex("4d504120494420526570204672616d65");

inline Octets Request(const std::string &rest)
{
	return kRequestKey + Hex(rest);
}

inline Octets Reply(const std::string &rest)
{
	return kReplyKey + Hex(rest);
}

/* "SEND", "ARM_TIMER(2)", ... in the order of the machine. */
inline std::string Name(const mpa2_action &action)
{
	static const char *const names[] = {
		"NONE",       "CONNECT",         "SEND",     "ARM_TIMER",
		"STOP_TIMER", "CONNECT_REQUEST", "BIND",     "CONSUME",
		"OPEN_FENCE", "ESTABLISHED",     "REJECTED", "FAILED",
		"SHUTDOWN",   "CLOSE",           "RESET",
	};
	std::string text = names[action.type];

	switch (action.type) {
	case MPA2_ACT_ARM_TIMER:
	case MPA2_ACT_CONSUME:
	case MPA2_ACT_OPEN_FENCE:
	case MPA2_ACT_FAILED:
		text += "(" + std::to_string(action.arg) + ")";
		break;
	default:
		break;
	}
	return text;
}

using Names = std::vector<std::string>;

inline mpa2_policy DefaultPolicy()
{
	mpa2_policy policy{};

	policy.rev = MPA2_REV_2;
	policy.peer_to_peer = 1;
	policy.accept_enhanced = 1;
	policy.round_ord = 1;
	policy.rtr_order[0] = MPA2_RTR_WRITE;
	policy.rtr_order[1] = MPA2_RTR_READ;
	policy.rtr_order[2] = MPA2_RTR_SEND;
	policy.cap_ird = 128;
	policy.cap_ord = 128;
	return policy;
}

class Machine
{
public:
	Machine(mpa2_role role, const mpa2_policy &policy)
	{
		mpa2_conn_init(&conn, role, &policy);
	}

	Names Feed(mpa2_event event)
	{
		mpa2_actions actions;
		Names names;

		mpa2_conn_event(&conn, &event, &actions);
		for (uint32_t i = 0; i < actions.count; i++) {
			const mpa2_action &action = actions.list[i];

			names.push_back(Name(action));
			all.push_back(names.back());
			if (action.type == MPA2_ACT_SEND)
				sent.assign(action.octets,
					    action.octets + action.octets_len);
		}
		return names;
	}

	Names Feed(mpa2_event_type type)
	{
		mpa2_event event{};

		event.type = type;
		return Feed(event);
	}

	/* START or ACCEPT with depths and the ULP's data. */
	Names Ulp(mpa2_event_type type, uint32_t ird, uint32_t ord,
		  const std::string &pd = "")
	{
		mpa2_event event{};

		event.type = type;
		event.ulp_ird = ird;
		event.ulp_ord = ord;
		event.ulp_pd = pd.data();
		event.ulp_pd_len = static_cast<uint32_t>(pd.size());
		return Feed(event);
	}

	/*
	 * Startup octets as the shell reads them: never more than wanted, and
	 * at most chunk at a time.  Returns the actions of all of them.
	 */
	Names Stream(const Octets &octets, size_t chunk = 4096)
	{
		Names names;
		size_t at = 0;

		while (at < octets.size() && mpa2_conn_wanted(&conn)) {
			mpa2_event event{};
			size_t len = mpa2_conn_wanted(&conn);

			len = std::min({ len, chunk, octets.size() - at });
			/* A buffer of its own, so that ASan sees its end. */
			const Octets piece(octets.begin() + long(at),
					   octets.begin() + long(at + len));
			event.type = MPA2_EV_OCTETS;
			event.octets = piece.data();
			event.octets_len = static_cast<uint32_t>(len);
			at += len;
			event.more_queued = at < octets.size();
			for (const auto &name : Feed(event))
				names.push_back(name);
		}
		left = octets.size() - at;
		return names;
	}

	/* The first FPDU as the shell shows it: as much as wanted, or is there. */
	Names Show(const Octets &octets)
	{
		Names names;
		uint32_t wanted = 0;

		while (names.empty() && mpa2_conn_wanted(&conn) != wanted) {
			mpa2_event event{};

			wanted = mpa2_conn_wanted(&conn);
			if (octets.size() < wanted)
				return names;
			const Octets piece(octets.begin(), octets.begin() + wanted);
			event.type = MPA2_EV_FPDU;
			event.octets = piece.data();
			event.octets_len = wanted;
			names = Feed(event);
		}
		return names;
	}

	mpa2_info Info() const
	{
		mpa2_info info;

		mpa2_conn_info(&conn, &info);
		return info;
	}

	std::string PrivateData() const
	{
		const mpa2_info info = Info();

		return { reinterpret_cast<const char *>(info.ulp_pd), info.ulp_pd_len };
	}

	mpa2_conn conn;
	Octets sent;     /* of the last SEND */
	Names all;       /* every action so far */
	size_t left = 0; /* octets that Stream() has not taken */
};

#endif /* IW_MPA2_TEST_MACHINE_H */
