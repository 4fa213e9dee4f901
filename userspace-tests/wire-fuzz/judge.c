// SPDX-License-Identifier: GPL-2.0
/*
 * What the standard allows in answer to what was sent, and what the application
 * may have been told.  Where nothing but time or an end of ours can explain that an
 * answer is missing, it must be there.
 */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <string.h>

#include "wire-fuzz.h"

/* One exchange under judgement. */
struct trial {
	const struct attack *attack;
	const struct talk *talk;
	const struct report *report;
	struct script script;
	struct frame frame;
	bool crc;
	bool late;		/* a timer may have fired */
	bool excused;		/* no answer is owed */
	bool outcomes[OUT_NR];
	/* What is left to be explained of what came in. */
	const uint8_t *in;
	size_t in_len;
};

static struct trial trial;

static bool mutated(uint32_t mutations)
{
	return trial.script.mutations & mutations;
}

#define BIT(mutation) (1u << (mutation))

static void saw(enum outcome outcome)
{
	trial.outcomes[outcome] = true;
}

static const char *all_right(void)
{
	return NULL;
}

/* Octets may be lost only to an RST. */
static bool cut_short(void)
{
	return trial.talk->reset;
}

/*
 * The next octets are exactly these; fewer of them where they may be lost.
 * may_miss: or none of them.
 */
static bool take(const uint8_t *octets, size_t len, bool may_miss)
{
	size_t have = trial.in_len < len ? trial.in_len : len;

	if (memcmp(trial.in, octets, have))
		return false;
	if (have < len && !cut_short() && !(may_miss && !have))
		return false;
	trial.in += have;
	trial.in_len -= have;
	return true;
}

/* ---- what siw sends once a connection is up ---- */

struct sent_fpdus {
	unsigned int sends;
	bool read_request;
};

/* What we have sent behind the frame, as far as it can be read. */
static struct sent_fpdus count_ours(const uint8_t *octets, size_t len)
{
	struct sent_fpdus ours = { 0 };
	struct fpdu fpdu;

	while (parse_fpdu(octets, len, &fpdu) == PARSED_WHOLE) {
		if (fpdu.length >= 2 && (fpdu.ulpdu[1] & 0x0f) == OP_READ_REQUEST)
			ours.read_request = true;
		else
			ours.sends++;
		octets += fpdu.size;
		len -= fpdu.size;
	}
	return ours;
}

static bool is_message(const struct fpdu *fpdu, uint32_t msn, unsigned int number)
{
	const uint8_t *ulpdu = fpdu->ulpdu;
	size_t i;

	if (fpdu->length != 18 + MESSAGE_LEN || get32(ulpdu + 6) || get32(ulpdu + 10) != msn ||
	    get32(ulpdu + 14))
		return false;
	for (i = 0; i < MESSAGE_LEN; i++)
		if (ulpdu[18 + i] != number + 1)
			return false;
	return true;
}

/* msn: of the application's first Send. */
static const char *judge_stream(const struct behaviour *app, uint32_t msn,
				const struct sent_fpdus *ours)
{
	unsigned int messages = 0;
	struct fpdu fpdu;
	bool over = false;

	while (trial.in_len) {
		enum parsed parsed = parse_fpdu(trial.in, trial.in_len, &fpdu);

		if (parsed == PARSED_PART && cut_short())
			return all_right();
		if (parsed != PARSED_WHOLE || fpdu.length < 14)
			return "octets that are no FPDU";
		if (trial.crc && !fpdu.crc_good)
			return "an FPDU with a wrong CRC (MPA-19)";
		if ((fpdu.ulpdu[0] & 0x43) != 0x41 || (fpdu.ulpdu[1] & 0xf0) != 0x40)
			return "an FPDU with a wrong header (MPA-26)";
		switch (fpdu.ulpdu[1] & 0x0f) {
		case OP_SEND:
			if (messages == app->sends || !is_message(&fpdu, msn + messages, messages))
				return "a Send that the application has not posted";
			messages++;
			saw(OUT_MESSAGE);
			break;
		case OP_TERMINATE:
			/* siw's own: what its sender was at comes behind it. */
			if (over)
				return "a second Terminate";
			over = true;
			saw(OUT_TERMINATE);
			break;
		case OP_READ_RESPONSE:
			if (!ours->read_request)
				return "a Read Response to nothing (RTR-21)";
			saw(OUT_READ_RESPONSE);
			break;
		default:
			return "an FPDU of another kind";
		}
		trial.in += fpdu.size;
		trial.in_len -= fpdu.size;
	}
	return all_right();
}

/* ---- what the application was told ---- */

static bool is_event(unsigned int number, int type)
{
	const struct report *report = trial.report;

	return number < report->nr_events && report->events[number].type == type;
}

/* Private data and depths as the peer's frame has them (NEG-09, ENH-15, AMB-32). */
static const char *judge_param(void)
{
	const struct report *report = trial.report;
	const struct frame *frame = &trial.frame;
	size_t len = frame->ulp_len < PD_MAX ? frame->ulp_len : PD_MAX;

	if (report->pd_len != len ||
	    memcmp(report->pd, trial.script.out + frame->ulp_offset, len))
		return "private data that was not sent (ENH-15, SEC-11)";
	if (!frame->has_data)
		return all_right();
	if (frame->data.ird != DEPTH_NONE &&
	    report->initiator_depth != (frame->data.ird < 255 ? frame->data.ird : 255))
		return "another IRD than was sent (NEG-09)";
	if (frame->data.ord != DEPTH_NONE &&
	    report->responder_resources != (frame->data.ord < 255 ? frame->data.ord : 255))
		return "another ORD than was sent (NEG-09)";
	return all_right();
}

/* Why a connection did not come up, in rdma_cm's words for either role. */
static bool is_failure(unsigned int number)
{
	bool responder = trial.report->responder;
	int status = trial.report->events[number].status;

	/* An accept that returned 0 is followed by ESTABLISHED, whatever happens. */
	if (status == -ECONNRESET &&
	    is_event(number, responder ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_REJECTED))
		saw(OUT_APP_GONE);
	else if (status == -ETIMEDOUT &&
		 is_event(number, responder ? RDMA_CM_EVENT_ESTABLISHED :
					      RDMA_CM_EVENT_UNREACHABLE))
		saw(OUT_APP_TIMEOUT);
	else if (responder ? is_event(number, RDMA_CM_EVENT_ESTABLISHED) && status == -EPROTO :
			     is_event(number, RDMA_CM_EVENT_CONNECT_ERROR) && status < 0)
		saw(OUT_APP_FAILED);
	else
		return false;
	return true;
}

/* From that event on: how a connection came up or did not, and went. */
static const char *judge_events(unsigned int first, bool may_be_up, bool must_be_up)
{
	const struct report *report = trial.report;
	unsigned int last = report->responder ? first + 1 : first;

	if (report->nr_events <= first)
		return "no event at all";
	if (is_event(first, RDMA_CM_EVENT_ESTABLISHED) && !report->events[first].status) {
		if (!may_be_up)
			return "ESTABLISHED, which it must not be";
		saw(OUT_APP_ESTABLISHED);
		last = first + 1;
	} else if (must_be_up) {
		return "not ESTABLISHED";
	} else if (!is_failure(first)) {
		return "an event that says something else";
	}
	if (report->nr_events != last + 1)
		return "an event too many, or one that is missing";
	if (last > first && !is_event(last, RDMA_CM_EVENT_DISCONNECTED))
		return "not DISCONNECTED in the end";
	return all_right();
}

/* ---- an application that listens ---- */

static size_t expected_reply(uint8_t *out, const struct behaviour *app, bool rejects,
			     bool with_data, struct answer *answer)
{
	const struct frame *frame = &trial.frame;
	uint8_t flags = trial.crc ? FLAG_C : 0, pd[PD_LENGTH_MAX];
	size_t len = 0;

	memset(answer, 0, sizeof(*answer));
	if (frame->is_enhanced) {
		flags |= FLAG_S;
		negotiate(&frame->data, &trial.script.policy, rejects ? 0 : app->ird,
			  rejects ? DEPTH_CAP : app->ord, answer);
		len = put_enhanced(pd, &answer->reply);
	}
	if (rejects)
		flags |= FLAG_R;
	if (with_data) {
		memcpy(pd + len, app->pd, app->pd_len);
		len += app->pd_len;
	}
	return put_frame(out, true, flags, frame->rev, pd, len);
}

static const char *judge_after_reply(const struct behaviour *app, const struct answer *answer)
{
	const uint8_t *ours = trial.script.out + trial.frame.total;
	size_t ours_len = trial.talk->sent - trial.frame.total, len;
	const struct sent_fpdus sent = count_ours(ours, ours_len);
	bool p2p = trial.frame.is_enhanced && trial.frame.data.a, up = false, must = false;
	struct first_fpdu first;
	uint8_t octets[128];
	const char *wrong;

	look_at_first(ours, ours_len, trial.crc, &first);
	if (first.what == FIRST_EMPTY && p2p && answer->reply.kinds & KIND_B)
		up = true;
	if (first.what == FIRST_RTR || first.what == FIRST_MESSAGE)
		up = true;
	if (up) {
		if (first.kind == KIND_D && p2p && answer->local_ird) {
			len = put_read_response(octets, first.sink_stag, first.sink_to, trial.crc);
			if (!take(octets, len, trial.excused))
				return "not the Read Response that a Read RTR asks for (RTR-21)";
			saw(OUT_READ_RESPONSE);
		}
		wrong = judge_stream(app, 1, &sent);
		if (wrong)
			return wrong;
		must = !trial.excused;
	} else if (first.what == FIRST_FAULT || first.what == FIRST_EMPTY) {
		len = put_terminate_for(octets, &first, trial.crc);
		if (trial.in_len)
			saw(OUT_TERMINATE);
		if (!take(octets, len, trial.excused || app->leaves))
			return "not the Terminate that the first FPDU asks for (SEC-07)";
	}
	if (trial.in_len)
		return "an FPDU before one of ours was valid (MPA-14), or too many";
	if (trial.report->received > sent.sends)
		return "messages that were not sent (RTR-20, ENH-14)";
	if (p2p)
		return judge_events(1, up, must);
	return judge_events(1, true, !cut_short());
}

static const char *judge_request(void)
{
	const struct report *report = trial.report;
	const struct frame *frame = &trial.frame;
	bool unheard = frame->flags & FLAG_M || frame->ulp_len > PD_MAX;
	bool rejects = unheard;
	struct behaviour app = { 0 };
	struct answer answer;
	uint8_t reply[FRAME_MAX];
	const char *wrong;
	size_t len;

	if (unheard && report)
		return "a CONNECT_REQUEST that is not to be raised";
	if (!unheard && !report && !trial.excused)
		return "no CONNECT_REQUEST for a good Request";
	if (report) {
		if (!is_event(0, RDMA_CM_EVENT_CONNECT_REQUEST))
			return "an event before CONNECT_REQUEST";
		saw(OUT_APP_REQUEST);
		wrong = judge_param();
		if (wrong)
			return wrong;
		behave(report->pd, report->pd_len, &app);
		rejects = app.reaction != REACT_ACCEPT;
	}
	if (!report && !unheard) {
		if (trial.in_len)
			return "a Reply that the application has not given";
		saw(OUT_SILENCE);
		return all_right();
	}
	trial.crc = trial.script.policy.crc || frame->flags & FLAG_C;
	len = expected_reply(reply, &app, rejects,
			     report && app.reaction != REACT_ABANDON, &answer);
	if (!take(reply, len, trial.excused || (report && report->call_errno)))
		return "not the Reply that is due";
	if (trial.in > trial.talk->in)
		saw(rejects ? OUT_REJECT : OUT_ACCEPT);
	else
		saw(OUT_SILENCE);
	if (rejects || report->call_errno) {
		if (trial.in_len)
			return "octets after a reject (MPA-10)";
		if (report && report->nr_events != 1)
			return "an event after the answer";
		if (report && report->call_errno && !trial.excused)
			return "the application's answer failed";
		return all_right();
	}
	return judge_after_reply(&app, &answer);
}

static const char *judge_initiator(void)
{
	enum parsed parsed = parse_frame(trial.script.out, trial.talk->sent, false, &trial.frame);

	if (parsed == PARSED_WHOLE &&
	    !(trial.frame.is_enhanced && !trial.script.policy.accept_enhanced)) {
		/* Octets behind a Request are an excuse to close (AMB-19). */
		if (trial.frame.total < trial.script.frame_len || mutated(BIT(MUT_EARLY)))
			trial.excused = true;
		return judge_request();
	}
	saw(OUT_SILENCE);
	if (trial.in_len)
		return "octets in answer to what is no Request (MPA-03, MPA-07)";
	if (trial.report)
		return "a CONNECT_REQUEST for what is none (MPA-03)";
	if (mutated(BIT(MUT_SILENT)) && !trial.talk->ended_alone)
		return "the time for the Request is not limited (MPA-29)";
	return all_right();
}

/* ---- an application that connects ---- */

static bool take_request(void)
{
	const struct policy *policy = &trial.script.policy;
	const struct behaviour *app = &trial.script.app;
	uint8_t request[FRAME_MAX], pd[PD_LENGTH_MAX], flags = policy->crc ? FLAG_C : 0;
	const struct enhanced data = {
		.a = policy->peer_to_peer,
		.kinds = policy->peer_to_peer ? policy_kinds(policy) : 0,
		.ird = app->ird,
		.ord = app->ord,
	};
	size_t len = 0;

	if (policy->rev == 2) {
		flags |= FLAG_S;
		len = put_enhanced(pd, &data);
	}
	memcpy(pd + len, app->pd, app->pd_len);
	len = put_frame(request, false, flags, policy->rev, pd, len + app->pd_len);
	return take(request, len, false);
}

static const char *judge_failed_connect(void)
{
	if (trial.in_len)
		return "octets after a Reply that ends it (MPA-04, MPA-12)";
	if (trial.report->pd_len)
		return "private data without a Reply (SEC-11)";
	return judge_events(0, false, false);
}

static const char *judge_reject(void)
{
	const struct report *report = trial.report;

	if (trial.in_len)
		return "octets after a reject (MPA-12)";
	if (!is_event(0, RDMA_CM_EVENT_REJECTED) || report->events[0].status != -ECONNREFUSED)
		return trial.excused ? judge_failed_connect() : "not REJECTED";
	saw(OUT_APP_REJECTED);
	if (report->nr_events != 1)
		return "an event after REJECTED";
	if (report->pd_len != (trial.frame.ulp_len < PD_MAX ? trial.frame.ulp_len : PD_MAX) ||
	    memcmp(report->pd, trial.script.out + trial.frame.ulp_offset, report->pd_len))
		return "private data that was not sent (ENH-15, SEC-11)";
	return all_right();
}

static const char *judge_terminate(uint8_t code, bool marker)
{
	uint8_t octets[64];
	size_t len = put_terminate(octets, 2, 0, code, trial.crc, marker);

	if (trial.in_len)
		saw(OUT_TERMINATE);
	if (!take(octets, len, trial.excused))
		return "not the Terminate that the Reply asks for (NEG-08, RTR-14)";
	return judge_failed_connect();
}

/* Our FIN came before siw had the socket: it does not take it any more. */
static const char *judge_too_late_for_siw(void)
{
	uint8_t octets[64];
	size_t len = put_terminate(octets, 2, 0, TERM_LOCAL, trial.crc, false);

	if (trial.script.policy.rev == 2 && trial.in_len) {
		if (!take(octets, len, false))
			return "not the Terminate of a local failure (TERM-02)";
		saw(OUT_TERMINATE);
	}
	return judge_failed_connect();
}

static const char *judge_accept(void)
{
	const struct policy *policy = &trial.script.policy;
	const struct behaviour *app = &trial.script.app;
	const uint8_t *ours = trial.script.out + trial.frame.total;
	const struct sent_fpdus sent = count_ours(ours, trial.talk->sent - trial.frame.total);
	const struct enhanced offer = {
		.a = policy->peer_to_peer, .kinds = policy_kinds(policy),
		.ird = app->ird, .ord = app->ord,
	};
	struct check check = { 0 };
	uint8_t octets[64];
	const char *wrong;
	size_t len;

	if (policy->rev == 2 && !trial.frame.is_enhanced)
		return judge_failed_connect();	/* AMB-10 */
	if (trial.frame.flags & FLAG_M)
		return judge_terminate(TERM_LOCAL, true);
	if (policy->rev == 2)
		check_reply(&offer, &trial.frame.data, policy, app->ird, app->ord, &check);
	if (check.terminate)
		return judge_terminate(check.terminate, false);
	if (check.kind) {
		len = put_rtr(octets, check.kind, trial.crc);
		if (!take(octets, len, trial.excused))
			return "not the RTR that was agreed (RTR-13)";
		saw(OUT_RTR);
	}
	if (!is_event(0, RDMA_CM_EVENT_ESTABLISHED))
		return trial.excused ? judge_too_late_for_siw() : "not ESTABLISHED";
	wrong = judge_param();
	if (!wrong)
		wrong = judge_stream(app, check.kind == KIND_B ? 2 : 1, &sent);
	if (!wrong && trial.report->received > sent.sends)
		wrong = "messages that were not sent";
	return wrong ? wrong : judge_events(0, true, false);
}

static const char *judge_responder(void)
{
	enum parsed parsed;

	if (!trial.report)
		return "the application has not reported its connect";
	if (trial.report->call_errno)
		return "rdma_connect() failed";
	if (!take_request())
		return "not the Request that is due";
	parsed = parse_frame(trial.script.out, trial.talk->sent, true, &trial.frame);
	if (parsed != PARSED_WHOLE) {
		saw(OUT_SILENCE);
		if (mutated(BIT(MUT_SILENT)) && !trial.talk->ended_alone)
			return "the time for the Reply is not limited (MPA-30)";
		return judge_failed_connect();
	}
	trial.crc = trial.script.policy.crc || trial.frame.flags & FLAG_C;
	return trial.frame.flags & FLAG_R ? judge_reject() : judge_accept();
}

/* Two hosts may take longer to find each other than the timer of the step allows. */
static bool connect_timed_out(const struct report *report)
{
	return report && report->type != REPORT_OPEN && report->nr_events == 1 &&
	       report->events[0].type == RDMA_CM_EVENT_UNREACHABLE &&
	       report->events[0].status == -ETIMEDOUT;
}

/* ---- all of them ---- */

const char *judge(const struct attack *attack, const struct talk *talk,
		  const struct report *report, struct tally *tally)
{
	const char *wrong = NULL;
	unsigned int i, role;

	trial = (struct trial){
		.attack = attack, .talk = talk, .report = report,
		.in = talk->in, .in_len = talk->in_len,
	};
	write_script(attack->seed, talk->index, attack->timer_ms, &trial.script);
	role = trial.script.responder;
	trial.late = talk->ms > attack->timer_ms - 20.;
	/* Ends of ours, and what a timer can have ended. */
	trial.excused = trial.late || talk->we_reset ||
			mutated(BIT(MUT_CUT_FIN) | BIT(MUT_CUT_RST) | BIT(MUT_DATA_FIN));

	if (!talk->connected && role && connect_timed_out(report))
		tally->unconnected++;
	else if (!talk->connected)
		wrong = "no TCP connection";
	else if (!talk->ended)
		wrong = "the connection does not end";
	else if (talk->too_much)
		wrong = "more octets than any answer has";
	else if (report && report->type == REPORT_OPEN)
		wrong = "the application still waits for an event";
	else if (report && report->garbled)
		wrong = "a completion before there was a connection (ENH-14)";
	else
		wrong = role ? judge_responder() : judge_initiator();

	tally->exchanges[role]++;
	for (i = 0; i < MUT_NR; i++)
		tally->mutations[role][i] += !!mutated(BIT(i));
	for (i = 0; i < OUT_NR; i++)
		tally->outcomes[role][i] += trial.outcomes[i];
	/* If only we let it. */
	if (trial.frame.fault &&
	    !mutated(BIT(MUT_CUT_FIN) | BIT(MUT_CUT_RST) | BIT(MUT_DATA_FIN) | BIT(MUT_LATE) |
		     BIT(MUT_DRIP))) {
		tally->faulty[role][trial.frame.fault]++;
		tally->prompt[role][trial.frame.fault] += talk->ended_alone && !trial.late;
	}
	if (mutated(BIT(MUT_NONE))) {
		tally->clean[role]++;
		tally->clean_up[role] += trial.outcomes[OUT_APP_ESTABLISHED] ||
					 trial.outcomes[OUT_APP_REJECTED] ||
					 trial.outcomes[OUT_REJECT];
	}
	return wrong;
}

/* ---- for people ---- */

static const char * const mutation_names[] = {
	[MUT_NONE] = "none",
	[MUT_FLAGS] = "flags",
	[MUT_REV] = "rev",
	[MUT_KEY] = "key",
	[MUT_LENGTH] = "length",
	[MUT_ENHANCED] = "enhanced",
	[MUT_GARBAGE] = "garbage",
	[MUT_TEXT] = "text",
	[MUT_SPLIT] = "split",
	[MUT_DRIP] = "drip",
	[MUT_EARLY] = "early",
	[MUT_LATE] = "late",
	[MUT_SILENT] = "silent",
	[MUT_CUT_FIN] = "cut fin",
	[MUT_CUT_RST] = "cut rst",
	[MUT_DATA_FIN] = "data fin",
	[MUT_URGENT] = "urgent",
	[MUT_FPDU_HEADER] = "fpdu header",
	[MUT_FPDU_LENGTH] = "fpdu length",
	[MUT_FPDU_CRC] = "fpdu crc",
	[MUT_FPDU_EMPTY] = "fpdu empty",
	[MUT_FPDU_BIG] = "fpdu big",
	[MUT_TERMINATE] = "terminate",
	[MUT_OTHER_FIRST] = "other first",
};

static const char * const outcome_names[] = {
	[OUT_SILENCE] = "silence",
	[OUT_REJECT] = "reject",
	[OUT_ACCEPT] = "accept",
	[OUT_TERMINATE] = "terminate",
	[OUT_RTR] = "rtr",
	[OUT_READ_RESPONSE] = "read response",
	[OUT_MESSAGE] = "message",
	[OUT_APP_REQUEST] = "app request",
	[OUT_APP_ESTABLISHED] = "app established",
	[OUT_APP_REJECTED] = "app rejected",
	[OUT_APP_FAILED] = "app failed",
	[OUT_APP_TIMEOUT] = "app timeout",
	[OUT_APP_GONE] = "app gone",
};

static const char * const fault_names[] = {
	[FAULT_KEY] = "key",
	[FAULT_REV] = "revision",
	[FAULT_LENGTH] = "PD_Length",
	[FAULT_ENHANCED] = "enhanced data",
};

static void print_hex(const char *what, const uint8_t *octets, size_t len)
{
	size_t i;

	printf("    %s %zu octets:", what, len);
	for (i = 0; i < len && i < 160; i++)
		printf("%s%02x", i % 4 ? "" : " ", octets[i]);
	printf("%s\n", i < len ? " ..." : "");
}

static void print_report(const struct report *report)
{
	unsigned int i;

	if (!report) {
		printf("    application: heard of nothing\n");
		return;
	}
	printf("    application: errno %d,", report->call_errno);
	for (i = 0; i < report->nr_events; i++)
		printf(" %s(%d)", rdma_event_str(report->events[i].type) + strlen("RDMA_CM_EVENT_"),
		       report->events[i].status);
	printf(", %u messages received\n", report->received);
	print_hex("private data", report->pd, report->pd_len);
}

void print_exchange(const struct attack *attack, const struct talk *talk,
		    const struct report *report)
{
	static const char * const steps[] = {
		"send", "send+fin", "urgent", "await-frame", "await-more", "await-end", "pause",
		"fin", "rst",
	};
	static struct script script;
	unsigned int i;

	write_script(attack->seed, talk->index, attack->timer_ms, &script);
	printf("    attacker as %s over %s, policy crc=%d p2p=%d enhanced=%d rev=%d rtr=%d,%d,%d:",
	       script.responder ? "responder" : "initiator", script.v6 ? "IPv6" : "IPv4",
	       script.policy.crc, script.policy.peer_to_peer, script.policy.accept_enhanced,
	       script.policy.rev, script.policy.order[0], script.policy.order[1],
	       script.policy.order[2]);
	for (i = 0; i < MUT_NR; i++)
		if (script.mutations & 1u << i)
			printf(" %s,", mutation_names[i]);
	printf("\n    steps:");
	for (i = 0; i < script.nr_steps && i < 24; i++)
		printf(" %s %u,", steps[script.steps[i].kind], script.steps[i].value);
	printf(" ended by %s%s after %.0f ms\n",
	       !talk->ended ? "nobody" : talk->we_reset ? "our RST" : talk->reset ? "RST" : "FIN",
	       talk->ended_alone ? " alone" : "", talk->ms);
	print_hex("sent", script.out, talk->sent);
	print_hex("received", talk->in, talk->in_len);
	print_report(report);
}

static void print_row(const char *name, const unsigned long *by_role)
{
	printf("  %-16s %10lu %10lu\n", name, by_role[0], by_role[1]);
}

void print_tally(const struct tally *tally)
{
	unsigned int i;

	printf("\n  attacker as       initiator  responder\n");
	print_row("exchanges", tally->exchanges);
	printf(" mutation\n");
	for (i = 0; i < MUT_NR; i++) {
		const unsigned long row[] = { tally->mutations[0][i], tally->mutations[1][i] };

		print_row(mutation_names[i], row);
	}
	printf(" outcome\n");
	for (i = 0; i < OUT_NR; i++) {
		const unsigned long row[] = { tally->outcomes[0][i], tally->outcomes[1][i] };

		print_row(outcome_names[i], row);
	}
	printf(" no frame, closed at once\n");
	for (i = FAULT_KEY; i < FAULT_NR; i++)
		printf("  %-16s %4lu/%-5lu %4lu/%-5lu\n", fault_names[i], tally->prompt[0][i],
		       tally->faulty[0][i], tally->prompt[1][i], tally->faulty[1][i]);
	printf(" not mutated\n");
	print_row("of these", tally->clean);
	print_row("as they should", tally->clean_up);
}

bool check_shares(const struct tally *tally)
{
	/* In a hundred of a role's exchanges at least so many. */
	static const struct {
		unsigned int role, outcome, share;
	} shares[] = {
		{ 0, OUT_SILENCE, 15 }, { 0, OUT_ACCEPT, 15 }, { 0, OUT_REJECT, 3 },
		{ 0, OUT_APP_ESTABLISHED, 10 }, { 0, OUT_TERMINATE, 1 }, { 0, OUT_MESSAGE, 3 },
		{ 1, OUT_SILENCE, 10 }, { 1, OUT_RTR, 10 }, { 1, OUT_APP_ESTABLISHED, 10 },
		{ 1, OUT_APP_REJECTED, 3 }, { 1, OUT_TERMINATE, 2 },
	};
	bool good = true;
	size_t i;

	for (i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
		unsigned long all = tally->exchanges[shares[i].role];
		unsigned long some = tally->outcomes[shares[i].role][shares[i].outcome];

		if (some * 100 >= all * shares[i].share)
			continue;
		printf("too few: %s %lu of %lu exchanges as %s, should be %u in 100\n",
		       outcome_names[shares[i].outcome], some, all,
		       shares[i].role ? "responder" : "initiator", shares[i].share);
		good = false;
	}
	/* MPA-08, MPA-15: at once, if the machine is not too busy. */
	for (i = 0; i < 2 * FAULT_NR; i++) {
		unsigned int role = i / FAULT_NR, fault = i % FAULT_NR;

		if (tally->faulty[role][fault] < 20 ||
		    tally->prompt[role][fault] * 4 >= tally->faulty[role][fault])
			continue;
		printf("too few: %lu of %lu frames with a wrong %s were closed at once as %s\n",
		       tally->prompt[role][fault], tally->faulty[role][fault], fault_names[fault],
		       role ? "responder" : "initiator");
		good = false;
	}
	if (tally->unconnected * 100 > tally->exchanges[1]) {
		printf("too many: %lu of %lu connects got no TCP connection in time\n",
		       tally->unconnected, tally->exchanges[1]);
		good = false;
	}
	/* The others met a timer: many do on a busy machine. */
	for (i = 0; i < 2; i++) {
		if (tally->clean_up[i] * 4 >= tally->clean[i])
			continue;
		printf("too few: %lu of %lu exchanges without mutation went as they should as %s\n",
		       tally->clean_up[i], tally->clean[i], i ? "responder" : "initiator");
		good = false;
	}
	return good;
}
