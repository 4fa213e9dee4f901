// SPDX-License-Identifier: GPL-2.0
/*
 * Compares the rows of the model (Documentation/model) with what the core does.
 *
 * Both machines are driven through everything that can happen to them: each
 * event where a shell can feed it, startup frames and first FPDUs of every kind
 * in pieces, several policies.  The rows that come out are (role, enhanced
 * set-up, peer-to-peer, state, event, next state, set of actions), the two
 * properties as they are after the event.  Those of the model are read from
 * standard input, as its verifiers print them.  Each has to be in the other.
 */
#include <iw_mpa2/core.h>

#include <compare>
#include <cstdio>
#include <cstring>
#include <deque>
#include <iostream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "machine.h"

namespace
{

struct Row {
	unsigned role, enhanced, p2p, state, event, next, actions;

	auto operator<=>(const Row &) const = default;
};

const char *const kRoles[] = { "initiator", "responder" };
const char *const kEvents[] = { "START",         "CONNECTED", "CONNECT_FAILED", "OCTETS",
				"FPDU",          "EOF",       "RESET",          "TIMER",
				"ACCEPT",        "REJECT",    "ABORT",          "BOUND",
				"LOCAL_FAILURE", "SENT",      "SEND_FAILED" };
static_assert(sizeof(kEvents) / sizeof(kEvents[0]) == MPA2_EV_NR);

/* The one order in which the model carries actions out. */
const mpa2_action_type kOrder[] = {
	MPA2_ACT_STOP_TIMER, MPA2_ACT_REJECTED,    MPA2_ACT_CONSUME,
	MPA2_ACT_OPEN_FENCE, MPA2_ACT_ESTABLISHED, MPA2_ACT_CONNECT_REQUEST,
	MPA2_ACT_CONNECT,    MPA2_ACT_SEND,        MPA2_ACT_BIND,
	MPA2_ACT_SHUTDOWN,   MPA2_ACT_ARM_TIMER,   MPA2_ACT_CLOSE,
	MPA2_ACT_RESET,      MPA2_ACT_FAILED,
};

/* A machine, and what its shell knows besides. */
struct Node {
	mpa2_conn conn;
	bool armed;     /* a timer is running */
	uint8_t answer; /* the action whose answer comes next: SEND, BIND or 0 */
	int stream;     /* which startup frame is being read, -1: none yet */
	size_t at;
};

class Explorer
{
public:
	Explorer(mpa2_role role, const mpa2_policy &policy, std::vector<Octets> frames)
	    : role_(role), frames_(std::move(frames))
	{
		Node node{};

		mpa2_conn_init(&node.conn, role, &policy);
		node.stream = -1;
		Push(node);
	}

	void Run(std::set<Row> *rows)
	{
		rows_ = rows;
		while (!todo_.empty()) {
			const Node node = todo_.front();

			todo_.pop_front();
			Visit(node);
		}
	}

	/* Lists of actions that the model's order does not describe. */
	unsigned out_of_order() const { return out_of_order_; }

private:
	static unsigned StateOf(const mpa2_conn &conn)
	{
		mpa2_info info;

		mpa2_conn_info(&conn, &info);
		return info.state;
	}

	void Push(const Node &node)
	{
		std::string key(reinterpret_cast<const char *>(&node.conn),
				sizeof(node.conn));

		key += node.armed ? "!" : "";
		key += std::to_string(node.answer) + "/" + std::to_string(node.stream) +
		       "/" + std::to_string(node.at);
		if (seen_.insert(key).second)
			todo_.push_back(node);
	}

	void Visit(const Node &node)
	{
		if (StateOf(node.conn) == MPA2_ST_CLOSED ||
		    StateOf(node.conn) == MPA2_ST_EST)
			return;
		if (node.answer == MPA2_ACT_SEND) {
			FeedType(node, MPA2_EV_SENT);
			FeedType(node, MPA2_EV_SEND_FAILED);
			FeedType(node, MPA2_EV_ABORT);
			return;
		}
		if (node.answer == MPA2_ACT_BIND) {
			FeedType(node, MPA2_EV_BOUND);
			FeedType(node, MPA2_EV_LOCAL_FAILURE);
			FeedType(node, MPA2_EV_ABORT);
			return;
		}
		for (unsigned type = 0; type < MPA2_EV_NR; type++)
			FeedEach(node, static_cast<mpa2_event_type>(type));
	}

	void FeedEach(const Node &node, mpa2_event_type type)
	{
		static const uint8_t ulp_pd[MPA2_PD_MAX + 1] = {};

		switch (type) {
		case MPA2_EV_BOUND:
		case MPA2_EV_SENT:
		case MPA2_EV_SEND_FAILED:
			break; /* answers only */
		case MPA2_EV_OCTETS:
			FeedFrames(node);
			break;
		case MPA2_EV_FPDU:
			FeedFpdus(node);
			break;
		case MPA2_EV_START:
		case MPA2_EV_ACCEPT:
		case MPA2_EV_REJECT:
			for (const uint32_t len : { 0u, MPA2_PD_MAX + 1 }) {
				mpa2_event event{};

				event.type = static_cast<uint8_t>(type);
				event.ulp_ird = 4;
				event.ulp_ord = 4;
				event.ulp_pd = ulp_pd;
				event.ulp_pd_len = len;
				Feed(node, event);
			}
			break;
		case MPA2_EV_TIMER:
			if (node.armed)
				FeedType(node, type);
			break;
		default:
			FeedType(node, type);
		}
	}

	void FeedType(const Node &node, mpa2_event_type type)
	{
		mpa2_event event{};

		event.type = static_cast<uint8_t>(type);
		Feed(node, event);
	}

	/* All that is wanted of each frame, or the first octet of header or data. */
	void FeedFrames(const Node &node)
	{
		const uint32_t wanted = mpa2_conn_wanted(&node.conn);

		if (StateOf(node.conn) == MPA2_ST_W_FPDU || !wanted)
			return;
		for (int stream = 0; stream < static_cast<int>(frames_.size());
		     stream++) {
			if (node.stream >= 0 && node.stream != stream)
				continue;
			const Octets &frame = frames_[static_cast<size_t>(stream)];
			const size_t left = frame.size() - node.at;

			for (const size_t len : { size_t{ 1 }, size_t{ wanted } }) {
				mpa2_event event{};
				Node with = node;

				if (len > left || (len == 1 && node.at % MPA2_HDR_LEN))
					continue;
				with.stream = stream;
				with.at += len;
				event.type = MPA2_EV_OCTETS;
				event.octets = frame.data() + node.at;
				event.octets_len = static_cast<uint32_t>(len);
				event.more_queued = left > len;
				Feed(with, event);
			}
		}
	}

	void FeedFpdus(const Node &node)
	{
		const uint32_t wanted = mpa2_conn_wanted(&node.conn);

		if (StateOf(node.conn) != MPA2_ST_W_FPDU)
			return;
		for (const Octets &fpdu : Fpdus()) {
			mpa2_event event{};

			if (fpdu.size() < wanted)
				continue;
			event.type = MPA2_EV_FPDU;
			event.octets = fpdu.data();
			event.octets_len = wanted;
			Feed(node, event);
		}
	}

	static const std::vector<Octets> &Fpdus();

	void Feed(Node node, const mpa2_event &event)
	{
		const unsigned from = StateOf(node.conn);
		mpa2_actions actions;
		unsigned set = 0, last = 0;

		mpa2_conn_event(&node.conn, &event, &actions);
		node.answer = 0;
		if (event.type == MPA2_EV_TIMER)
			node.armed = false;
		for (uint32_t i = 0; i < actions.count; i++) {
			const uint8_t type = actions.list[i].type;
			unsigned place = 0;

			while (kOrder[place] != type)
				place++;
			const bool again =
				(set & (1u << type)) && type != MPA2_ACT_STOP_TIMER;
			if (place < last || again) {
				out_of_order_++;
				std::printf("%s, %s, %s: actions in another order\n",
					    kRoles[role_], mpa2_state_text(from),
					    kEvents[event.type]);
			}
			last = place;
			set |= 1u << type;
			if (type == MPA2_ACT_SEND || type == MPA2_ACT_BIND)
				node.answer = type;
			if (type == MPA2_ACT_ARM_TIMER || type == MPA2_ACT_STOP_TIMER)
				node.armed = type == MPA2_ACT_ARM_TIMER;
			if (type == MPA2_ACT_CONNECT) {
				node.stream = -1;
				node.at = 0;
			}
		}
		mpa2_info info;

		mpa2_conn_info(&node.conn, &info);
		if (mpa2_transition_exists(role_, static_cast<mpa2_state>(from),
					   static_cast<mpa2_event_type>(event.type)))
			rows_->insert({ unsigned(role_), info.enhanced, info.peer_to_peer,
					from, event.type, info.state, set });
		Push(node);
	}

	mpa2_role role_;
	std::vector<Octets> frames_;
	std::deque<Node> todo_;
	std::set<std::string> seen_;
	std::set<Row> *rows_ = nullptr;
	unsigned out_of_order_ = 0;
};

Octets Built(size_t len, const uint8_t *octets)
{
	return Octets(octets, octets + len);
}

const std::vector<Octets> &Explorer::Fpdus()
{
	static const std::vector<Octets> fpdus = [] {
		std::vector<Octets> made;
		uint8_t out[MPA2_TERMINATE_MAX];

		for (const mpa2_rtr kind :
		     { MPA2_RTR_SEND, MPA2_RTR_WRITE, MPA2_RTR_READ })
			made.push_back(
				Built(mpa2_rtr_build(kind, true, false, out, sizeof(out)),
				      out));
		Octets wrong_crc = made.front();
		wrong_crc.back() ^= 1;
		made.push_back(wrong_crc);
		/* An unsolicited Read Response: a header that is wrong. */
		made.push_back(Built(
			mpa2_read_response_build(1, 2, true, false, out, sizeof(out)),
			out));
		made.push_back(Built(mpa2_terminate_build(MPA2_TERM_LAYER_MPA, 0,
							  MPA2_TERM_LOCAL_CATASTROPHIC,
							  true, false, out, sizeof(out)),
				     out));
		made.push_back(Octets(MPA2_FPDU_LEN_OCTETS, 0xff)); /* too long */
		made.push_back(Hex("0000 0000 a1cc7f6e"));
		const uint32_t crc = mpa2_crc32c(made.back().data(), 4);
		for (unsigned i = 0; i < 4; i++)
			made.back()[4 + i] = static_cast<uint8_t>(crc >> (8 * i));
		return made;
	}();

	return fpdus;
}

/* Frames of one kind with every flag that decides anything. */
std::vector<Octets> Frames(mpa2_key key)
{
	std::vector<Octets> made = { Octets(MPA2_HDR_LEN, 0) };
	static const uint8_t data[4] = {};

	for (unsigned bits = 0; bits < 128; bits++) {
		uint8_t out[MPA2_FRAME_MAX];
		mpa2_frame frame{};

		frame.key = static_cast<uint8_t>(key);
		frame.rev = bits & 1 ? MPA2_REV_2 : MPA2_REV_1;
		frame.enhanced = (bits & 3) == 3;
		frame.markers = !!(bits & 4);
		frame.reject = !!(bits & 8);
		frame.data.peer_to_peer = !!(bits & 16);
		frame.data.rtr = bits & 32 ? MPA2_RTR_ALL : MPA2_RTR_NONE;
		/* More than what the local limits below allow, or less. */
		frame.data.ird = bits & 32 ? 2 : 0;
		frame.data.ord = bits & 32 ? 2 : 100;
		made.push_back(Built(mpa2_frame_build(&frame, data, bits & 64 ? 4 : 0,
						      out, sizeof(out)),
				     out));
	}
	if (key == MPA2_KEY_REQUEST) {
		const size_t whole = made.size();

		for (size_t i = 1; i < whole; i++) {
			made.push_back(made[i]);
			made.back().push_back(0); /* octets behind it */
		}
	}
	return made;
}

/* Rows of the core; adds to faults what cannot be compared. */
std::set<Row> CoreRows(unsigned *faults)
{
	std::set<Row> rows;

	for (unsigned bits = 0; bits < 64; bits++) {
		const mpa2_role role = bits & 1 ? MPA2_RESPONDER : MPA2_INITIATOR;
		mpa2_policy policy{};

		policy.rev = bits & 2 ? MPA2_REV_2 : MPA2_REV_1;
		policy.peer_to_peer = !!(bits & 4);
		policy.fallback = !!(bits & 8);
		policy.accept_enhanced = !!(bits & 2);
		policy.require_ord = bits & 4 ? 1 : 0;
		policy.crc = 1;
		policy.cap_ird = 8;
		policy.cap_ord = 8;
		policy.rtr_order[0] = bits & 16 ? MPA2_RTR_READ : MPA2_RTR_SEND;
		policy.rtr_order[1] = bits & 32 ? MPA2_RTR_WRITE : MPA2_RTR_NONE;
		Explorer explorer(role, policy,
				  Frames(role == MPA2_INITIATOR ? MPA2_KEY_REPLY :
								  MPA2_KEY_REQUEST));
		explorer.Run(&rows);
		*faults += explorer.out_of_order();
	}
	return rows;
}

std::set<Row> ModelRows()
{
	std::set<Row> rows;
	std::string line;

	while (std::getline(std::cin, line)) {
		std::istringstream words(line);
		std::string word;
		Row row{};

		words >> word >> row.role >> row.enhanced >> row.p2p >> row.state >>
			row.event >> row.next >> row.actions;
		if (words && word == "ROW")
			rows.insert(row);
	}
	return rows;
}

std::string Text(const Row &row)
{
	std::string text = kRoles[row.role];

	text += row.enhanced ? ", enhanced" : ", not enhanced";
	text += row.p2p ? " peer-to-peer, " : ", ";
	text += mpa2_state_text(row.state);
	text = text + ", " + kEvents[row.event] + " -> " + mpa2_state_text(row.next) +
	       ":";
	for (const mpa2_action_type type : kOrder)
		if (row.actions & (1u << type)) {
			mpa2_action action{};

			action.type = static_cast<uint8_t>(type);
			text += " " + Name(action);
		}
	return text;
}

/* What one has and the other has not. */
unsigned Missing(const std::set<Row> &rows, const std::set<Row> &others, const char *text)
{
	unsigned missing = 0;

	for (const Row &row : rows)
		if (!others.count(row)) {
			missing++;
			std::printf("%s: %s\n", text, Text(row).c_str());
		}
	return missing;
}

/* Rows of the core's tables that were never taken here. */
unsigned NeverTaken(const std::set<Row> &rows)
{
	unsigned never = 0;

	for (unsigned role = 0; role < 2; role++)
		for (unsigned state = 0; state < MPA2_ST_NR; state++)
			for (unsigned event = 0; event < MPA2_EV_NR; event++) {
				bool taken = !mpa2_transition_exists(
					static_cast<mpa2_role>(role),
					static_cast<mpa2_state>(state),
					static_cast<mpa2_event_type>(event));

				for (const Row &row : rows)
					taken |= row.role == role && row.state == state &&
						 row.event == event;
				if (taken)
					continue;
				never++;
				std::printf("the core's row was not taken: %s, %s, %s\n",
					    kRoles[role], mpa2_state_text(state),
					    kEvents[event]);
			}
	return never;
}

} // namespace

int main()
{
	unsigned faults = 0;
	const std::set<Row> core = CoreRows(&faults), model = ModelRows();

	faults += Missing(core, model, "in the core only");
	faults += Missing(model, core, "in the model only");
	faults += NeverTaken(core);
	std::printf("%zu transitions in the core, %zu in the model, %u differences\n",
		    core.size(), model.size(), faults);
	return faults || model.empty();
}
