// SPDX-License-Identifier: GPL-2.0
/* Request and Reply frames (requirements 1.1, 1.2). */
#include <gtest/gtest.h>

#include <random>

#include "machine.h"
#include "vectors.h"

namespace
{

struct Parsed {
	mpa2_status status;
	mpa2_frame frame;
	uint32_t need_total;
	uint8_t cause;
};

Parsed Parse(const Octets &octets, mpa2_key key)
{
	/* malloc'ed to size, so that a read past the end is seen. */
	const Octets exact(octets);
	Parsed parsed{};

	parsed.status = mpa2_frame_parse(exact.data(), exact.size(), key, &parsed.frame,
					 &parsed.need_total, &parsed.cause);
	return parsed;
}

Octets Vector(const frame_vector &vector)
{
	return { vector.octets, vector.octets + vector.len };
}

/* MPA-01, MPA-02, MPA-16, MPA-28, ENH-01, ENH-02, ENH-04..06 */
TEST(Frame, BuildsTheExamplesOfTheStandard)
{
	for (const auto &vector : frame_vectors) {
		uint8_t out[MPA2_FRAME_MAX];
		const size_t len =
			mpa2_frame_build(&vector.frame, vector.ulp_pd,
					 strlen(vector.ulp_pd), out, sizeof(out));

		EXPECT_EQ(Vector(vector), Octets(out, out + len)) << vector.desc;
	}
}

/* ENH-07, ENH-15 */
TEST(Frame, ReadsTheExamplesOfTheStandard)
{
	for (const auto &vector : frame_vectors) {
		const auto key = static_cast<mpa2_key>(vector.frame.key);
		const Parsed parsed = Parse(Vector(vector), key);

		ASSERT_EQ(MPA2_DONE, parsed.status) << vector.desc;
		EXPECT_EQ(vector.len, parsed.need_total) << vector.desc;
		EXPECT_EQ(0, memcmp(&vector.frame, &parsed.frame, sizeof(parsed.frame)))
			<< vector.desc;
	}
}

/* Any split gives the same answer. */
TEST(Frame, NeedsMoreUntilItsLastOctet)
{
	for (const auto &vector : frame_vectors) {
		const auto key = static_cast<mpa2_key>(vector.frame.key);
		const Octets whole = Vector(vector);

		for (size_t len = 0; len < whole.size(); len++) {
			const Parsed parsed = Parse(
				Octets(whole.begin(), whole.begin() + long(len)), key);

			EXPECT_EQ(MPA2_NEED_MORE, parsed.status);
			EXPECT_EQ(len < 20 ? 20 : whole.size(), parsed.need_total);
		}
	}
}

/* ENH-06 */
TEST(Frame, EnhancedDataBothWays)
{
	for (const auto &vector : enhanced_vectors) {
		mpa2_frame frame{};
		uint8_t out[MPA2_FRAME_MAX];

		frame.key = MPA2_KEY_REPLY;
		frame.rev = 2;
		frame.enhanced = 1;
		frame.data = vector.data;
		ASSERT_EQ(24u, mpa2_frame_build(&frame, nullptr, 0, out, sizeof(out)));
		EXPECT_EQ(0, memcmp(out + 20, vector.octets, 4));
		const Parsed parsed = Parse(Octets(out, out + 24), MPA2_KEY_REPLY);
		ASSERT_EQ(MPA2_DONE, parsed.status);
		EXPECT_EQ(vector.data.ird, parsed.frame.data.ird);
		EXPECT_EQ(vector.data.ord, parsed.frame.data.ord);
		EXPECT_EQ(vector.data.peer_to_peer, parsed.frame.data.peer_to_peer);
		EXPECT_EQ(vector.data.rtr, parsed.frame.data.rtr);
	}
}

/* RTR-04 */
TEST(Frame, WithoutTheModelFlagNoKindIsFlagged)
{
	mpa2_frame frame{};
	uint8_t out[MPA2_FRAME_MAX];

	frame.rev = 2;
	frame.enhanced = 1;
	frame.data = { 1, 1, 0, MPA2_RTR_ALL };
	ASSERT_EQ(24u, mpa2_frame_build(&frame, nullptr, 0, out, sizeof(out)));
	EXPECT_EQ(Hex("00010001"), Octets(out + 20, out + 24));
}

struct Fault {
	const char *what;
	mpa2_key key;
	Octets octets;
	mpa2_cause cause;
};

/* MPA-03, MPA-04, MPA-05, MPA-15, MPA-25, AMB-08, AMB-09, SEC-02; T1, T2, FS-01 */
TEST(Frame, RefusesFromTheHeaderAlone)
{
	const Fault faults[] = {
		{ "reply key where a request belongs", MPA2_KEY_REQUEST,
		  Reply("50020004"), MPA2_CAUSE_BAD_KEY },
		{ "request key where a reply belongs", MPA2_KEY_REPLY,
		  Request("50020004"), MPA2_CAUSE_BAD_KEY },
		{ "last octet of the key", MPA2_KEY_REQUEST,
		  Hex("4d504120494420526571204672616d64 40010000"), MPA2_CAUSE_BAD_KEY },
		{ "an SSH banner", MPA2_KEY_REPLY,
		  Hex("5353482d322e302d4f70656e5353485f382e3970"), MPA2_CAUSE_BAD_KEY },
		{ "revision 0", MPA2_KEY_REQUEST, Request("40000000"),
		  MPA2_CAUSE_BAD_REV },
		{ "revision 3", MPA2_KEY_REQUEST, Request("40030000"),
		  MPA2_CAUSE_BAD_REV },
		{ "revision 129", MPA2_KEY_REQUEST, Request("40810000"),
		  MPA2_CAUSE_BAD_REV },
		{ "revision 255", MPA2_KEY_REQUEST, Request("40ff0000"),
		  MPA2_CAUSE_BAD_REV },
		{ "513 octets", MPA2_KEY_REQUEST, Request("40010201"),
		  MPA2_CAUSE_PD_TOO_LONG },
		{ "65535 octets", MPA2_KEY_REPLY, Reply("1002ffff"),
		  MPA2_CAUSE_PD_TOO_LONG },
		{ "enhanced request of 0", MPA2_KEY_REQUEST, Request("10020000"),
		  MPA2_CAUSE_ENHANCED_TOO_SHORT },
		{ "enhanced request of 3", MPA2_KEY_REQUEST, Request("10020003"),
		  MPA2_CAUSE_ENHANCED_TOO_SHORT },
		{ "enhanced accept of 0", MPA2_KEY_REPLY, Reply("10020000"),
		  MPA2_CAUSE_ENHANCED_TOO_SHORT },
		{ "enhanced accept of 3", MPA2_KEY_REPLY, Reply("10020003"),
		  MPA2_CAUSE_ENHANCED_TOO_SHORT },
		{ "R does not excuse a request", MPA2_KEY_REQUEST, Request("30020003"),
		  MPA2_CAUSE_ENHANCED_TOO_SHORT },
	};

	for (const auto &fault : faults) {
		const Parsed parsed = Parse(fault.octets, fault.key);

		EXPECT_EQ(MPA2_ERROR, parsed.status) << fault.what;
		EXPECT_EQ(fault.cause, parsed.cause) << fault.what;
	}
}

/* AMB-05, SEC-11; T4, FS-02 */
TEST(Frame, AShortEnhancedRejectCarriesNothing)
{
	const Parsed parsed = Parse(Reply("30020001 aa"), MPA2_KEY_REPLY);

	ASSERT_EQ(MPA2_DONE, parsed.status);
	EXPECT_EQ(1, parsed.frame.reject);
	EXPECT_EQ(0, parsed.frame.has_data);
	EXPECT_EQ(0, parsed.frame.ulp_length);
}

/* MPA-24, F3, AMB-08 */
TEST(Frame, ReservedBitsAreNotLookedAt)
{
	Parsed parsed = Parse(Request("1f01 0002 6869"), MPA2_KEY_REQUEST);

	ASSERT_EQ(MPA2_DONE, parsed.status);
	EXPECT_EQ(0, parsed.frame.enhanced);
	EXPECT_EQ(20, parsed.frame.ulp_offset);
	EXPECT_EQ(2, parsed.frame.ulp_length);
	parsed = Parse(Request("0f02 0000"), MPA2_KEY_REQUEST);
	EXPECT_EQ(MPA2_DONE, parsed.status);
}

/* MPA-15, ENH-05, AMB-31 */
TEST(Frame, PrivateDataUpToTheLimitAndNotBeyond)
{
	const std::string data(MPA2_PD_MAX + 1, 'x');
	uint8_t out[MPA2_FRAME_MAX];
	mpa2_frame frame{};

	frame.rev = 1;
	EXPECT_EQ(532u, mpa2_frame_build(&frame, data.data(), 512, out, sizeof(out)));
	EXPECT_EQ(MPA2_DONE, Parse(Octets(out, out + 532), MPA2_KEY_REQUEST).status);
	EXPECT_EQ(0u, mpa2_frame_build(&frame, data.data(), 513, out, sizeof(out)));
	frame.rev = 2;
	frame.enhanced = 1;
	EXPECT_EQ(532u, mpa2_frame_build(&frame, data.data(), 508, out, sizeof(out)));
	EXPECT_EQ(Hex("0200"), Octets(out + 18, out + 20));
	EXPECT_EQ(0u, mpa2_frame_build(&frame, data.data(), 509, out, sizeof(out)));
}

TEST(Frame, IsNotBuiltIntoTooSmallABuffer)
{
	uint8_t out[24];
	mpa2_frame frame{};

	frame.rev = 2;
	frame.enhanced = 1;
	for (size_t size = 0; size < 24; size++)
		EXPECT_EQ(0u, mpa2_frame_build(&frame, nullptr, 0, out, size));
	EXPECT_EQ(24u, mpa2_frame_build(&frame, nullptr, 0, out, 24));
}

/* ENH-01: there is no enhanced data in Rev 1. */
TEST(Frame, EnhancedIsNotBuiltInRev1)
{
	uint8_t out[MPA2_FRAME_MAX];
	mpa2_frame frame{};

	frame.rev = MPA2_REV_1;
	frame.enhanced = 1;
	EXPECT_EQ(0u, mpa2_frame_build(&frame, nullptr, 0, out, sizeof(out)));
}

/* Whatever comes: an answer, no fault, and no data outside of the frame. */
TEST(Frame, RandomOctetsBehindAGoodKey)
{
	std::mt19937 random(6581);

	for (int round = 0; round < 20000; round++) {
		Octets octets = round % 2 ? kRequestKey : kReplyKey;
		const size_t len = random() % 40;

		for (size_t i = 0; i < len; i++)
			octets.push_back(static_cast<uint8_t>(random()));
		const Parsed parsed =
			Parse(octets, round % 2 ? MPA2_KEY_REQUEST : MPA2_KEY_REPLY);
		if (parsed.status != MPA2_DONE)
			continue;
		EXPECT_LE(parsed.need_total, octets.size());
		EXPECT_LE(parsed.frame.ulp_offset + parsed.frame.ulp_length,
			  int(parsed.need_total));
	}
}

} // namespace
