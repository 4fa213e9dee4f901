/* SPDX-License-Identifier: GPL-2.0 */
/* What the fuzz targets share: a source of decisions, and laws to hold. */
#ifndef IW_MPA2_TEST_FUZZ_H
#define IW_MPA2_TEST_FUZZ_H

#include <iw_mpa2/core.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define LAW(condition)                                                                   \
	do {                                                                             \
		if (!(condition)) {                                                      \
			fprintf(stderr, "broken law: %s\n", #condition);                 \
			abort();                                                         \
		}                                                                        \
	} while (0)

/* The fuzzer's octets as small decisions, then as the rest. */
class Source
{
public:
	Source(const uint8_t *data, size_t size) : data_(data), left_(size) {}

	uint8_t Octet()
	{
		if (!left_)
			return 0;
		left_--;
		return *data_++;
	}

	uint16_t Word() { return static_cast<uint16_t>(Octet() << 8 | Octet()); }

	std::vector<uint8_t> Octets(size_t len)
	{
		len = len < left_ ? len : left_;
		const std::vector<uint8_t> octets(data_, data_ + len);
		data_ += len;
		left_ -= len;
		return octets;
	}

	bool empty() const { return left_ == 0; }

private:
	const uint8_t *data_;
	size_t left_;
};

inline mpa2_policy PolicyFrom(Source &source)
{
	mpa2_policy policy{};
	const uint8_t flags = source.Octet();

	policy.rev = (flags & 1) ? MPA2_REV_1 : MPA2_REV_2;
	policy.peer_to_peer = !!(flags & 2);
	policy.fallback = !!(flags & 4);
	policy.accept_enhanced = !(flags & 8);
	policy.crc = !!(flags & 16);
	policy.round_ord = !!(flags & 32);
	policy.no_negotiate_ird = !!(flags & 64);
	policy.no_negotiate_ord = !!(flags & 128);
	static const uint8_t kinds[4] = { MPA2_RTR_WRITE, MPA2_RTR_READ, MPA2_RTR_SEND,
					  MPA2_RTR_WRITE };
	policy.rtr_order[0] = kinds[source.Octet() % 4];
	policy.cap_ird = source.Octet();
	policy.cap_ord = source.Octet();
	policy.require_ord = source.Octet() & 15;
	return policy;
}

/*
 * A machine that does what the shell would do, and the laws of its actions:
 * one end, told once, nothing after it, never more read than wanted.
 */
class Laws
{
public:
	Laws(mpa2_role role, const mpa2_policy &policy) : role_(role)
	{
		mpa2_conn_init(&conn, role, &policy);
	}

	void Feed(const mpa2_event &event)
	{
		mpa2_actions actions;

		mpa2_conn_event(&conn, &event, &actions);
		LAW(actions.count <= MPA2_ACTIONS_MAX);
		for (uint32_t i = 0; i < actions.count; i++)
			See(actions.list[i]);
		mpa2_info info;
		mpa2_conn_info(&conn, &info);
		LAW(info.state < MPA2_ST_NR);
		LAW(info.local_ird <= MPA2_DEPTH_MAX);
		LAW(info.local_ord <= MPA2_DEPTH_MAX);
		LAW(info.ulp_pd_len <= MPA2_PD_MAX);
		if (info.state == MPA2_ST_W_HDR || info.state == MPA2_ST_W_PD) {
			LAW(mpa2_conn_wanted(&conn) <= MPA2_FRAME_MAX);
		} else {
			LAW(mpa2_conn_wanted(&conn) <= MPA2_FPDU_MAX);
		}
	}

	mpa2_conn conn;

private:
	void See(const mpa2_action &action)
	{
		switch (action.type) {
		case MPA2_ACT_SEND:
			LAW(!closed_);
			LAW(action.octets_len && action.octets_len <= MPA2_TX_MAX);
			break;
		case MPA2_ACT_ESTABLISHED:
			LAW(++established_ == 1 && !failed_ && !closed_);
			break;
		case MPA2_ACT_REJECTED:
			LAW(role_ == MPA2_INITIATOR && ++failed_ == 1);
			break;
		case MPA2_ACT_FAILED:
			LAW(++failed_ == 1);
			LAW(role_ == MPA2_RESPONDER || !established_);
			break;
		case MPA2_ACT_CONNECT_REQUEST:
			LAW(role_ == MPA2_RESPONDER && ++requests_ == 1);
			break;
		case MPA2_ACT_OPEN_FENCE:
			LAW(role_ == MPA2_RESPONDER && ++opened_ == 1);
			break;
		case MPA2_ACT_CLOSE:
		case MPA2_ACT_RESET:
			LAW(!closed_);
			closed_ = true;
			break;
		case MPA2_ACT_CONNECT:
			LAW(role_ == MPA2_INITIATOR && ++connects_ <= 2);
			closed_ = false;
			break;
		default:
			break;
		}
	}

	mpa2_role role_;
	int established_ = 0, failed_ = 0, requests_ = 0, opened_ = 0;
	int connects_ = 0;
	bool closed_ = false;
};

/* Octets of the stream as the shell reads them. */
inline void FeedStream(Laws &laws, Source &source)
{
	const uint32_t wanted = mpa2_conn_wanted(&laws.conn);
	const auto octets = source.Octets(source.Octet() % 64 + 1);
	mpa2_event event{};

	if (!wanted || octets.empty())
		return;
	event.octets = octets.data();
	event.octets_len =
		static_cast<uint32_t>(octets.size() < wanted ? octets.size() : wanted);
	mpa2_info info;
	mpa2_conn_info(&laws.conn, &info);
	event.type = info.state == MPA2_ST_W_FPDU ? MPA2_EV_FPDU : MPA2_EV_OCTETS;
	event.more_queued = octets.size() > wanted;
	laws.Feed(event);
}

/* Any event at any time, with the ULP's parameters. */
inline void FeedAny(Laws &laws, Source &source)
{
	static const uint8_t data[MPA2_PD_MAX + 1] = {};
	mpa2_event event{};

	event.type = source.Octet() % MPA2_EV_NR;
	if (event.type == MPA2_EV_OCTETS || event.type == MPA2_EV_FPDU) {
		FeedStream(laws, source);
		return;
	}
	event.ulp_ird = source.Word();
	event.ulp_ord = source.Word();
	event.ulp_pd = data;
	event.ulp_pd_len = source.Word() % sizeof(data);
	laws.Feed(event);
}

#endif /* IW_MPA2_TEST_FUZZ_H */
