// SPDX-License-Identifier: GPL-2.0
/* FPDUs: RTR messages, Terminate, the look at the first one (1.3 to 1.6). */
#include <gtest/gtest.h>

#include "machine.h"
#include "vectors.h"

namespace
{

struct Parsed {
	mpa2_status status;
	mpa2_fpdu fpdu;
	uint32_t need_total;
	uint8_t cause;
};

Parsed Parse(const Octets &octets, bool crc)
{
	const Octets exact(octets);
	Parsed parsed{};

	parsed.status = mpa2_fpdu_parse(exact.data(), exact.size(), crc, &parsed.fpdu,
					&parsed.need_total, &parsed.cause);
	return parsed;
}

/* MPA-37: check value and both annotated frames of RFC 5044. */
TEST(Crc, MatchesTheReferenceValues)
{
	EXPECT_EQ(0xE3069283u, mpa2_crc32c("123456789", 9));
	Octets first = Hex("00000000 002a 4143 00000000 00000000 00000001 "
			   "00000000") +
		       Octets(24, 0);
	EXPECT_EQ(0x83992352u, mpa2_crc32c(first.data(), first.size()));
	Octets second = Hex("002a 4143 00000000 00000000 00000002 00000000 "
			    "00000014") +
			Octets(24, 0);
	EXPECT_EQ(0x98589284u, mpa2_crc32c(second.data(), second.size()));
}

/* MPA-26, MPA-28, MPA-37, RTR-13, RTR-23, AMB-01, AMB-22; FR-07 */
TEST(Rtr, IsTheStandardsOctets)
{
	for (const auto &vector : rtr_vectors) {
		uint8_t out[MPA2_RTR_MAX];
		const size_t len =
			mpa2_rtr_build(static_cast<mpa2_rtr>(vector.kind), vector.crc,
				       vector.markers, out, sizeof(out));

		EXPECT_EQ(Octets(vector.octets, vector.octets + vector.len),
			  Octets(out, out + len))
			<< vector.desc;
		EXPECT_EQ(0u,
			  mpa2_rtr_build(static_cast<mpa2_rtr>(vector.kind), vector.crc,
					 vector.markers, out, vector.len - 1u));
	}
}

TEST(Rtr, IsOneKind)
{
	uint8_t out[MPA2_RTR_MAX];

	for (const auto kind : { MPA2_RTR_NONE, MPA2_RTR_ALL })
		EXPECT_EQ(0u, mpa2_rtr_build(kind, true, false, out, sizeof(out)));
}

/* Nothing is written behind the end of a buffer that is exactly so long. */
TEST(Fpdu, IsNotBuiltIntoTooSmallABuffer)
{
	for (size_t size = 0; size < 28; size++) {
		std::vector<uint8_t> out(size);

		EXPECT_EQ(0u, mpa2_terminate_build(2, 0, MPA2_TERM_INSUFFICIENT_IRD, true,
						   false, out.data(), size));
		EXPECT_EQ(size < 20 ? 0u : 20u,
			  mpa2_read_response_build(1, 0, true, false, out.data(), size));
	}
}

/* RTR-21 */
TEST(Rtr, ReadResponseCopiesTheSink)
{
	uint8_t out[MPA2_RTR_MAX];

	for (int crc = 0; crc < 2; crc++) {
		ASSERT_EQ(20u,
			  mpa2_read_response_build(1, 0, crc, false, out, sizeof(out)));
		EXPECT_EQ(0, memcmp(out, read_response_octets[crc], 20));
	}
	ASSERT_EQ(20u, mpa2_read_response_build(0xabcd, 0x1122334455667788, false, false,
						out, sizeof(out)));
	EXPECT_EQ(Hex("000ec142 0000abcd 1122334455667788 00000000"),
		  Octets(out, out + 20));
}

/* TERM-01, TERM-05, TERM-06; FS-12 */
TEST(Terminate, IsTheStandardsOctets)
{
	for (const auto &vector : terminate_vectors) {
		uint8_t out[MPA2_TERMINATE_MAX];

		ASSERT_EQ(28u, mpa2_terminate_build(2, 0, vector.code, vector.crc, false,
						    out, sizeof(out)));
		EXPECT_EQ(0, memcmp(out, vector.octets, 28));
	}
}

TEST(Terminate, WithTheHeaderItMeans)
{
	uint8_t out[MPA2_TERMINATE_MAX];
	const Octets header = Hex("4143 00000000 00000000 00000001 00000000");

	ASSERT_EQ(48u,
		  mpa2_terminate_build_with_header(1, 2, 2, header.data(), header.size(),
						   0x12, true, false, out, sizeof(out)));
	EXPECT_EQ(0, memcmp(out, terminate_with_header_octets, 48));
}

/* MPA-38, RTR-18 */
TEST(FirstFpdu, IsAnRtrOnlyOnceItIsWhole)
{
	for (const auto &vector : rtr_vectors) {
		const Octets whole(vector.octets, vector.octets + vector.len);

		if (vector.markers)
			continue; /* we never ask for them */
		for (size_t len = 0; len < whole.size(); len++) {
			const Parsed parsed =
				Parse(Octets(whole.begin(), whole.begin() + long(len)),
				      vector.crc);

			EXPECT_EQ(MPA2_NEED_MORE, parsed.status);
			EXPECT_EQ(len < 2 ? 2u : vector.len, parsed.need_total);
		}
		const Parsed parsed = Parse(whole, vector.crc);
		EXPECT_EQ(MPA2_DONE, parsed.status) << vector.desc;
		EXPECT_EQ(MPA2_FPDU_RTR, parsed.fpdu.kind);
		EXPECT_EQ(vector.kind, parsed.fpdu.rtr);
	}
}

/* MPA-19, MPA-22 */
TEST(FirstFpdu, CrcCountsOnlyWhenItIsOn)
{
	for (const auto &vector : rtr_vectors) {
		Octets broken(vector.octets, vector.octets + vector.len);

		if (vector.markers || !vector.crc)
			continue;
		for (size_t at = 2; at < broken.size(); at++) {
			broken[at] ^= 1;
			const Parsed parsed = Parse(broken, true);
			EXPECT_EQ(MPA2_ERROR, parsed.status);
			EXPECT_EQ(MPA2_CAUSE_BAD_CRC, parsed.cause);
			broken[at] ^= 1;
		}
		broken.back() ^= 1;
		EXPECT_EQ(MPA2_DONE, Parse(broken, false).status);
	}
}

/* RTR-20, RTR-21, SEC-06: nobody looks at STag and TO of an empty message. */
TEST(FirstFpdu, AnyStagAndOffsetWillDo)
{
	EXPECT_EQ(MPA2_RTR_WRITE,
		  Parse(Hex("000ec140 ffffffff ffffffffffffffff 00000000"), false)
			  .fpdu.rtr);
	EXPECT_EQ(MPA2_RTR_WRITE,
		  Parse(Hex("000ec140 00000000 0000000000000000 00000000"), false)
			  .fpdu.rtr);
	const Parsed read = Parse(Hex("002e4141 00000000 00000001 00000001 00000000 "
				      "0000abcd 0000000000001234 00000000 00001234 "
				      "0000000000005678 00000000"),
				  false);
	EXPECT_EQ(MPA2_RTR_READ, read.fpdu.rtr);
	EXPECT_EQ(0xabcdu, read.fpdu.sink_stag);
	EXPECT_EQ(0x1234u, read.fpdu.sink_to);
}

/* AMB-18, AMB-02 */
TEST(FirstFpdu, OtherMessagesAreMessages)
{
	const char *const messages[] = {
		/* a Send of four octets */
		"00164143 00000000 00000000 00000001 00000000 61626364 00000000",
		/* a Write of two octets */
		"0010c140 00000001 0000000000000000 6162 00000000 0000",
		/* the first segment of a longer Send */
		"00160143 00000000 00000000 00000001 00000000 61626364 00000000",
		/* an empty first segment of a longer Send */
		"00120143 00000000 00000000 00000001 00000000 00000000",
		/* a Read of four octets */
		"002e4141 00000000 00000001 00000001 00000000 00000001 "
		"0000000000000000 00000004 00000001 0000000000000000 00000000",
	};

	for (const auto *message : messages) {
		const Parsed parsed = Parse(Hex(message), false);

		EXPECT_EQ(MPA2_DONE, parsed.status) << message;
		EXPECT_EQ(MPA2_FPDU_MESSAGE, parsed.fpdu.kind) << message;
	}
}

/* AMB-01 */
TEST(FirstFpdu, ABareOneIsKnownAsSuch)
{
	EXPECT_EQ(MPA2_FPDU_EMPTY, Parse(Hex("0000000000000000"), false).fpdu.kind);
	EXPECT_EQ(MPA2_FPDU_EMPTY, Parse(Hex("00000000c74b6748"), true).fpdu.kind);
}

/* TERM-09 */
TEST(FirstFpdu, ATerminateIsNoRtr)
{
	for (const auto &vector : terminate_vectors)
		EXPECT_EQ(MPA2_FPDU_TERMINATE,
			  Parse(Octets(vector.octets, vector.octets + 28), vector.crc)
				  .fpdu.kind);
	/* Placed even when its control field is missing. */
	EXPECT_EQ(
		MPA2_FPDU_TERMINATE,
		Parse(Hex("00124147 00000000 00000002 00000001 00000000 00000000"), false)
			.fpdu.kind);
}

struct HeaderFault {
	const char *what;
	const char *octets;
	uint8_t layer, etype, code, header_len;
};

/* MPA-26, SEC-07, TERM-11; T10 */
TEST(FirstFpdu, EachWrongFieldHasItsTerminate)
{
	const HeaderFault faults[] = {
		{ "DDP version of a tagged one",
		  "000ec040 00000001 0000000000000000 00000000", 1, 1, 4, 14 },
		{ "DDP version of an untagged one",
		  "00124043 00000000 00000000 00000001 00000000 00000000", 1, 2, 6, 18 },
		{ "queue number", "00124143 00000000 00000003 00000001 00000000 00000000",
		  1, 2, 1, 18 },
		{ "queue number before opcode (the first fault counts)",
		  "0012414f 00000000 00000003 00000001 00000000 00000000", 1, 2, 1, 18 },
		{ "MSN", "00124143 00000000 00000000 00000002 00000000 00000000", 1, 2, 3,
		  18 },
		{ "MO", "00124143 00000000 00000000 00000001 00000004 00000000", 1, 2, 4,
		  18 },
		{ "RDMAP version",
		  "00124103 00000000 00000000 00000001 00000000 00000000", 0, 2, 5, 18 },
		{ "opcode", "0012414f 00000000 00000000 00000001 00000000 00000000", 0, 2,
		  6, 18 },
		{ "a Send on the queue of Reads",
		  "00124143 00000000 00000001 00000001 00000000 00000000", 0, 2, 6, 18 },
		{ "a Read Response to no Read",
		  "000ec142 00000001 0000000000000000 00000000", 0, 2, 6, 14 },
		{ "too short for a header", "00024143 00000000", 0, 2, 0xff, 0 },
		{ "a Read Request that is cut",
		  "00124141 00000000 00000001 00000001 00000000 00000000", 0, 2, 0xff,
		  0 },
	};

	for (const auto &fault : faults) {
		const Parsed parsed = Parse(Hex(fault.octets), false);

		EXPECT_EQ(MPA2_ERROR, parsed.status) << fault.what;
		EXPECT_EQ(MPA2_CAUSE_BAD_HEADER, parsed.cause) << fault.what;
		EXPECT_EQ(fault.layer, parsed.fpdu.term_layer) << fault.what;
		EXPECT_EQ(fault.etype, parsed.fpdu.term_etype) << fault.what;
		EXPECT_EQ(fault.code, parsed.fpdu.term_code) << fault.what;
		EXPECT_EQ(fault.header_len, parsed.fpdu.term_header_len) << fault.what;
	}
}

mpa2_wire Describe(const Octets &octets)
{
	const Octets exact(octets);
	mpa2_wire wire;

	mpa2_wire_describe(exact.data(), exact.size(), &wire);
	return wire;
}

/* For counters and traces: 1.5, 1.6, with and without a Marker. */
TEST(Describe, KnowsEveryMessageOfSetup)
{
	for (const auto &vector : rtr_vectors) {
		const mpa2_wire wire =
			Describe(Octets(vector.octets, vector.octets + vector.len));

		EXPECT_EQ(MPA2_WIRE_RTR, wire.kind) << vector.desc;
		EXPECT_EQ(vector.kind, wire.rtr) << vector.desc;
	}
	for (const auto &vector : terminate_vectors) {
		uint8_t out[MPA2_TERMINATE_MAX];

		for (const bool markers : { false, true }) {
			const size_t len = mpa2_terminate_build(
				2, 0, vector.code, true, markers, out, sizeof(out));
			const mpa2_wire wire = Describe(Octets(out, out + len));

			EXPECT_EQ(MPA2_WIRE_TERMINATE, wire.kind);
			EXPECT_EQ(2, wire.term_layer);
			EXPECT_EQ(0, wire.term_etype);
			EXPECT_EQ(vector.code, wire.term_code);
		}
	}
	EXPECT_EQ(MPA2_WIRE_READ_RESPONSE,
		  Describe(Hex("000ec142 00000001 0000000000000000 00000000")).kind);
}

TEST(Describe, KnowsFramesAndNothingElse)
{
	for (const auto &vector : frame_vectors) {
		const mpa2_wire wire =
			Describe(Octets(vector.octets, vector.octets + vector.len));

		EXPECT_EQ(vector.octets[9] == 'q' ? MPA2_WIRE_REQUEST : MPA2_WIRE_REPLY,
			  wire.kind);
		EXPECT_EQ(vector.octets[17], wire.frame.rev);
	}
	EXPECT_EQ(MPA2_WIRE_OTHER, Describe({}).kind);
	EXPECT_EQ(MPA2_WIRE_OTHER, Describe(Hex("00000000")).kind);
	EXPECT_EQ(MPA2_WIRE_OTHER, Describe(Hex("0000000000000000")).kind);
	/* An ordinary Send of four octets. */
	EXPECT_EQ(MPA2_WIRE_OTHER,
		  Describe(Hex("00164143 00000000 00000000 00000001 00000000 61626364 "
			       "00000000"))
			  .kind);
}

/* MPA-37 */
TEST(FirstFpdu, ItsLengthIsBounded)
{
	EXPECT_EQ(MPA2_NEED_MORE, Parse(Hex("fd00"), false).status);
	const Parsed parsed = Parse(Hex("fd01"), false);
	EXPECT_EQ(MPA2_ERROR, parsed.status);
	EXPECT_EQ(MPA2_CAUSE_BAD_FPDU_LENGTH, parsed.cause);
}

} // namespace
