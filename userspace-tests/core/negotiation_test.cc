// SPDX-License-Identifier: GPL-2.0
/* Negotiation, row by row (requirements 3.1, 3.3). */
#include <gtest/gtest.h>

#include "machine.h"
#include "vectors.h"

namespace
{

mpa2_policy PolicyOf(uint8_t rtr_set, uint16_t cap, bool round)
{
	mpa2_policy policy = DefaultPolicy();
	int n = 0;

	policy.cap_ird = policy.cap_ord = cap;
	policy.round_ord = round;
	memset(policy.rtr_order, 0, sizeof(policy.rtr_order));
	for (const uint8_t kind : { MPA2_RTR_WRITE, MPA2_RTR_READ, MPA2_RTR_SEND })
		if (rtr_set & kind)
			policy.rtr_order[n++] = kind;
	return policy;
}

/* NEG-02..04, NEG-12, NEG-13, NEG-16 */
TEST(Reply, RowsN1ToN12)
{
	for (const auto &row : reply_rows) {
		mpa2_policy policy = PolicyOf(row.rtr_set, row.cap, false);
		mpa2_reply_result result;

		mpa2_negotiate_reply(&row.request, &policy, row.ulp_ird, row.ulp_ord,
				     &result);
		EXPECT_EQ(row.reply_ird, result.reply.ird) << row.desc;
		EXPECT_EQ(row.reply_ord, result.reply.ord) << row.desc;
		EXPECT_EQ(row.local_ird, result.local_ird) << row.desc;
		EXPECT_EQ(row.local_ord, result.local_ord) << row.desc;
		EXPECT_EQ(0, result.reject);
		policy.round_ord = 1;
		mpa2_negotiate_reply(&row.request, &policy, row.ulp_ird, row.ulp_ord,
				     &result);
		EXPECT_EQ(row.rounded_ord, result.local_ord) << row.desc;
		EXPECT_EQ(row.reply_ord == MPA2_DEPTH_NONE ? MPA2_DEPTH_NONE :
							     row.rounded_ord,
			  result.reply.ord)
			<< row.desc;
	}
}

/* NEG-06..08, NEG-14, NEG-15, AMB-14, AMB-23 */
TEST(Check, RowsN13ToN18)
{
	for (const auto &row : check_rows) {
		const mpa2_policy policy = PolicyOf(
			row.sent.peer_to_peer ? row.sent.rtr : 7, row.cap, false);
		mpa2_check_result result;

		mpa2_negotiate_check(&row.sent, &row.reply, &policy, row.ulp_ird,
				     row.ulp_ord, &result);
		EXPECT_EQ(row.terminate, result.terminate) << row.desc;
		if (row.terminate)
			continue;
		EXPECT_EQ(row.local_ird, result.local_ird) << row.desc;
		EXPECT_EQ(row.local_ord, result.local_ord) << row.desc;
	}
}

/* RTR-09, RTR-10, RTR-12..14, AMB-13; FR-03: all 49 pairs of offered and supported. */
TEST(Rtr, EveryOfferedSetAgainstEverySupportedOne)
{
	for (int offered = 0; offered < 7; offered++) {
		for (int supported = 0; supported < 7; supported++) {
			const rtr_pair &pair = rtr_pairs[offered][supported];
			mpa2_enhanced request{ 4, 4, 1, rtr_sets[offered] };
			mpa2_policy responder = PolicyOf(rtr_sets[supported], 128, true);
			mpa2_policy initiator = PolicyOf(rtr_sets[offered], 128, true);
			mpa2_reply_result reply;
			mpa2_check_result check;

			mpa2_negotiate_reply(&request, &responder, 4, 4, &reply);
			EXPECT_EQ(pair.reply, reply.reply.rtr);
			EXPECT_EQ(1, reply.reply.peer_to_peer);
			mpa2_negotiate_check(&request, &reply.reply, &initiator, 4, 4,
					     &check);
			EXPECT_EQ(pair.rtr, check.rtr);
			EXPECT_EQ(pair.rtr ? 0 : MPA2_TERM_NO_MATCHING_RTR,
				  check.terminate);
		}
	}
}

/* RTR-11, RTR-13, AMB-13: what is sent was offered, whatever else the reply lists. */
TEST(Rtr, KindsBeyondTheOfferDoNotCount)
{
	const struct {
		uint8_t offered, replied, rtr;
	} rows[] = {
		{ MPA2_RTR_SEND, MPA2_RTR_ALL, MPA2_RTR_SEND },
		{ MPA2_RTR_WRITE, MPA2_RTR_ALL, MPA2_RTR_WRITE },
		{ MPA2_RTR_READ, MPA2_RTR_ALL, MPA2_RTR_READ },
		{ MPA2_RTR_READ, MPA2_RTR_WRITE | MPA2_RTR_READ, MPA2_RTR_READ },
		{ MPA2_RTR_SEND | MPA2_RTR_READ, MPA2_RTR_ALL, MPA2_RTR_READ },
	};

	for (const auto &row : rows) {
		const mpa2_policy policy = PolicyOf(row.offered, 128, true);
		const mpa2_enhanced sent{ 4, 4, 1, row.offered };
		const mpa2_enhanced reply{ 4, 4, 1, row.replied };
		mpa2_check_result result;

		mpa2_negotiate_check(&sent, &reply, &policy, 4, 4, &result);
		EXPECT_EQ(row.rtr, result.rtr);
		EXPECT_EQ(0, result.terminate);
	}
}

/* RTR-12, F8; FS-07: A=1 with no kind offered is answered with ours. */
TEST(Rtr, NothingOfferedIsAnsweredWithWhatWeSupport)
{
	const mpa2_policy policy = PolicyOf(MPA2_RTR_READ | MPA2_RTR_SEND, 128, true);
	const mpa2_enhanced request{ 4, 4, 1, 0 };
	mpa2_reply_result result;

	mpa2_negotiate_reply(&request, &policy, 4, 4, &result);
	EXPECT_EQ(MPA2_RTR_READ | MPA2_RTR_SEND, result.reply.rtr);
}

/* RTR-05, RTR-07; F5 */
TEST(Rtr, ClientServerHasNone)
{
	const mpa2_policy policy = DefaultPolicy();
	const mpa2_enhanced request{ 4, 4, 0, MPA2_RTR_ALL };
	mpa2_reply_result result;

	mpa2_negotiate_reply(&request, &policy, 4, 4, &result);
	EXPECT_EQ(0, result.reply.peer_to_peer);
	EXPECT_EQ(0, result.reply.rtr);
}

/* RTR-14, AMB-12 */
TEST(Rtr, AModelThatDoesNotMatch)
{
	const mpa2_policy policy = DefaultPolicy();
	const mpa2_enhanced asked{ 4, 4, 1, MPA2_RTR_ALL };
	const mpa2_enhanced not_asked{ 4, 4, 0, 0 };
	mpa2_check_result result;

	const mpa2_enhanced refused{ 4, 4, 0, MPA2_RTR_ALL };
	mpa2_negotiate_check(&asked, &refused, &policy, 4, 4, &result);
	EXPECT_EQ(MPA2_TERM_NO_MATCHING_RTR, result.terminate);

	const mpa2_enhanced wants_write{ 4, 4, 1, MPA2_RTR_WRITE };
	mpa2_negotiate_check(&not_asked, &wants_write, &policy, 4, 4, &result);
	EXPECT_EQ(MPA2_RTR_WRITE, result.rtr);
	const mpa2_enhanced wants_send{ 4, 4, 1, MPA2_RTR_SEND };
	mpa2_negotiate_check(&not_asked, &wants_send, &policy, 4, 4, &result);
	EXPECT_EQ(MPA2_TERM_NO_MATCHING_RTR, result.terminate);
}

/* RTR-17, 3.3 */
TEST(Rtr, ReadNeedsASlot)
{
	const mpa2_policy policy = PolicyOf(MPA2_RTR_READ, 128, true);
	const mpa2_enhanced sent{ 0, 0, 1, MPA2_RTR_READ };
	mpa2_check_result result;

	const mpa2_enhanced raised{ 1, 0, 1, MPA2_RTR_READ };
	mpa2_negotiate_check(&sent, &raised, &policy, 0, 0, &result);
	EXPECT_EQ(MPA2_RTR_READ, result.rtr);
	EXPECT_EQ(1, result.local_ord);
	const mpa2_enhanced open{ MPA2_DEPTH_NONE, 0, 1, MPA2_RTR_READ };
	mpa2_negotiate_check(&sent, &open, &policy, 0, 0, &result);
	EXPECT_EQ(MPA2_TERM_NO_MATCHING_RTR, result.terminate);
	mpa2_negotiate_check(&sent, &open, &policy, 0, 2, &result);
	EXPECT_EQ(MPA2_RTR_READ, result.rtr);
	EXPECT_EQ(2, result.local_ord);
}

/* 3.3: a Read RTR that could not be answered is not flagged. */
TEST(Rtr, ReadIsNotFlaggedWithoutInboundDepth)
{
	const mpa2_policy policy = DefaultPolicy();
	const mpa2_enhanced request{ 4, MPA2_DEPTH_NONE, 1,
				     MPA2_RTR_WRITE | MPA2_RTR_READ };
	mpa2_reply_result result;

	mpa2_negotiate_reply(&request, &policy, 0, 4, &result);
	EXPECT_EQ(MPA2_RTR_WRITE, result.reply.rtr);
	EXPECT_EQ(0, result.local_ird);
}

/* NEG-05 and the reject example of 3.3 */
TEST(Reply, ARequiredOrdThatIsNotMetRejects)
{
	mpa2_policy policy = DefaultPolicy();
	const mpa2_enhanced request{ 4, 8, 0, 0 };
	mpa2_reply_result result;

	policy.require_ord = 8;
	mpa2_negotiate_reply(&request, &policy, 8, 8, &result);
	EXPECT_EQ(1, result.reject);
	EXPECT_EQ(8, result.reply.ird);
	EXPECT_EQ(8, result.reply.ord);
}

/* NEG-07, A-40: never more than the peer allows once siw has rounded up. */
TEST(Depths, LocalOrdIsAPowerOfTwoWithinThePeersIrd)
{
	const mpa2_policy policy = DefaultPolicy();

	for (uint16_t ird = 0; ird <= 130; ird++) {
		const mpa2_enhanced sent{ 4, 128, 0, 0 };
		const mpa2_enhanced reply{ ird, 4, 0, 0 };
		mpa2_check_result check;
		mpa2_reply_result answer;

		mpa2_negotiate_check(&sent, &reply, &policy, 4, 128, &check);
		EXPECT_LE(check.local_ord, ird);
		EXPECT_EQ(0, check.local_ord & (check.local_ord - 1));
		const mpa2_enhanced request{ ird, 4, 0, 0 };
		mpa2_negotiate_reply(&request, &policy, 4, 128, &answer);
		EXPECT_LE(answer.local_ord, ird);
		EXPECT_EQ(answer.local_ord, answer.reply.ord);
		if (ird) {
			EXPECT_GT(2 * answer.local_ord, std::min<int>(ird, 128));
		}
	}
}

/* SEC-01, SEC-03, and the cap of SEC-04: whatever the 28 bits say, the caps hold. */
TEST(Depths, CapsHoldForEveryValue)
{
	const mpa2_policy policy = PolicyOf(7, 16, true);

	for (uint32_t value = 0; value <= 0x3fff; value++) {
		const auto depth = static_cast<uint16_t>(value);
		const mpa2_enhanced peer{ depth, depth, 1, MPA2_RTR_ALL };
		const mpa2_enhanced sent{ 16, 16, 1, MPA2_RTR_ALL };
		mpa2_reply_result reply;
		mpa2_check_result check;

		mpa2_negotiate_reply(&peer, &policy, 0xffffffff, 0xffffffff, &reply);
		EXPECT_LE(reply.local_ird, 16);
		EXPECT_LE(reply.local_ord, 16);
		mpa2_negotiate_check(&sent, &peer, &policy, 16, 16, &check);
		EXPECT_LE(check.local_ird, 16);
		EXPECT_LE(check.local_ord, 16);
	}
}

} // namespace
