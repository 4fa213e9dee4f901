// SPDX-License-Identifier: GPL-2.0
/* DDP stream sessions: chunks (1.7), the machine (4.4), MPA's octets as chunks. */
#include <gtest/gtest.h>

#include <random>

#include "session_machine.h"

namespace
{

const std::string kWrite = "c14000000001000000000000000000";

Octets ControlOf(uint16_t ssn, mpa2_function code, const Octets &pd)
{
	uint8_t out[MPA2_CONTROL_MAX];
	const size_t len =
		mpa2_control_build(ssn, code, pd.data(), pd.size(), out, sizeof(out));

	return { out, out + len };
}

mpa2_chunk_fault Parse(uint32_t ppid, const Octets &octets, mpa2_chunk *chunk)
{
	return mpa2_chunk_parse(ppid, octets.data(), octets.size(), chunk);
}

/* SCTP-08, SCTP-18, SCTP-30, SCTP-31: the octets of requirements 1.7. */
TEST(Chunk, ControlIsTheStandardsOctets)
{
	EXPECT_EQ(Hex("000000016869"), ControlOf(0, MPA2_FN_INITIATE, Hex("6869")));
	EXPECT_EQ(Hex("00000002"), ControlOf(0, MPA2_FN_ACCEPT, {}));
	EXPECT_EQ(Hex("00000003"), ControlOf(0, MPA2_FN_REJECT, {}));
	EXPECT_EQ(Hex("00010004"), ControlOf(1, MPA2_FN_TERMINATE, {}));
	EXPECT_EQ(Hex("00000005c020c0106869"),
		  ControlOf(0, MPA2_FN_ENHANCED_INITIATE, Hex("c020c0106869")));
	EXPECT_EQ(Hex("0000000680108008"),
		  ControlOf(0, MPA2_FN_ENHANCED_ACCEPT, Hex("80108008")));
	EXPECT_EQ(Hex("0000000780108040"),
		  ControlOf(0, MPA2_FN_ENHANCED_REJECT, Hex("80108040")));
}

/* SCTP-18, SCTP-30, SCTP-31, AMB-31 */
TEST(Chunk, ControlKeepsItsLimits)
{
	EXPECT_EQ(516u, ControlOf(0, MPA2_FN_INITIATE, Octets(512)).size());
	EXPECT_EQ(0u, ControlOf(0, MPA2_FN_INITIATE, Octets(513)).size());
	EXPECT_EQ(516u, ControlOf(0, MPA2_FN_ENHANCED_INITIATE, Octets(512)).size());
	EXPECT_EQ(0u, ControlOf(0, MPA2_FN_ENHANCED_INITIATE, Octets(3)).size());
	EXPECT_EQ(0u, ControlOf(0, MPA2_FN_ENHANCED_ACCEPT, Octets(3)).size());
	EXPECT_EQ(0u, ControlOf(0, MPA2_FN_TERMINATE, Octets(1)).size());
	uint8_t out[5];
	EXPECT_EQ(0u, mpa2_control_build(0, MPA2_FN_INITIATE, "hi", 2, out, sizeof(out)));
}

/* SCTP-12, SCTP-18, SCTP-30, SCTP-31, AMB-05, AMB-31 */
TEST(Chunk, FaultsOfUserData)
{
	static const struct {
		uint32_t ppid;
		Octets octets;
		mpa2_chunk_fault fault;
	} cases[] = {
		{ 15, Hex("00000001"), MPA2_CHUNK_BAD_PPID },
		{ 18, Hex("00000001"), MPA2_CHUNK_BAD_PPID },
		{ 17, {}, MPA2_CHUNK_SHORT },
		{ 17, Hex("00"), MPA2_CHUNK_SHORT },
		{ 17, Hex("0000"), MPA2_CHUNK_SHORT },
		{ 17, Hex("000000"), MPA2_CHUNK_SHORT },
		{ 17, Hex("00000000"), MPA2_CHUNK_BAD_CODE },
		{ 17, Hex("00000008"), MPA2_CHUNK_BAD_CODE },
		{ 17, Hex("0000ffff"), MPA2_CHUNK_BAD_CODE },
		{ 17, Hex("00000001"), MPA2_CHUNK_GOOD },
		{ 17, Hex("00000001") + Octets(512), MPA2_CHUNK_GOOD },
		{ 17, Hex("00000001") + Octets(513), MPA2_CHUNK_PD_TOO_LONG },
		{ 17, Hex("00000004") + Octets(600), MPA2_CHUNK_GOOD },
		{ 17, Hex("00000005") + Octets(3), MPA2_CHUNK_NO_ENHANCED_DATA },
		{ 17, Hex("00000006") + Octets(3), MPA2_CHUNK_NO_ENHANCED_DATA },
		{ 17, Hex("00000007") + Octets(3), MPA2_CHUNK_GOOD },
		{ 17, Hex("00000006") + Octets(513), MPA2_CHUNK_PD_TOO_LONG },
		{ 16, Hex("00"), MPA2_CHUNK_SHORT },
		{ 16, Hex("0001") + Octets(13), MPA2_CHUNK_SHORT },
		{ 16, Hex("0001") + Octets(14), MPA2_CHUNK_GOOD },
		{ 16, Hex("0001") + Octets(64768), MPA2_CHUNK_GOOD },
		{ 16, Hex("0001") + Octets(64769), MPA2_CHUNK_SHORT },
	};

	for (const auto &one : cases) {
		mpa2_chunk chunk;

		EXPECT_EQ(one.fault, Parse(one.ppid, one.octets, &chunk))
			<< one.ppid << " " << one.octets.size();
	}
	mpa2_chunk chunk;
	const Octets ended = Hex("000700046869");
	ASSERT_EQ(MPA2_CHUNK_GOOD, Parse(17, ended, &chunk));
	EXPECT_EQ(7, chunk.ssn);
	EXPECT_EQ(0u, chunk.octets_len);
}

/* ---- MPA's octets as chunks ---- */

/* SCTP-28, SCTP-30, AMB-06: the private data goes as it is, both ways. */
TEST(Carried, FrameAndControlChunkSayTheSame)
{
	static const struct {
		Octets frame;
		mpa2_key key;
		uint16_t code;
		const char *pd;
	} cases[] = {
		{ Request("0001000268 69"), MPA2_KEY_REQUEST, 1, "6869" },
		{ Reply("00010000"), MPA2_KEY_REPLY, 2, "" },
		{ Reply("20010002 6869"), MPA2_KEY_REPLY, 3, "6869" },
		{ Request("10020006 c020c010 6869"), MPA2_KEY_REQUEST, 5,
		  "c020c0106869" },
		{ Reply("10020004 80108008"), MPA2_KEY_REPLY, 6, "80108008" },
		{ Reply("30020004 80108040"), MPA2_KEY_REPLY, 7, "80108040" },
		/* flags that mean nothing without A */
		{ Request("10020004 4020c010"), MPA2_KEY_REQUEST, 5, "4020c010" },
	};

	for (const auto &one : cases) {
		mpa2_frame frame;
		mpa2_carried carried;
		uint32_t total;
		uint8_t cause, out[MPA2_FRAME_MAX];
		const Octets pd = Hex(one.pd);

		ASSERT_EQ(MPA2_DONE, mpa2_frame_parse(one.frame.data(), one.frame.size(),
						      one.key, &frame, &total, &cause));
		mpa2_frame_to_control(&frame, &carried);
		EXPECT_EQ(one.code, carried.code);
		EXPECT_EQ(pd,
			  Octets(one.frame.begin() + carried.pd_offset,
				 one.frame.begin() + carried.pd_offset + carried.pd_len));
		const size_t len =
			mpa2_control_to_frame(static_cast<mpa2_function>(one.code),
					      pd.data(), pd.size(), out, sizeof(out));
		EXPECT_EQ(one.frame, Octets(out, out + len)) << one.code;
		EXPECT_EQ(0u, mpa2_control_to_frame(static_cast<mpa2_function>(one.code),
						    pd.data(), pd.size(), out, len - 1));
	}
}

/* SCTP-31, AMB-05 */
TEST(Carried, WhatNoFrameSays)
{
	uint8_t out[MPA2_FRAME_MAX];

	EXPECT_EQ(0u, mpa2_control_to_frame(MPA2_FN_TERMINATE, "", 0, out, sizeof(out)));
	EXPECT_EQ(0u, mpa2_control_to_frame(MPA2_FN_ENHANCED_INITIATE, "abc", 3, out,
					    sizeof(out)));
	const size_t len = mpa2_control_to_frame(MPA2_FN_ENHANCED_REJECT, "abc", 3, out,
						 sizeof(out));
	EXPECT_EQ(Reply("20010000"), Octets(out, out + len));
}

TEST(Carried, FpduAroundASegment)
{
	uint8_t out[MPA2_FPDU_TAIL_MAX];
	uint32_t length = 0;

	for (uint32_t len = MPA2_SEGMENT_MIN; len <= MPA2_ULPDU_MAX; len += 1231) {
		uint8_t head[MPA2_FPDU_LEN_OCTETS];

		ASSERT_EQ(2u, mpa2_fpdu_head(len, head));
		EXPECT_EQ(len, head[0] * 256u + head[1]);
		EXPECT_EQ(MPA2_DONE, mpa2_fpdu_length(head, 2, &length));
		EXPECT_EQ(len, length);
		const size_t tail = mpa2_fpdu_tail(len, out);
		EXPECT_EQ(mpa2_fpdu_size(len), 2 + len + tail);
		EXPECT_EQ(0u, mpa2_fpdu_size(len) % 4);
		ASSERT_TRUE(tail >= 4 && tail <= sizeof(out));
		EXPECT_EQ(Octets(tail), Octets(out, out + tail));
	}
	EXPECT_EQ(0u, mpa2_fpdu_head(MPA2_ULPDU_MAX + 1, out));
	const Octets small = { 0, 13 }, big = { 0xfd, 0x01 };
	EXPECT_EQ(MPA2_NEED_MORE, mpa2_fpdu_length(small.data(), 1, &length));
	EXPECT_EQ(MPA2_ERROR, mpa2_fpdu_length(small.data(), 2, &length));
	EXPECT_EQ(MPA2_ERROR, mpa2_fpdu_length(big.data(), 2, &length));
}

/* ---- legal sequences ---- */

/* An active session whose Initiate waits for its answer. */
SessionMachine Waiting(bool enhanced)
{
	SessionMachine machine;

	machine.Local(MPA2_SEV_INITIATE, enhanced ? Hex("c020c010") : Octets{}, enhanced);
	return machine;
}

SessionMachine Asked(bool enhanced)
{
	SessionMachine machine;

	machine.Control(enhanced ? "00000005c020c010" : "00000001");
	return machine;
}

SessionMachine Open(bool active)
{
	SessionMachine machine = active ? Waiting(false) : Asked(false);

	if (active)
		machine.Control("00000002");
	else
		machine.Local(MPA2_SEV_ACCEPT);
	machine.Local(MPA2_SEV_ACKED);
	return machine;
}

/* Q1 and Q4, active; SCTP-13, SCTP-32, SCTP-34 */
TEST(Session, ActiveAcceptedAndClosed)
{
	for (const bool enhanced : { false, true }) {
		SessionMachine machine;

		EXPECT_EQ(
			(Names{ enhanced ? "SEND(00000005c020c0106869)" :
					   "SEND(00000001c020c0106869)",
				"ARM_TIMER(2)" }),
			machine.Local(MPA2_SEV_INITIATE, Hex("c020c0106869"), enhanced));
		EXPECT_EQ((Names{ "STOP_TIMER", "ACCEPTED(80108008)" }),
			  machine.Control(enhanced ? "0000000680108008" :
						     "0000000280108008"));
		EXPECT_EQ((Names{ "SEND_SEGMENT(0001)" }),
			  machine.Local(MPA2_SEV_SEGMENT, Hex(kWrite)));
		EXPECT_EQ((Names{ "DELIVER(" + kWrite + ")" }),
			  machine.Chunk(Segment(1)));
		EXPECT_EQ((Names{ "SEND(00020004)", "ARM_TIMER(4)", "ENDED(2)" }),
			  machine.Local(MPA2_SEV_CLOSE));
		/* SCTP-22: not before the peer's end and the acknowledgements. */
		EXPECT_EQ(Names{}, machine.Control("00020004"));
		EXPECT_EQ((Names{ "STOP_TIMER", "REUSABLE" }),
			  machine.Local(MPA2_SEV_ACKED));
		EXPECT_EQ(MPA2_SS_IDLE, machine.Info().state);
		EXPECT_EQ(0, machine.Info().tx_ssn);
		EXPECT_EQ(1, machine.ends);
	}
}

/* Q1 and Q4, passive: the peer's Terminate is answered. SCTP-13, SCTP-17, SCTP-19 */
TEST(Session, PassiveAcceptedAndClosedByThePeer)
{
	for (const bool enhanced : { false, true }) {
		SessionMachine machine;

		EXPECT_EQ((Names{ "REQUEST(c020c0106869)" }),
			  machine.Control(enhanced ? "00000005c020c0106869" :
						     "00000001c020c0106869"));
		EXPECT_EQ((Names{ enhanced ? "SEND(0000000680108008)" :
					     "SEND(0000000280108008)" }),
			  machine.Local(MPA2_SEV_ACCEPT, Hex("80108008")));
		machine.Local(MPA2_SEV_ACKED);
		EXPECT_EQ((Names{ "DELIVER(" + kWrite + ")" }),
			  machine.Chunk(Segment(1)));
		EXPECT_EQ((Names{ "SEND(00010004)", "ARM_TIMER(4)", "ENDED(0)" }),
			  machine.Control("00020004"));
		EXPECT_EQ((Names{ "STOP_TIMER", "REUSABLE" }),
			  machine.Local(MPA2_SEV_ACKED));
		EXPECT_EQ(1, machine.ends);
	}
}

/* Q2, Q5; SCTP-14, SCTP-29, AMB-28 */
TEST(Session, Rejected)
{
	for (const bool enhanced : { false, true }) {
		SessionMachine active = Waiting(enhanced), passive = Asked(enhanced);

		EXPECT_EQ((Names{ "REJECTED(801080406869)", "ARM_TIMER(4)" }),
			  active.Control(enhanced ? "00000007801080406869" :
						    "00000003801080406869"));
		EXPECT_EQ((Names{ "STOP_TIMER", "REUSABLE" }),
			  active.Local(MPA2_SEV_ACKED));
		EXPECT_EQ((Names{ enhanced ? "SEND(0000000780108040)" :
					     "SEND(0000000380108040)",
				  "ARM_TIMER(4)", "ENDED(2)" }),
			  passive.Local(MPA2_SEV_REJECT, Hex("80108040")));
		EXPECT_EQ((Names{ "STOP_TIMER", "REUSABLE" }),
			  passive.Local(MPA2_SEV_ACKED));
		EXPECT_EQ(1, active.ends);
		EXPECT_EQ(1, passive.ends);
	}
}

/* Q3, Q6; SCTP-15, SCTP-16, AMB-29: a Terminate is not answered. */
TEST(Session, Refused)
{
	for (const bool enhanced : { false, true }) {
		SessionMachine active = Waiting(enhanced), passive = Asked(enhanced);

		EXPECT_EQ((Names{ "ARM_TIMER(4)", "ENDED(1)" }),
			  active.Control("00000004"));
		EXPECT_EQ((Names{ "STOP_TIMER", "REUSABLE" }),
			  active.Local(MPA2_SEV_ACKED));
		EXPECT_EQ((Names{ "SEND(00000004)", "ARM_TIMER(4)", "ENDED(2)" }),
			  passive.Local(MPA2_SEV_REFUSE));
		EXPECT_EQ((Names{ "STOP_TIMER", "REUSABLE" }),
			  passive.Local(MPA2_SEV_ACKED));
	}
}

TEST(Session, RequestTakenBackByThePeer)
{
	SessionMachine machine = Asked(true);

	EXPECT_EQ((Names{ "ARM_TIMER(4)", "ENDED(0)", "STOP_TIMER", "REUSABLE" }),
		  machine.Control("00010004"));
	EXPECT_EQ(Names{}, machine.Local(MPA2_SEV_ACCEPT));
}

/* SCTP-31: what stands in a Terminate is not looked at. */
TEST(Session, TerminateWithPrivateData)
{
	SessionMachine machine = Open(true);

	EXPECT_EQ((Names{ "SEND(00010004)", "ARM_TIMER(4)", "ENDED(0)" }),
		  machine.Control("000100046869"));
}

/* ---- illegal ones ---- */

/* SCTP-12, SCTP-31, SCTP-34: each illegal chunk in each state ends the session once,
 * by one Terminate. */
TEST(Session, IllegalChunksEndIt)
{
	static const char *const in_wait[] = {
		"00000001", "00000005c020c010", "00000008", "0000ffff", "00000000",
	};
	static const char *const in_open[] = {
		"00010001",
		"00010002",
		"00010003",
		"00010005c020c010",
		"00010006c020c010",
		"00010007c020c010",
		"0001ffff",
		"0001",
		"00",
	};

	for (const bool enhanced : { false, true }) {
		auto chunks =
			std::vector<std::string>(std::begin(in_wait), std::end(in_wait));
		/* A reply of the other family; an Accept without its data. */
		chunks.push_back(enhanced ? "00000002" : "0000000680108008");
		chunks.push_back(enhanced ? "00000003" : "0000000780108008");
		chunks.push_back("00000006800000");
		for (const auto &chunk : chunks) {
			SessionMachine machine = Waiting(enhanced);

			machine.Local(MPA2_SEV_ACKED);
			EXPECT_EQ((Names{ "SEND(00010004)", "ARM_TIMER(4)", "ENDED(4)" }),
				  machine.Control(chunk))
				<< chunk;
			EXPECT_NE(MPA2_CHUNK_GOOD, machine.Info().fault);
		}
		SessionMachine machine = Waiting(enhanced);
		machine.Local(MPA2_SEV_ACKED);
		EXPECT_EQ((Names{ "SEND(00010004)", "ARM_TIMER(4)", "ENDED(4)" }),
			  machine.Chunk(Segment(0)));
	}
	for (const bool active : { false, true }) {
		for (const auto &chunk : in_open) {
			SessionMachine machine = Open(active);

			EXPECT_EQ((Names{ "SEND(00010004)", "ARM_TIMER(4)", "ENDED(4)" }),
				  machine.Control(chunk))
				<< chunk;
			EXPECT_EQ(1, machine.ends);
			/* Whatever follows is nobody's business. */
			machine.Control("00010001");
			machine.Control("00020001");
			EXPECT_EQ(1, machine.ends);
			EXPECT_EQ(2, machine.Info().tx_ssn);
		}
		SessionMachine machine = Open(active);
		EXPECT_EQ((Names{ "SEND(00010004)", "ARM_TIMER(4)", "ENDED(4)" }),
			  machine.Chunk({ 46, Hex("00010004") }));
	}
}

/* SCTP-12, SCTP-31: nothing but an Initiate begins a session. */
TEST(Session, IllegalChunksOnAFreeStream)
{
	for (const auto &chunk :
	     { "00000002", "00000003", "00000004", "0000000680108008", "0000000780108008",
	       "00000005c020c0", "0000ffff", "00" }) {
		SessionMachine machine;

		EXPECT_EQ((Names{ "SEND(00000004)", "ARM_TIMER(4)" }),
			  machine.Control(chunk))
			<< chunk;
		EXPECT_EQ(0, machine.ends);
		machine.Local(MPA2_SEV_ACKED);
		EXPECT_EQ((Names{ "STOP_TIMER", "REUSABLE" }),
			  machine.Local(MPA2_SEV_TIMER));
	}
	SessionMachine machine;
	EXPECT_EQ((Names{ "SEND(00000004)", "ARM_TIMER(4)" }), machine.Chunk(Segment(0)));
}

/* ---- DDP-SSN order ---- */

/* SCTP-09, SCTP-08 */
TEST(Session, ChunksAreTakenInTheOrderOfTheirSsn)
{
	SessionMachine machine;

	EXPECT_EQ((Names{ "HOLD(1)" }), machine.Chunk(Segment(1, 7)));
	EXPECT_EQ(1, machine.Info().held);
	/* The request first; the segment waits for the ULP (AMB-30). */
	EXPECT_EQ((Names{ "REQUEST()", "HOLD(1)" }), machine.Control("00000001"));
	EXPECT_EQ((Names{ "HOLD(2)" }), machine.Chunk(Segment(2, 8)));
	EXPECT_EQ((Names{ "SEND(00000002)",
			  "DELIVER(c1400000000100000000000000"
			  "0007)",
			  "DELIVER(c14000000001000000000000000008)" }),
		  machine.Local(MPA2_SEV_ACCEPT));
	EXPECT_EQ(0, machine.Info().held);
	EXPECT_EQ(0u, machine.Info().held_octets);
	EXPECT_EQ(3, machine.Info().rx_ssn);
}

/* SCTP-09: any order of arrival within the window gives one order of delivery. */
TEST(Session, RandomOrderOfArrival)
{
	std::mt19937 random(20261206);

	for (int round = 0; round < 20; round++) {
		SessionMachine machine = Open(round & 1);
		std::vector<uint16_t> order;
		std::string seen, wanted;
		const uint16_t count = 900;

		for (uint16_t i = 1; i <= count; i++) {
			order.push_back(i);
			wanted += std::to_string(i & 255) + " ";
		}
		std::shuffle(order.begin(), order.end(), random);
		for (const uint16_t ssn : order)
			for (const auto &name :
			     machine.Chunk(Segment(ssn, static_cast<uint8_t>(ssn))))
				if (name.rfind("DELIVER", 0) == 0)
					seen += std::to_string(
							std::stoi(name.substr(36, 2),
								  nullptr, 16)) +
						" ";
		EXPECT_EQ(wanted, seen);
		EXPECT_EQ(0, machine.ends);
		EXPECT_TRUE(machine.held.empty());
	}
}

/* SCTP-08: modulo 2^16, with no gap at the wrap. */
TEST(Session, SsnWraps)
{
	SessionMachine machine = Open(true);

	for (uint32_t i = 1; i <= 0x10005; i++) {
		ASSERT_EQ(1u, machine.Chunk(Segment(static_cast<uint16_t>(i))).size())
			<< i;
		ASSERT_EQ(1u, machine.Local(MPA2_SEV_SEGMENT, Hex(kWrite)).size()) << i;
		if (i % 1000 == 0)
			machine.Local(MPA2_SEV_ACKED);
		/* A segment with the SSN of an Initiate is none that follows it. */
		if (i == 0xffff)
			break;
	}
	EXPECT_EQ(0, machine.Info().rx_ssn);
	EXPECT_EQ(0, machine.Info().tx_ssn);
	EXPECT_EQ(0, machine.ends);
}

/* SCTP-11 */
TEST(Session, ImpossibleSsnsEndIt)
{
	SessionMachine first;
	EXPECT_EQ((Names{ "SEND(00000004)", "ARM_TIMER(4)" }),
		  first.Chunk(Segment(40000)));
	EXPECT_TRUE(first.held.empty());

	SessionMachine early;
	EXPECT_EQ((Names{ "HOLD(63)" }), early.Chunk(Segment(63)));
	EXPECT_EQ((Names{ "DROP", "SEND(00000004)", "ARM_TIMER(4)" }),
		  early.Chunk(Segment(64)));

	SessionMachine twice = Open(true);
	EXPECT_EQ((Names{ "HOLD(5)" }), twice.Chunk(Segment(5)));
	EXPECT_EQ((Names{ "DROP", "SEND(00010004)", "ARM_TIMER(4)", "ENDED(4)" }),
		  twice.Chunk(Segment(5)));
	EXPECT_TRUE(twice.held.empty());
	EXPECT_EQ(MPA2_CHUNK_BAD_SSN, twice.Info().fault);

	SessionMachine past = Open(true);
	EXPECT_EQ(1u, past.Chunk(Segment(1)).size());
	EXPECT_EQ((Names{ "SEND(00010004)", "ARM_TIMER(4)", "ENDED(4)" }),
		  past.Chunk(Segment(1)));

	SessionMachine window = Open(true);
	EXPECT_EQ((Names{ "HOLD(0)" }), window.Chunk(Segment(1024)));
	EXPECT_EQ((Names{ "DROP", "SEND(00010004)", "ARM_TIMER(4)", "ENDED(4)" }),
		  window.Chunk(Segment(1025)));
}

/* SCTP-11, AMB-30: bounded in chunks and in octets, and by the shell. */
TEST(Session, HoldIsBounded)
{
	SessionMachine octets = Open(true);
	UserData big = Segment(2);
	big.octets.resize(60000);
	for (uint16_t ssn = 2; ssn < 2 + 17; ssn++) {
		big.octets[1] = static_cast<uint8_t>(ssn);
		EXPECT_EQ(1u, octets.Chunk(big).size());
	}
	EXPECT_EQ(17u * 60000, octets.Info().held_octets);
	big.octets[1] = 19;
	EXPECT_EQ((Names{ "DROP", "SEND(00010004)", "ARM_TIMER(4)", "ENDED(4)" }),
		  octets.Chunk(big));
	EXPECT_EQ(MPA2_CHUNK_NO_ROOM, octets.Info().fault);
	EXPECT_EQ(0u, octets.Info().held_octets);

	SessionMachine waiting = Asked(true);
	for (uint16_t ssn = 1; ssn <= MPA2_HOLD_EARLY; ssn++)
		EXPECT_EQ(1u, waiting.Chunk(Segment(ssn)).size());
	EXPECT_EQ((Names{ "DROP", "SEND(00000004)", "ARM_TIMER(4)", "ENDED(4)" }),
		  waiting.Chunk(Segment(MPA2_HOLD_EARLY + 1)));

	SessionMachine shell = Open(true);
	EXPECT_EQ((Names{ "SEND(00010004)", "ARM_TIMER(4)", "ENDED(4)" }),
		  shell.Chunk(Segment(2), true));
}

/* ---- what may overtake nothing ---- */

/* SCTP-20 */
TEST(Session, TerminateWaitsForTheAccept)
{
	SessionMachine machine = Asked(false);

	machine.Local(MPA2_SEV_ACCEPT);
	EXPECT_EQ((Names{ "ARM_TIMER(4)", "ENDED(2)" }), machine.Local(MPA2_SEV_CLOSE));
	EXPECT_EQ((Names{ "SEND(00010004)" }), machine.Local(MPA2_SEV_ACKED));
	EXPECT_EQ(Names{}, machine.Local(MPA2_SEV_TIMER));
	EXPECT_EQ((Names{ "STOP_TIMER", "REUSABLE" }), machine.Local(MPA2_SEV_ACKED));
}

/* SCTP-20: given up before the answer, and when none comes. */
TEST(Session, TerminateWaitsForTheInitiate)
{
	SessionMachine late = Waiting(true), closed = Waiting(true),
		       answered = Waiting(true);

	EXPECT_EQ((Names{ "ARM_TIMER(4)", "ENDED(3)" }), late.Local(MPA2_SEV_TIMER));
	EXPECT_EQ((Names{ "SEND(00010004)" }), late.Local(MPA2_SEV_ACKED));
	EXPECT_EQ((Names{ "ARM_TIMER(4)", "ENDED(2)" }), closed.Local(MPA2_SEV_CLOSE));
	/* An Accept that comes now is not for anybody; the peer ends it then. */
	EXPECT_EQ(Names{}, closed.Control("0000000680108008"));
	EXPECT_EQ((Names{ "SEND(00010004)" }), closed.Local(MPA2_SEV_ACKED));
	EXPECT_EQ(Names{}, closed.Control("00010004"));
	EXPECT_EQ((Names{ "STOP_TIMER", "REUSABLE" }), closed.Local(MPA2_SEV_ACKED));
	/* An answer shows that the Initiate is there. */
	answered.Local(MPA2_SEV_CLOSE);
	EXPECT_EQ((Names{ "SEND(00010004)" }), answered.Control("00000007"));
}

/* SCTP-21: no segment before the Accept, none after the end. */
TEST(Session, SegmentsOnlyWhileOpen)
{
	SessionMachine machine = Waiting(true);

	EXPECT_EQ(Names{}, machine.Local(MPA2_SEV_SEGMENT, Hex(kWrite)));
	EXPECT_FALSE(machine.Info().may_send);
	SessionMachine asked = Asked(true);
	EXPECT_EQ(Names{}, asked.Local(MPA2_SEV_SEGMENT, Hex(kWrite)));
	SessionMachine open = Open(true);
	EXPECT_TRUE(open.Info().may_send);
	open.Local(MPA2_SEV_CLOSE);
	EXPECT_EQ(Names{}, open.Local(MPA2_SEV_SEGMENT, Hex(kWrite)));
}

/* SCTP-10 */
TEST(Session, UnacknowledgedChunksAreBounded)
{
	SessionMachine machine = Open(true);

	for (uint32_t i = 0; i < MPA2_UNACKED_MAX; i++)
		ASSERT_EQ(1u, machine.Local(MPA2_SEV_SEGMENT, Hex(kWrite)).size());
	EXPECT_FALSE(machine.Info().may_send);
	EXPECT_EQ(Names{}, machine.Local(MPA2_SEV_SEGMENT, Hex(kWrite)));
	machine.Local(MPA2_SEV_ACKED);
	EXPECT_EQ(1u, machine.Local(MPA2_SEV_SEGMENT, Hex(kWrite)).size());
}

/* SCTP-13, AMB-26: code 4 follows an RDMAP Terminate, whoever sent that. */
TEST(Session, RdmapTerminateThenCodeFour)
{
	const std::string terminate = "4147000000000000000200000001000000002007"
				      "0000";
	SessionMachine out = Open(true), in = Open(false);

	EXPECT_EQ((Names{ "SEND_SEGMENT(0001)", "SEND(00020004)", "ARM_TIMER(4)",
			  "ENDED(2)" }),
		  out.Local(MPA2_SEV_SEGMENT, Hex(terminate)));
	EXPECT_EQ((Names{ "DELIVER(" + terminate + ")", "SEND(00010004)", "ARM_TIMER(4)",
			  "ENDED(0)" }),
		  in.Chunk({ MPA2_PPID_SEGMENT, Hex("0001" + terminate) }));
	EXPECT_EQ(1, out.ends);
	EXPECT_EQ(1, in.ends);
}

/* ---- association and stream ---- */

/* SCTP-27: every session is told once, and sends nothing. */
TEST(Session, AssociationLost)
{
	SessionMachine waiting = Waiting(true), asked = Asked(true), open = Open(true);

	open.Chunk(Segment(3));
	EXPECT_EQ((Names{ "STOP_TIMER", "ENDED(5)" }), waiting.Local(MPA2_SEV_LOST));
	EXPECT_EQ((Names{ "STOP_TIMER", "ENDED(5)" }), asked.Local(MPA2_SEV_LOST));
	EXPECT_EQ((Names{ "DROP", "STOP_TIMER", "ENDED(5)" }), open.Local(MPA2_SEV_LOST));
	for (auto *machine : { &waiting, &asked, &open }) {
		EXPECT_EQ(Names{}, machine->Local(MPA2_SEV_LOST));
		EXPECT_EQ(Names{}, machine->Local(MPA2_SEV_ACKED));
		EXPECT_EQ(Names{}, machine->Local(MPA2_SEV_CLOSE));
		EXPECT_EQ(1, machine->ends);
	}
}

/* SCTP-22, AMB-27: the numbers begin again; what comes for the next session waits. */
TEST(Session, StreamIsUsedAgain)
{
	SessionMachine machine = Open(false);

	EXPECT_EQ((Names{ "SEND(00010004)", "ARM_TIMER(4)", "ENDED(0)" }),
		  machine.Control("00010004"));
	EXPECT_EQ((Names{ "HOLD(0)" }), machine.Control("00000005c020c010"));
	EXPECT_EQ((Names{ "STOP_TIMER", "REUSABLE", "REQUEST(c020c010)" }),
		  machine.Local(MPA2_SEV_ACKED));
	EXPECT_EQ((Names{ "SEND(0000000680108008)" }),
		  machine.Local(MPA2_SEV_ACCEPT, Hex("80108008")));
	EXPECT_EQ(1, machine.Info().rx_ssn);
}

/* SCTP-22: with a peer that never ends the session, after T_fin. */
TEST(Session, StreamIsUsedAgainAfterSilence)
{
	SessionMachine machine = Open(true);

	machine.Local(MPA2_SEV_CLOSE);
	machine.Chunk(Segment(3));
	EXPECT_EQ(Names{}, machine.Local(MPA2_SEV_ACKED));
	EXPECT_EQ((Names{ "DROP", "STOP_TIMER", "REUSABLE" }),
		  machine.Local(MPA2_SEV_TIMER));
	EXPECT_EQ((Names{ "SEND(00000001)", "ARM_TIMER(2)" }),
		  machine.Local(MPA2_SEV_INITIATE));
}

TEST(Session, PrivateDataThatDoesNotFit)
{
	SessionMachine machine, passive = Asked(true), rejecting = Asked(false);

	EXPECT_EQ((Names{ "ENDED(2)" }),
		  machine.Local(MPA2_SEV_INITIATE, Octets(513), false));
	EXPECT_EQ(MPA2_SS_IDLE, machine.Info().state);
	EXPECT_EQ((Names{ "SEND(00000004)", "ARM_TIMER(4)", "ENDED(2)" }),
		  passive.Local(MPA2_SEV_ACCEPT, Octets(513)));
	EXPECT_EQ((Names{ "SEND(00000004)", "ARM_TIMER(4)", "ENDED(2)" }),
		  rejecting.Local(MPA2_SEV_REJECT, Octets(513)));
}

TEST(Session, WordsForAll)
{
	for (unsigned int i = 0; i < 9; i++) {
		EXPECT_NE(std::string(), mpa2_function_text(i));
		EXPECT_NE(std::string(), mpa2_session_state_text(i));
	}
	for (unsigned int i = 0; i <= MPA2_CHUNK_FAULT_NR; i++)
		EXPECT_NE(std::string(), mpa2_chunk_fault_text(i));
	EXPECT_STREQ("open", mpa2_session_state_text(MPA2_SS_OPEN));
}

} // namespace
