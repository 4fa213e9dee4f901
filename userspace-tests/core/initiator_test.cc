// SPDX-License-Identifier: GPL-2.0
/* The initiator's machine (requirements 4.1). */
#include <gtest/gtest.h>

#include "machine.h"
#include "vectors.h"

namespace
{

Octets Rtr(uint8_t kind, bool crc)
{
	for (const auto &vector : rtr_vectors)
		if (vector.kind == kind && vector.crc == crc && !vector.markers)
			return { vector.octets, vector.octets + vector.len };
	return {};
}

Octets Terminate(uint8_t code, bool crc)
{
	for (const auto &vector : terminate_vectors)
		if (vector.code == code && vector.crc == crc)
			return { vector.octets, vector.octets + 28 };
	return {};
}

class Initiator : public ::testing::Test
{
protected:
	/* Up to the Request sent. */
	Machine &Asked(const mpa2_policy &policy, uint32_t ird = 4, uint32_t ord = 4,
		       const std::string &pd = "")
	{
		machine = Machine(MPA2_INITIATOR, policy);
		machine.Ulp(MPA2_EV_START, ird, ord, pd);
		machine.Feed(MPA2_EV_CONNECTED);
		machine.Feed(MPA2_EV_SENT);
		machine.all.clear();
		return machine;
	}

	mpa2_policy ClientServer()
	{
		mpa2_policy policy = DefaultPolicy();

		policy.peer_to_peer = 0;
		return policy;
	}

	mpa2_policy Rev1()
	{
		mpa2_policy policy = DefaultPolicy();

		policy.rev = MPA2_REV_1;
		return policy;
	}

	Machine machine{ MPA2_INITIATOR, DefaultPolicy() };
};

/* MPA-01, MPA-06, ENH-01, RTR-01, RTR-02, NEG-01 */
TEST_F(Initiator, AsksWithDepthsModelAndKinds)
{
	EXPECT_EQ((Names{ "CONNECT", "ARM_TIMER(0)" }),
		  machine.Ulp(MPA2_EV_START, 32, 16, "hi"));
	EXPECT_EQ((Names{ "SEND", "ARM_TIMER(2)" }), machine.Feed(MPA2_EV_CONNECTED));
	EXPECT_EQ(Request("10020006c020c0106869"), machine.sent);
	EXPECT_EQ(MPA2_ST_W_HDR, machine.Info().state);
}

/* RTR-03, RTR-04 */
TEST_F(Initiator, ClientServerRequestHasNoFlags)
{
	Asked(ClientServer(), 32, 16);
	EXPECT_EQ(Request("1002000400200010"), machine.sent);
}

/* ENH-02, ENH-10, ENH-07 */
TEST_F(Initiator, Rev1RequestIsUnenhanced)
{
	Asked(Rev1(), 32, 16, "hi");
	EXPECT_EQ(Request("000100026869"), machine.sent);
}

/* MPA-20, as far as CRC can be had: the C bit follows the policy. */
TEST_F(Initiator, CrcBitFollowsThePolicy)
{
	mpa2_policy policy = Rev1();

	policy.crc = 1;
	Asked(policy);
	EXPECT_EQ(Request("40010000"), machine.sent);
}

/* NEG-16 */
TEST_F(Initiator, CanLeaveEachDepthOpen)
{
	mpa2_policy policy = ClientServer();

	policy.no_negotiate_ird = 1;
	Asked(policy, 4, 5);
	EXPECT_EQ(Request("100200043fff0005"), machine.sent);
	policy.no_negotiate_ird = 0;
	policy.no_negotiate_ord = 1;
	Asked(policy, 5, 4);
	EXPECT_EQ(Request("1002000400053fff"), machine.sent);
}

/* NEG-16: more than fits is sent as the largest number, not as 0x3FFF. */
TEST_F(Initiator, DepthsEndAtTheLargestNumber)
{
	Asked(ClientServer(), 0x3fff, 70000);
	EXPECT_EQ(Request("100200043ffe3ffe"), machine.sent);
}

/* ENH-05 */
TEST_F(Initiator, RefusesTooMuchPrivateData)
{
	Machine too_much(MPA2_INITIATOR, DefaultPolicy());

	EXPECT_EQ((Names{ "FAILED(3)" }),
		  too_much.Ulp(MPA2_EV_START, 1, 1, std::string(509, 'x')));
	Machine fits(MPA2_INITIATOR, DefaultPolicy());
	EXPECT_EQ((Names{ "CONNECT", "ARM_TIMER(0)" }),
		  fits.Ulp(MPA2_EV_START, 1, 1, std::string(508, 'x')));
}

/* RTR-13, RTR-15, RTR-16, RTR-17: the RTR is out before the QP is bound. */
TEST_F(Initiator, SendsItsRtrThenBindsThenEstablishes)
{
	for (const bool crc : { false, true }) {
		Asked(DefaultPolicy());
		EXPECT_EQ((Names{ "STOP_TIMER", "SEND" }),
			  machine.Stream(
				  Reply(crc ? "5002000480048004" : "1002000480048004")));
		EXPECT_EQ(Rtr(MPA2_RTR_WRITE, crc), machine.sent);
		EXPECT_EQ((Names{ "BIND" }), machine.Feed(MPA2_EV_SENT));
		EXPECT_EQ(MPA2_RTR_WRITE, machine.Info().rtr);
		EXPECT_EQ((Names{ "ESTABLISHED" }), machine.Feed(MPA2_EV_BOUND));
		EXPECT_EQ(crc, machine.Info().crc);
	}
}

/* RTR-13; FR-06: the reply decides, not the offer. */
TEST_F(Initiator, SendsTheKindThatTheReplyAllows)
{
	const struct {
		const char *reply;
		uint8_t kind;
	} cases[] = {
		{ "10020004c0040004", MPA2_RTR_SEND },
		{ "1002000480048004", MPA2_RTR_WRITE },
		{ "1002000480044004", MPA2_RTR_READ },
		{ "10020004c004c004", MPA2_RTR_WRITE },
		{ "10020004c0044004", MPA2_RTR_READ },
	};

	for (const auto &one : cases) {
		Asked(DefaultPolicy());
		machine.Stream(Reply(one.reply));
		EXPECT_EQ(Rtr(one.kind, false), machine.sent) << one.reply;
		EXPECT_EQ(one.kind, machine.Info().rtr);
	}
}

/* N4, RTR-02, RTR-17 */
TEST_F(Initiator, ReadRtrWorksWithOrdZero)
{
	mpa2_policy policy = DefaultPolicy();

	policy.rtr_order[0] = MPA2_RTR_READ;
	policy.rtr_order[1] = policy.rtr_order[2] = 0;
	Asked(policy, 0, 0);
	EXPECT_EQ(Request("1002000480004000"), machine.sent);
	machine.Stream(Reply("1002000480014000"));
	EXPECT_EQ(Rtr(MPA2_RTR_READ, false), machine.sent);
	EXPECT_EQ(1, machine.Info().local_ord);
}

/* MPA-13, AMB-07: client-server and both revisions need no RTR. */
TEST_F(Initiator, BindsAtOnceWithoutAnRtr)
{
	Asked(ClientServer());
	EXPECT_EQ((Names{ "STOP_TIMER", "BIND" }),
		  machine.Stream(Reply("10020006000400046869")));
	EXPECT_EQ("hi", machine.PrivateData());
	EXPECT_EQ(4, machine.Info().peer_ird);
	for (const char *reply : { "000100026869", "000200026869" }) {
		Asked(Rev1(), 4, 6);
		EXPECT_EQ((Names{ "STOP_TIMER", "BIND" }), machine.Stream(Reply(reply)));
		EXPECT_EQ("hi", machine.PrivateData());
		EXPECT_EQ(4, machine.Info().local_ord); /* rounded */
	}
}

struct WrongReply {
	const char *what;
	const char *octets;
	uint8_t cause;
};

/* The initiator's view, 3.1: closed without a word. MPA-04, MPA-08, AMB-09..11;
 * T1, T2, FS-01, FS-06
 */
TEST_F(Initiator, ClosesOnAReplyThatIsNone)
{
	const WrongReply replies[] = {
		{ "S=0 accept", "00020000", MPA2_CAUSE_NOT_ENHANCED },
		{ "Rev 1 accept", "00010000", MPA2_CAUSE_NOT_ENHANCED },
		{ "Rev 1 with the reserved bit", "10010004 00040004",
		  MPA2_CAUSE_NOT_ENHANCED },
		{ "S=1 with 0 octets", "10020000", MPA2_CAUSE_ENHANCED_TOO_SHORT },
		{ "S=1 with 3 octets", "10020003", MPA2_CAUSE_ENHANCED_TOO_SHORT },
		{ "Rev 0", "10000004", MPA2_CAUSE_BAD_REV },
		{ "Rev 3", "10030004", MPA2_CAUSE_BAD_REV },
		{ "513 octets", "10020201", MPA2_CAUSE_PD_TOO_LONG },
	};

	for (const auto &reply : replies) {
		Asked(DefaultPolicy());
		machine.Stream(Reply(reply.octets));
		ASSERT_FALSE(machine.all.empty()) << reply.what;
		EXPECT_EQ("FAILED(2)", machine.all.back()) << reply.what;
		EXPECT_EQ(1, std::count(machine.all.begin(), machine.all.end(), "CLOSE"));
		EXPECT_EQ(0, std::count(machine.all.begin(), machine.all.end(), "SEND"))
			<< reply.what;
		EXPECT_EQ(reply.cause, machine.Info().cause) << reply.what;
	}
	Asked(DefaultPolicy());
	EXPECT_EQ((Names{ "STOP_TIMER", "CLOSE", "FAILED(2)" }),
		  machine.Stream(Request("10020004"))); /* MPA-05 */
}

struct TerminatingReply {
	const char *what;
	const char *octets;
	uint8_t code;
};

/* NEG-08, RTR-14, TERM-01, TERM-03, TERM-04, AMB-12, AMB-23; FR-02, FR-10 */
TEST_F(Initiator, TerminatesWithTheMatchingCode)
{
	const TerminatingReply replies[] = {
		{ "A=0 after A=1", "1002000400040004", 7 },
		{ "no kind", "1002000480040004", 7 },
		{ "ORD above our limit", "1002000480048081", 6 },
		{ "both", "1002000400040081", 6 },
	};

	for (const auto &reply : replies) {
		for (const bool crc : { false, true }) {
			std::string octets = reply.octets;

			if (crc)
				octets[0] = '5';
			Asked(DefaultPolicy());
			EXPECT_EQ((Names{ "STOP_TIMER", "SEND" }),
				  machine.Stream(Reply(octets)))
				<< reply.what;
			EXPECT_EQ(Terminate(reply.code, crc), machine.sent);
			EXPECT_EQ((Names{ "SHUTDOWN", "ARM_TIMER(4)", "FAILED(2)" }),
				  machine.Feed(MPA2_EV_SENT));
			EXPECT_EQ((Names{ "STOP_TIMER", "CLOSE" }),
				  machine.Feed(MPA2_EV_EOF));
			EXPECT_EQ(reply.code, machine.Info().terminate);
		}
	}
}

/* TERM-02 */
TEST_F(Initiator, TerminatesWhenTheQpCannotBeBound)
{
	Asked(ClientServer());
	machine.Stream(Reply("1002000400040004"));
	EXPECT_EQ((Names{ "SEND" }), machine.Feed(MPA2_EV_LOCAL_FAILURE));
	EXPECT_EQ(Terminate(5, false), machine.sent);
	EXPECT_EQ((Names{ "SHUTDOWN", "ARM_TIMER(4)", "FAILED(3)" }),
		  machine.Feed(MPA2_EV_SENT));
}

/* Instead of MPA-17: we cannot insert Markers; 3.2: the Terminate stands behind one. */
TEST_F(Initiator, TerminatesWhenThePeerRequiresMarkers)
{
	Asked(DefaultPolicy());
	machine.Stream(Reply("9002000480048004"));
	EXPECT_EQ(Hex("00000000") + Terminate(5, false), machine.sent);
	EXPECT_EQ(MPA2_CAUSE_MARKERS, machine.Info().cause);
}

/* MPA-12, NEG-10, AMB-05, AMB-20; FR-33, T4, FS-02 */
TEST_F(Initiator, ReportsARejectAndSendsNothing)
{
	Asked(DefaultPolicy());
	EXPECT_EQ((Names{ "STOP_TIMER", "REJECTED", "SHUTDOWN", "ARM_TIMER(4)" }),
		  machine.Stream(Reply("30020006801080406e6f")));
	EXPECT_EQ("no", machine.PrivateData());
	EXPECT_EQ(1, machine.Info().peer_data);
	EXPECT_EQ(16, machine.Info().peer_ird);
	EXPECT_EQ(64, machine.Info().peer_ord);
	EXPECT_EQ((Names{ "STOP_TIMER", "CLOSE" }), machine.Feed(MPA2_EV_TIMER));
	/* unenhanced rejects are honoured: all of it is the ULP's */
	Asked(DefaultPolicy());
	machine.Stream(Reply("20010005 0102030405"));
	EXPECT_EQ(1, machine.Info().peer_reject);
	EXPECT_EQ(5u, machine.PrivateData().size());
	EXPECT_EQ(0, machine.Info().peer_data);
	/* and one with a stump of enhanced data carries nothing */
	Asked(DefaultPolicy());
	machine.Stream(Reply("30020001aa"));
	EXPECT_EQ(1, machine.Info().peer_reject);
	EXPECT_EQ("", machine.PrivateData());
}

/* FR-18: any split, one outcome. */
TEST_F(Initiator, AReplyInPiecesIsOneReply)
{
	const Octets reply = Reply("10020006800480046869");

	for (size_t chunk = 1; chunk <= reply.size(); chunk++) {
		Asked(DefaultPolicy());
		EXPECT_EQ((Names{ "STOP_TIMER", "SEND" }), machine.Stream(reply, chunk));
		EXPECT_EQ("hi", machine.PrivateData());
	}
}

/* MPA-27, AMB-19: what follows the Reply is not taken from the stream. */
TEST_F(Initiator, LeavesWhatFollowsTheReply)
{
	const Octets reply = Reply("10020006800480046869");
	const Octets more = Hex("00164143");

	Asked(DefaultPolicy());
	machine.Stream(reply + more);
	EXPECT_EQ(more.size(), machine.left);
	EXPECT_EQ(0u, mpa2_conn_wanted(&machine.conn));
}

/* ENH-12; FR-08, R8 */
TEST_F(Initiator, FallsBackOnceAndOnlyIfPermitted)
{
	mpa2_policy policy = DefaultPolicy();

	for (const auto loss : { MPA2_EV_EOF, MPA2_EV_RESET }) {
		policy.fallback = 0;
		Asked(policy);
		EXPECT_EQ((Names{ "STOP_TIMER", "CLOSE", "FAILED(0)" }),
			  machine.Feed(loss));
		policy.fallback = 1;
		Asked(policy, 4, 4, "data");
		EXPECT_EQ((Names{ "CONNECT", "ARM_TIMER(0)" }), machine.Feed(loss));
		machine.Feed(MPA2_EV_CONNECTED);
		EXPECT_EQ(Request("0001000464617461"), machine.sent);
		EXPECT_EQ(1, machine.Info().retried);
		EXPECT_EQ((Names{ "STOP_TIMER", "CLOSE", "FAILED(0)" }),
			  machine.Feed(loss));
	}
}

/* Not once an octet of a reply has come: that peer speaks MPA. */
TEST_F(Initiator, DoesNotFallBackAfterAnOctet)
{
	mpa2_policy policy = DefaultPolicy();

	policy.fallback = 1;
	Asked(policy);
	machine.Stream(Hex("4d"));
	EXPECT_EQ((Names{ "STOP_TIMER", "CLOSE", "FAILED(0)" }),
		  machine.Feed(MPA2_EV_EOF));
}

/* MPA-30, L4 */
TEST_F(Initiator, TimersEndEachStep)
{
	machine.Ulp(MPA2_EV_START, 1, 1);
	EXPECT_EQ((Names{ "RESET", "FAILED(1)" }), machine.Feed(MPA2_EV_TIMER));
	Asked(DefaultPolicy());
	EXPECT_EQ((Names{ "RESET", "FAILED(1)" }), machine.Feed(MPA2_EV_TIMER));
	Asked(DefaultPolicy());
	machine.Stream(Reply("10020006"));
	EXPECT_EQ(MPA2_ST_W_PD, machine.Info().state);
	EXPECT_EQ((Names{ "RESET", "FAILED(1)" }), machine.Feed(MPA2_EV_TIMER));
}

TEST_F(Initiator, FailsWhenTcpDoes)
{
	machine.Ulp(MPA2_EV_START, 1, 1);
	EXPECT_EQ((Names{ "STOP_TIMER", "CLOSE", "FAILED(0)" }),
		  machine.Feed(MPA2_EV_CONNECT_FAILED));
}

/* SEC-11; T3, T5: a reply that stops short reports no private data. */
TEST_F(Initiator, ACutReplyIsALossWithoutData)
{
	Asked(DefaultPolicy());
	machine.Stream(Reply("100201"));
	EXPECT_EQ((Names{ "STOP_TIMER", "CLOSE", "FAILED(0)" }),
		  machine.Feed(MPA2_EV_EOF));
	EXPECT_EQ("", machine.PrivateData());
	Asked(DefaultPolicy());
	machine.Stream(Reply("10020100"));
	machine.Feed(MPA2_EV_EOF);
	EXPECT_EQ("", machine.PrivateData());
}

TEST_F(Initiator, AnAbortEndsEveryPendingState)
{
	const Names ended{ "STOP_TIMER", "CLOSE", "FAILED(4)" };

	machine.Ulp(MPA2_EV_START, 1, 1);
	EXPECT_EQ(ended, machine.Feed(MPA2_EV_ABORT));
	Asked(DefaultPolicy());
	EXPECT_EQ(ended, machine.Feed(MPA2_EV_ABORT));
	Asked(DefaultPolicy());
	machine.Stream(Reply("10020006"));
	EXPECT_EQ(ended, machine.Feed(MPA2_EV_ABORT));
}

/* A send that fails is the loss of the connection, told once. */
TEST_F(Initiator, FailedSendsEndIt)
{
	Asked(DefaultPolicy());
	machine.Stream(Reply("1002000480048004"));
	EXPECT_EQ((Names{ "STOP_TIMER", "CLOSE", "FAILED(0)" }),
		  machine.Feed(MPA2_EV_SEND_FAILED));
	Asked(DefaultPolicy());
	machine.Stream(Reply("1002000400040004"));
	EXPECT_EQ((Names{ "STOP_TIMER", "CLOSE", "FAILED(2)" }),
		  machine.Feed(MPA2_EV_SEND_FAILED));
}

/* Every pair of state and event without a row does nothing at all. */
TEST_F(Initiator, UnknownEventsChangeNothing)
{
	for (int event = 0; event < MPA2_EV_NR; event++) {
		Machine idle(MPA2_INITIATOR, DefaultPolicy());
		Machine over(MPA2_INITIATOR, DefaultPolicy());

		over.Ulp(MPA2_EV_START, 1, 1);
		over.Feed(MPA2_EV_ABORT);
		const mpa2_conn before = over.conn;
		EXPECT_EQ(Names{}, over.Feed(static_cast<mpa2_event_type>(event)));
		EXPECT_EQ(0, memcmp(&before, &over.conn, sizeof(before)));
		if (event == MPA2_EV_START)
			continue;
		EXPECT_EQ(Names{}, idle.Feed(static_cast<mpa2_event_type>(event)));
	}
}

TEST_F(Initiator, HasTheTransitionsOfTheStandard)
{
	const struct {
		mpa2_state state;
		std::vector<int> events;
	} rows[] = {
		{ MPA2_ST_IDLE, { MPA2_EV_START } },
		{ MPA2_ST_TCP,
		  { MPA2_EV_CONNECTED, MPA2_EV_CONNECT_FAILED, MPA2_EV_TIMER,
		    MPA2_EV_ABORT } },
		{ MPA2_ST_W_HDR,
		  { MPA2_EV_OCTETS, MPA2_EV_EOF, MPA2_EV_RESET, MPA2_EV_TIMER,
		    MPA2_EV_ABORT, MPA2_EV_SEND_FAILED } },
		{ MPA2_ST_W_PD,
		  { MPA2_EV_OCTETS, MPA2_EV_EOF, MPA2_EV_RESET, MPA2_EV_TIMER,
		    MPA2_EV_ABORT } },
		{ MPA2_ST_CHECK,
		  { MPA2_EV_BOUND, MPA2_EV_LOCAL_FAILURE, MPA2_EV_ABORT } },
		{ MPA2_ST_RTR, { MPA2_EV_SENT, MPA2_EV_SEND_FAILED, MPA2_EV_ABORT } },
		{ MPA2_ST_REJ,
		  { MPA2_EV_EOF, MPA2_EV_RESET, MPA2_EV_TIMER, MPA2_EV_ABORT } },
		{ MPA2_ST_TERM,
		  { MPA2_EV_SENT, MPA2_EV_SEND_FAILED, MPA2_EV_EOF, MPA2_EV_RESET,
		    MPA2_EV_TIMER, MPA2_EV_ABORT } },
	};

	for (int state = 0; state < MPA2_ST_NR; state++) {
		for (int event = 0; event < MPA2_EV_NR; event++) {
			bool wanted = false;

			for (const auto &row : rows)
				if (row.state == state)
					wanted = std::count(row.events.begin(),
							    row.events.end(), event);
			EXPECT_EQ(wanted,
				  mpa2_transition_exists(
					  MPA2_INITIATOR, static_cast<mpa2_state>(state),
					  static_cast<mpa2_event_type>(event)))
				<< mpa2_state_text(unsigned(state)) << " " << event;
		}
	}
}

TEST(Text, EveryCauseAndStateHasItsOwn)
{
	for (unsigned int i = 0; i < MPA2_CAUSE_NR; i++)
		for (unsigned int j = 0; j < i; j++)
			EXPECT_STRNE(mpa2_cause_text(i), mpa2_cause_text(j));
	for (unsigned int i = 0; i < MPA2_ST_NR; i++)
		for (unsigned int j = 0; j < i; j++)
			EXPECT_STRNE(mpa2_state_text(i), mpa2_state_text(j));
	EXPECT_STREQ("unknown cause", mpa2_cause_text(MPA2_CAUSE_NR));
	EXPECT_STREQ("unknown", mpa2_state_text(MPA2_ST_NR));
	EXPECT_STREQ("none", mpa2_rtr_text(MPA2_RTR_NONE));
	EXPECT_STREQ("send", mpa2_rtr_text(MPA2_RTR_SEND));
	EXPECT_STREQ("write", mpa2_rtr_text(MPA2_RTR_WRITE));
	EXPECT_STREQ("read", mpa2_rtr_text(MPA2_RTR_READ));
	EXPECT_STREQ("unknown", mpa2_rtr_text(MPA2_RTR_ALL));
}

} // namespace
