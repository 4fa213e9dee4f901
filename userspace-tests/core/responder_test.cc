// SPDX-License-Identifier: GPL-2.0
/* The responder's machine (requirements 4.2). */
#include <gtest/gtest.h>

#include "machine.h"
#include "vectors.h"

namespace
{

const char *const kWriteRtr = "000ec140 00000001 0000000000000000 00000000";
const char *const kSendRtr = "00124143 00000000 00000000 00000001 00000000 00000000";
const char *const kReadRtr = "002e4141 00000000 00000001 00000001 00000000 "
			     "00000001 0000000000000000 00000000 00000001 "
			     "0000000000000000 00000000";
const char *const kSend =
	"00164143 00000000 00000000 00000001 00000000 61626364 00000000";

class Responder : public ::testing::Test
{
protected:
	void Begin(const mpa2_policy &policy = DefaultPolicy())
	{
		machine = Machine(MPA2_RESPONDER, policy);
		EXPECT_EQ((Names{ "ARM_TIMER(1)" }), machine.Feed(MPA2_EV_CONNECTED));
		machine.all.clear();
	}

	/* A Request up to the ULP's question. */
	void Asked(const std::string &request,
		   const mpa2_policy &policy = DefaultPolicy())
	{
		Begin(policy);
		EXPECT_EQ((Names{ "STOP_TIMER", "CONNECT_REQUEST" }),
			  machine.Stream(Request(request)));
	}

	/* And accepted, with the Reply out. */
	void Accepted(const std::string &request, uint32_t ird = 4, uint32_t ord = 4,
		      const mpa2_policy &policy = DefaultPolicy())
	{
		Asked(request, policy);
		EXPECT_EQ((Names{ "BIND" }), machine.Ulp(MPA2_EV_ACCEPT, ird, ord));
		EXPECT_EQ((Names{ "SEND" }), machine.Feed(MPA2_EV_BOUND));
		reply_sent = machine.Feed(MPA2_EV_SENT);
		machine.all.clear();
	}

	Machine machine{ MPA2_RESPONDER, DefaultPolicy() };
	Names reply_sent;
};

const std::string kP2pRequest = "1002000480048004";    /* C */
const std::string kP2pAnyRequest = "10020004c004c004"; /* B C D */
const std::string kClientServerRequest = "1002000400040004";

/* MPA-07, NEG-09, ENH-15 */
TEST_F(Responder, AsksTheUlpWithThePeersDepthsAndData)
{
	Asked("10020006c020c0106869");
	EXPECT_EQ("hi", machine.PrivateData());
	EXPECT_EQ(32, machine.Info().peer_ird);
	EXPECT_EQ(16, machine.Info().peer_ord);
	EXPECT_EQ(1, machine.Info().peer_to_peer);
	EXPECT_EQ(MPA2_RTR_ALL, machine.Info().rtr_offered);
}

/* ENH-13: what the ULP says with its accept. */
TEST_F(Responder, APolicyMayChangeUntilTheAccept)
{
	mpa2_policy policy = DefaultPolicy();

	Asked(kP2pAnyRequest);
	policy.rtr_order[0] = MPA2_RTR_READ;
	policy.rtr_order[1] = 0;
	policy.crc = 1;
	mpa2_conn_set_policy(&machine.conn, &policy);
	EXPECT_EQ(1, machine.Info().crc);
	machine.Ulp(MPA2_EV_ACCEPT, 4, 4);
	machine.Feed(MPA2_EV_BOUND);
	EXPECT_EQ(Reply("50020004 80044004"), machine.sent);
	policy.crc = 0;
	mpa2_conn_set_policy(&machine.conn, &policy);
	EXPECT_EQ(1, machine.Info().crc);
}

/* The shell may reject for a reason of its own. */
TEST_F(Responder, ARejectMayHaveACause)
{
	mpa2_event event{};

	Asked(kP2pAnyRequest);
	event.type = MPA2_EV_REJECT;
	event.cause = MPA2_CAUSE_ULP_PD_TOO_LONG;
	EXPECT_EQ((Names{ "SEND" }), machine.Feed(event));
	EXPECT_EQ(MPA2_CAUSE_ULP_PD_TOO_LONG, machine.Info().cause);
}

/* MPA-02, MPA-11, RTR-06, RTR-09, NEG-02, NEG-03; FR-04 */
TEST_F(Responder, AcceptBindsThenReplies)
{
	Asked("1002000480204001");
	EXPECT_EQ((Names{ "BIND" }), machine.Ulp(MPA2_EV_ACCEPT, 4, 64, "yes"));
	EXPECT_EQ((Names{ "SEND" }), machine.Feed(MPA2_EV_BOUND));
	EXPECT_EQ(Reply("10020007 80044020 796573"), machine.sent);
	EXPECT_EQ((Names{ "ARM_TIMER(3)" }), machine.Feed(MPA2_EV_SENT));
	EXPECT_EQ(MPA2_ST_W_FPDU, machine.Info().state);
}

/* RTR-07, AMB-24: established at once, but behind the fence. */
TEST_F(Responder, ClientServerIsEstablishedWithTheReply)
{
	Accepted(kClientServerRequest);
	EXPECT_EQ(Reply("1002000400040004"), machine.sent);
	EXPECT_EQ((Names{ "ESTABLISHED" }), reply_sent);
	EXPECT_EQ((Names{ "STOP_TIMER", "OPEN_FENCE(0)" }), machine.Show(Hex(kSend)));
}

/* ENH-03, ENH-07, ENH-09, AMB-07, AMB-08, F1..F3 */
TEST_F(Responder, UnenhancedRequestsGetUnenhancedReplies)
{
	const struct {
		const char *request, *reply;
	} cases[] = {
		{ "000100026869", "00010000" },
		{ "000200026869", "00020000" },
		{ "100100026869", "00010000" },
		{ "1f0100026869", "00010000" },
	};

	for (const auto &one : cases) {
		Accepted(one.request);
		EXPECT_EQ(Reply(one.reply), machine.sent) << one.request;
		EXPECT_EQ("hi", machine.PrivateData());
		EXPECT_EQ((Names{ "ESTABLISHED" }), reply_sent);
	}
}

/* MPA-23, MPA-24; T15, T16, FR-02 */
TEST_F(Responder, NeitherRNorReservedBitsAreEchoed)
{
	Accepted("20010000");
	EXPECT_EQ(Reply("00010000"), machine.sent);
	Accepted("1f02000400040004");
	EXPECT_EQ(Reply("1002000400040004"), machine.sent);
}

/* MPA-19, 3.2 */
TEST_F(Responder, CrcIsInForceIfEitherWantsIt)
{
	mpa2_policy policy = DefaultPolicy();

	Accepted("5002000400040004");
	EXPECT_EQ(1, machine.Info().crc);
	EXPECT_EQ(Reply("5002000400040004"), machine.sent);
	Accepted(kClientServerRequest);
	EXPECT_EQ(0, machine.Info().crc);
	policy.crc = 1;
	Accepted(kClientServerRequest, 4, 4, policy);
	EXPECT_EQ(1, machine.Info().crc);
	EXPECT_EQ(Reply("5002000400040004"), machine.sent);
}

/* NEG-04, N4, A-43; T17, FR-05 */
TEST_F(Responder, RaisesItsIrdForAReadRtr)
{
	Accepted("1002000480004000", 0, 0);
	EXPECT_EQ(Reply("1002000480014000"), machine.sent);
	EXPECT_EQ(1, machine.Info().local_ird);
}

/* NEG-12, NEG-13, N7; T14, FS-05 */
TEST_F(Responder, AnswersOpenDepthsWithOpenDepths)
{
	Accepted("10020004bfffbfff");
	EXPECT_EQ(Reply("10020004bfffbfff"), machine.sent);
	EXPECT_EQ(4, machine.Info().local_ird);
	EXPECT_EQ(4, machine.Info().local_ord);
}

struct Junk {
	const char *what;
	Octets octets;
	mpa2_cause cause;
};

/* MPA-03, MPA-08, MPA-15, MPA-25, F10, F12, AMB-19; FR-20, T18 */
TEST_F(Responder, ClosesSilentlyOnWhatIsNoRequest)
{
	const Junk junk[] = {
		{ "a reply", Reply("10020004"), MPA2_CAUSE_BAD_KEY },
		{ "noise", Octets(20, 'x'), MPA2_CAUSE_BAD_KEY },
		{ "revision 3", Request("10030000"), MPA2_CAUSE_BAD_REV },
		{ "revision 0", Request("00000000"), MPA2_CAUSE_BAD_REV },
		{ "513 octets", Request("00010201"), MPA2_CAUSE_PD_TOO_LONG },
		{ "enhanced of 2", Request("100200020000"),
		  MPA2_CAUSE_ENHANCED_TOO_SHORT },
		{ "octets behind", Request(kP2pRequest) + Hex("00"),
		  MPA2_CAUSE_TRAILING_OCTETS },
		{ "an FPDU behind", Request("00010000") + Hex(kSend),
		  MPA2_CAUSE_TRAILING_OCTETS },
	};

	for (const auto &one : junk) {
		Begin();
		EXPECT_EQ((Names{ "STOP_TIMER", "CLOSE" }), machine.Stream(one.octets))
			<< one.what;
		EXPECT_EQ(one.cause, machine.Info().cause) << one.what;
	}
}

/* FR-19, FS-10: split at every offset, one outcome. */
TEST_F(Responder, ARequestInPiecesIsOneRequest)
{
	const Octets request = Request("10020006c020c0106869");

	for (size_t chunk = 1; chunk <= request.size(); chunk++) {
		Begin();
		EXPECT_EQ((Names{ "STOP_TIMER", "CONNECT_REQUEST" }),
			  machine.Stream(request, chunk));
		EXPECT_EQ("hi", machine.PrivateData());
	}
}

/* ENH-11, F9, R8: by RST, and known from the header. */
TEST_F(Responder, ResetsEnhancedRequestsWhenSwitchedOff)
{
	mpa2_policy policy = DefaultPolicy();

	policy.accept_enhanced = 0;
	Begin(policy);
	EXPECT_EQ((Names{ "STOP_TIMER", "RESET" }), machine.Stream(Request("10020006")));
	Accepted("00010000", 4, 4, policy);
	EXPECT_EQ(Reply("00010000"), machine.sent);
}

/* MPA-29, MPA-30, SEC-05; T7, T19 */
TEST_F(Responder, ASilentOrSlowPeerIsClosed)
{
	Begin();
	EXPECT_EQ((Names{ "STOP_TIMER", "CLOSE" }), machine.Feed(MPA2_EV_TIMER));
	Begin();
	machine.Stream(Hex("4d50"));
	EXPECT_EQ((Names{ "STOP_TIMER", "CLOSE" }), machine.Feed(MPA2_EV_TIMER));
	Begin();
	machine.Stream(Request("10020006"));
	EXPECT_EQ((Names{ "STOP_TIMER", "CLOSE" }), machine.Feed(MPA2_EV_TIMER));
}

/* SEC-10 */
TEST_F(Responder, EndsBeforeTheRequestAreSilent)
{
	for (const auto end : { MPA2_EV_EOF, MPA2_EV_RESET, MPA2_EV_ABORT }) {
		Begin();
		EXPECT_EQ((Names{ "STOP_TIMER", "CLOSE" }), machine.Feed(end));
		Begin();
		machine.Stream(Request("10020006"));
		EXPECT_EQ((Names{ "STOP_TIMER", "CLOSE" }), machine.Feed(end));
	}
}

/* MPA-09, MPA-10, ENH-08, AMB-05, AMB-20, F11 */
TEST_F(Responder, RejectsWithEnhancedDataWhereAskedWithIt)
{
	Asked("1002000480048008");
	EXPECT_EQ((Names{ "SEND" }), machine.Ulp(MPA2_EV_REJECT, 0, 0, "no"));
	EXPECT_EQ(Reply("30020006 80088004 6e6f"), machine.sent);
	EXPECT_EQ((Names{ "SHUTDOWN", "ARM_TIMER(4)" }), machine.Feed(MPA2_EV_SENT));
	EXPECT_EQ((Names{ "STOP_TIMER", "CLOSE" }), machine.Feed(MPA2_EV_EOF));
	Asked("00010000");
	machine.Ulp(MPA2_EV_REJECT, 0, 0, "no");
	EXPECT_EQ(Reply("200100026e6f"), machine.sent);
}

/* NEG-05, AMB-03 */
TEST_F(Responder, RejectsWhenTheRequiredOrdIsNotOffered)
{
	mpa2_policy policy = DefaultPolicy();

	policy.require_ord = 8;
	Asked("1002000400040008", policy);
	EXPECT_EQ((Names{ "SEND", "FAILED(2)" }), machine.Ulp(MPA2_EV_ACCEPT, 8, 8));
	EXPECT_EQ(Reply("3002000400080008"), machine.sent);
}

/* Instead of MPA-17: refused with a proper reject, S and the 4 octets kept. */
TEST_F(Responder, RejectsMarkersWithoutAskingTheUlp)
{
	Begin();
	EXPECT_EQ((Names{ "STOP_TIMER", "SEND" }),
		  machine.Stream(Request("9002000480048008")));
	EXPECT_EQ(Reply("30020004 80088004"), machine.sent);
	Begin();
	machine.Stream(Request("80010000"));
	EXPECT_EQ(Reply("20010000"), machine.sent);
}

/* AMB-03 */
TEST_F(Responder, RejectsWhenTheQpCannotBeBound)
{
	Asked(kP2pRequest);
	machine.Ulp(MPA2_EV_ACCEPT, 4, 4);
	EXPECT_EQ((Names{ "SEND", "FAILED(3)" }), machine.Feed(MPA2_EV_LOCAL_FAILURE));
	EXPECT_EQ(Reply("3002000480048004"), machine.sent);
	EXPECT_EQ((Names{ "SHUTDOWN", "ARM_TIMER(4)" }), machine.Feed(MPA2_EV_SENT));
}

/* SEC-10 */
TEST_F(Responder, AnEndWhileTheUlpDecidesFailsTheAnswer)
{
	for (const auto end : { MPA2_EV_EOF, MPA2_EV_RESET }) {
		Asked(kP2pRequest);
		EXPECT_EQ(Names{}, machine.Feed(end));
		EXPECT_EQ((Names{ "STOP_TIMER", "CLOSE", "FAILED(0)" }),
			  machine.Ulp(MPA2_EV_ACCEPT, 4, 4));
		Asked(kP2pRequest);
		machine.Feed(end);
		EXPECT_EQ((Names{ "STOP_TIMER", "CLOSE" }),
			  machine.Ulp(MPA2_EV_REJECT, 0, 0));
	}
	Asked(kP2pRequest);
	EXPECT_EQ((Names{ "STOP_TIMER", "CLOSE" }), machine.Feed(MPA2_EV_ABORT));
}

/* RTR-18, RTR-08, RTR-19 */
TEST_F(Responder, WriteRtrIsTakenAndOpensTheFence)
{
	Accepted(kP2pAnyRequest);
	EXPECT_EQ((Names{ "STOP_TIMER", "CONSUME(20)", "OPEN_FENCE(2)", "ESTABLISHED" }),
		  machine.Show(Hex(kWriteRtr)));
	EXPECT_EQ(MPA2_RTR_WRITE, machine.Info().rtr);
}

/* RTR-21: the answer leaves before anything that was held. */
TEST_F(Responder, ReadRtrIsAnsweredBeforeTheFenceOpens)
{
	Accepted(kP2pAnyRequest);
	EXPECT_EQ((Names{ "STOP_TIMER", "CONSUME(52)", "SEND" }),
		  machine.Show(Hex(kReadRtr)));
	EXPECT_EQ(Octets(read_response_octets[0], read_response_octets[0] + 20),
		  machine.sent);
	EXPECT_EQ((Names{ "OPEN_FENCE(4)", "ESTABLISHED" }), machine.Feed(MPA2_EV_SENT));
}

/* AMB-02, RTR-22 */
TEST_F(Responder, SendRtrIsTakenOnlyIfWeFlaggedIt)
{
	Accepted(kP2pAnyRequest);
	EXPECT_EQ((Names{ "STOP_TIMER", "CONSUME(24)", "OPEN_FENCE(1)", "ESTABLISHED" }),
		  machine.Show(Hex(kSendRtr)));
	Accepted(kP2pRequest);
	EXPECT_EQ((Names{ "STOP_TIMER", "OPEN_FENCE(0)", "ESTABLISHED" }),
		  machine.Show(Hex(kSendRtr)));
}

/* AMB-01 */
TEST_F(Responder, ABareFpduIsASendRtrOnlyIfWeFlaggedIt)
{
	Accepted(kP2pAnyRequest);
	EXPECT_EQ((Names{ "STOP_TIMER", "CONSUME(8)", "OPEN_FENCE(0)", "ESTABLISHED" }),
		  machine.Show(Hex("0000000000000000")));
	Accepted(kP2pRequest);
	EXPECT_EQ((Names{ "STOP_TIMER", "SEND" }), machine.Show(Hex("0000000000000000")));
	EXPECT_EQ(Hex("00164147 00000000 00000002 00000001 00000000 02ff0000 "
		      "00000000"),
		  machine.sent);
}

/* AMB-18 */
TEST_F(Responder, AnyValidMessageOpensTheFenceAndStaysInTheStream)
{
	Accepted(kP2pRequest);
	EXPECT_EQ((Names{ "STOP_TIMER", "OPEN_FENCE(0)", "ESTABLISHED" }),
		  machine.Show(Hex(kSend)));
	EXPECT_EQ(MPA2_FPDU_MESSAGE, machine.Info().first_fpdu);
}

/* R9: a zero-length first message in client-server mode is siw's. */
TEST_F(Responder, ClientServerLeavesEmptyMessagesToSiw)
{
	for (const char *fpdu : { kWriteRtr, kReadRtr, kSendRtr }) {
		Accepted(kClientServerRequest);
		EXPECT_EQ((Names{ "STOP_TIMER", "OPEN_FENCE(0)" }),
			  machine.Show(Hex(fpdu)));
	}
}

/* MPA-14, MPA-38, RTR-18; T13: nothing before its last octet. */
TEST_F(Responder, NothingHappensBeforeTheWholeFpduIsThere)
{
	const Octets whole = Hex(kReadRtr);

	Accepted(kP2pAnyRequest);
	for (size_t len = 1; len < whole.size(); len++) {
		EXPECT_EQ(Names{},
			  machine.Show(Octets(whole.begin(), whole.begin() + long(len))));
		EXPECT_EQ(MPA2_ST_W_FPDU, machine.Info().state);
	}
	EXPECT_EQ(whole.size(), mpa2_conn_wanted(&machine.conn));
	EXPECT_FALSE(machine.Show(whole).empty());
}

/* TERM-09, SEC-10; T11 */
TEST_F(Responder, ATerminateIsTheEnd)
{
	Accepted(kP2pRequest);
	EXPECT_EQ((Names{ "STOP_TIMER", "CLOSE", "FAILED(0)" }),
		  machine.Show(Octets(terminate_vectors[2].octets,
				      terminate_vectors[2].octets + 28)));
	EXPECT_EQ(MPA2_CAUSE_PEER_TERMINATE, machine.Info().cause);
}

/* SEC-07, TERM-07, TERM-08, TERM-12 for the first FPDU; T10 */
TEST_F(Responder, AWrongHeaderIsAnsweredWithItsTerminate)
{
	Accepted(kP2pRequest);
	EXPECT_EQ((Names{ "STOP_TIMER", "SEND" }),
		  machine.Show(Hex("00124143 00000000 00000003 00000001 00000000 "
				   "00000000")));
	EXPECT_EQ(Hex("002a4147 00000000 00000002 00000001 00000000 1201c000 "
		      "0012 4143 00000000 00000003 00000001 00000000 00000000"),
		  machine.sent);
	EXPECT_EQ((Names{ "SHUTDOWN", "ARM_TIMER(4)", "FAILED(2)" }),
		  machine.Feed(MPA2_EV_SENT));
	EXPECT_EQ((Names{ "STOP_TIMER", "CLOSE" }), machine.Feed(MPA2_EV_TIMER));
}

/* MPA-14, MPA-19, and MPA-34 where it ends: no valid FPDU, so no Terminate. */
TEST_F(Responder, AWrongCrcOrLengthClosesWithoutATerminate)
{
	Accepted("5002000480048004");
	EXPECT_EQ((Names{ "STOP_TIMER", "CLOSE", "FAILED(2)" }),
		  machine.Show(Hex(kWriteRtr)));
	EXPECT_EQ(MPA2_CAUSE_BAD_CRC, machine.Info().cause);
	Accepted(kP2pRequest);
	EXPECT_EQ((Names{ "STOP_TIMER", "CLOSE", "FAILED(2)" }),
		  machine.Show(Hex("ffff")));
}

/* MPA-33: after an error nothing more is taken, however good it is. */
TEST_F(Responder, NothingIsTakenAfterAnError)
{
	Begin();
	machine.Stream(Reply("10020004")); /* code 4 */
	EXPECT_EQ(MPA2_CAUSE_BAD_KEY, machine.Info().cause);
	EXPECT_EQ(Names{}, machine.Stream(Request(kP2pRequest)));
	EXPECT_EQ(0u, mpa2_conn_wanted(&machine.conn));

	Accepted("5002000480048004");
	machine.Show(Hex(kWriteRtr)); /* code 2: the CRC is missing */
	EXPECT_EQ(MPA2_CAUSE_BAD_CRC, machine.Info().cause);
	EXPECT_EQ(Names{}, machine.Show(Hex("000ec140 00000001 0000000000000000 "
					    "ebd34c5f")));
	EXPECT_EQ(0u, mpa2_conn_wanted(&machine.conn));

	Accepted(kP2pRequest);
	machine.Feed(MPA2_EV_RESET); /* code 1 */
	EXPECT_EQ(Names{}, machine.Show(Hex(kWriteRtr)));
	EXPECT_EQ(0u, mpa2_conn_wanted(&machine.conn));
}

/* MPA-31, SEC-10, TERM-10, AMB-04, L5; T9, T12 */
TEST_F(Responder, EveryEndBeforeTheFpduIsToldOnce)
{
	const struct {
		mpa2_event_type event;
		const char *failure;
	} ends[] = {
		{ MPA2_EV_EOF, "FAILED(0)" },   { MPA2_EV_RESET, "FAILED(0)" },
		{ MPA2_EV_TIMER, "FAILED(1)" }, { MPA2_EV_LOCAL_FAILURE, "FAILED(3)" },
		{ MPA2_EV_ABORT, "FAILED(4)" },
	};

	for (const auto &end : ends) {
		for (const auto &request : { kP2pRequest, kClientServerRequest }) {
			Accepted(request);
			EXPECT_EQ((Names{ "STOP_TIMER", "CLOSE", end.failure }),
				  machine.Feed(end.event));
			EXPECT_EQ(Names{}, machine.Feed(end.event));
		}
	}
}

TEST_F(Responder, FailedSendsEndIt)
{
	Asked(kP2pRequest);
	machine.Ulp(MPA2_EV_ACCEPT, 4, 4);
	machine.Feed(MPA2_EV_BOUND);
	EXPECT_EQ((Names{ "STOP_TIMER", "CLOSE", "FAILED(0)" }),
		  machine.Feed(MPA2_EV_SEND_FAILED));
	Accepted(kP2pAnyRequest);
	machine.Show(Hex(kReadRtr));
	EXPECT_EQ((Names{ "STOP_TIMER", "CLOSE", "FAILED(0)" }),
		  machine.Feed(MPA2_EV_SEND_FAILED));
	Asked(kP2pRequest);
	machine.Ulp(MPA2_EV_REJECT, 0, 0);
	EXPECT_EQ((Names{ "STOP_TIMER", "CLOSE" }), machine.Feed(MPA2_EV_SEND_FAILED));
}

/* Private data of an accept that does not fit is no reason to lie. */
TEST_F(Responder, TooMuchPrivateDataRejects)
{
	Asked(kP2pRequest);
	EXPECT_EQ((Names{ "SEND", "FAILED(3)" }),
		  machine.Ulp(MPA2_EV_ACCEPT, 4, 4, std::string(509, 'x')));
	EXPECT_EQ(0x30, machine.sent[16]);
}

TEST_F(Responder, UnknownEventsChangeNothing)
{
	for (int event = 0; event < MPA2_EV_NR; event++) {
		Begin();
		machine.Feed(MPA2_EV_ABORT);
		const mpa2_conn before = machine.conn;
		EXPECT_EQ(Names{}, machine.Feed(static_cast<mpa2_event_type>(event)));
		EXPECT_EQ(0, memcmp(&before, &machine.conn, sizeof(before)));
	}
}

TEST_F(Responder, HasTheTransitionsOfTheStandard)
{
	const std::vector<int> linger{
		MPA2_EV_SENT,  MPA2_EV_SEND_FAILED, MPA2_EV_EOF,
		MPA2_EV_RESET, MPA2_EV_TIMER,       MPA2_EV_ABORT
	};
	const std::vector<int> frame{ MPA2_EV_OCTETS, MPA2_EV_EOF, MPA2_EV_RESET,
				      MPA2_EV_TIMER, MPA2_EV_ABORT };
	const struct {
		mpa2_state state;
		std::vector<int> events;
	} rows[] = {
		{ MPA2_ST_IDLE, { MPA2_EV_CONNECTED } },
		{ MPA2_ST_W_HDR, frame },
		{ MPA2_ST_W_PD, frame },
		{ MPA2_ST_ULP,
		  { MPA2_EV_ACCEPT, MPA2_EV_REJECT, MPA2_EV_EOF, MPA2_EV_RESET,
		    MPA2_EV_ABORT } },
		{ MPA2_ST_BIND,
		  { MPA2_EV_BOUND, MPA2_EV_LOCAL_FAILURE, MPA2_EV_SENT,
		    MPA2_EV_SEND_FAILED, MPA2_EV_ABORT } },
		{ MPA2_ST_W_FPDU,
		  { MPA2_EV_FPDU, MPA2_EV_EOF, MPA2_EV_RESET, MPA2_EV_TIMER,
		    MPA2_EV_ABORT, MPA2_EV_LOCAL_FAILURE } },
		{ MPA2_ST_RTR, { MPA2_EV_SENT, MPA2_EV_SEND_FAILED, MPA2_EV_ABORT } },
		{ MPA2_ST_REJ, linger },
		{ MPA2_ST_TERM, linger },
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
					  MPA2_RESPONDER, static_cast<mpa2_state>(state),
					  static_cast<mpa2_event_type>(event)))
				<< mpa2_state_text(unsigned(state)) << " " << event;
		}
	}
}

} // namespace
