// SPDX-License-Identifier: GPL-2.0
/*
 * The protocol core inside a kernel: the same tables as in the hosted tests,
 * compiled with the kernel's flags and run under its sanitizers.
 */
#include <kunit/test.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>

#include <iw_mpa2/core.h>

#include "../userspace-tests/core/vectors.h"
#include "core_test.h"

/* ---- frames ---- */

/* MPA-01, MPA-02, MPA-16, ENH-04..06 */
static void frame_is_built(struct kunit *test)
{
	const struct frame_vector *vector = test->param_value;
	u8 *out = kunit_kzalloc(test, MPA2_FRAME_MAX, GFP_KERNEL);
	size_t len;

	KUNIT_ASSERT_NOT_NULL(test, out);
	len = mpa2_frame_build(&vector->frame, vector->ulp_pd,
			       strlen(vector->ulp_pd), out, MPA2_FRAME_MAX);
	KUNIT_ASSERT_EQ(test, len, (size_t)vector->len);
	KUNIT_EXPECT_EQ(test, memcmp(out, vector->octets, len), 0);
}

/* ENH-04, ENH-06, ENH-07 */
static void frame_is_read_at_every_length(struct kunit *test)
{
	const struct frame_vector *vector = test->param_value;
	struct mpa2_frame frame;
	u32 total;
	u8 cause, *exact;
	size_t len;

	for (len = 0; len <= vector->len; len++) {
		enum mpa2_status status;

		/* To size, so that KASAN sees a read behind the end. */
		exact = kmemdup(vector->octets, max_t(size_t, len, 1),
				GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, exact);
		status = mpa2_frame_parse(exact, len, vector->frame.key, &frame,
					  &total, &cause);
		kfree(exact);
		KUNIT_EXPECT_EQ(test, (int)status,
				(int)(len < vector->len ? MPA2_NEED_MORE :
							  MPA2_DONE));
	}
	KUNIT_EXPECT_EQ(test, total, (u32)vector->len);
	KUNIT_EXPECT_EQ(test, memcmp(&frame, &vector->frame, sizeof(frame)), 0);
}

static void frame_desc(const struct frame_vector *vector, char *desc)
{
	strscpy(desc, vector->desc, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(frame, frame_vectors, frame_desc);

/* MPA-26, MPA-28, MPA-37, RTR-23 */
static void rtr_is_the_standards_octets(struct kunit *test)
{
	const struct rtr_vector *vector = test->param_value;
	u8 out[MPA2_RTR_MAX];
	size_t len;

	len = mpa2_rtr_build(vector->kind, vector->crc, vector->markers, out,
			     sizeof(out));
	KUNIT_ASSERT_EQ(test, len, (size_t)vector->len);
	KUNIT_EXPECT_EQ(test, memcmp(out, vector->octets, len), 0);
}

/* RTR-18, MPA-38 */
static void rtr_is_seen_only_whole(struct kunit *test)
{
	const struct rtr_vector *vector = test->param_value;
	struct mpa2_fpdu fpdu;
	u32 total;
	u8 cause;
	size_t len;

	if (vector->markers)
		return;	/* sent, never received: we do not ask for them */
	for (len = 0; len < vector->len; len++)
		KUNIT_EXPECT_EQ(test,
				(int)mpa2_fpdu_parse(vector->octets, len,
						     vector->crc, &fpdu, &total,
						     &cause),
				(int)MPA2_NEED_MORE);
	KUNIT_ASSERT_EQ(test,
			(int)mpa2_fpdu_parse(vector->octets, len, vector->crc,
					     &fpdu, &total, &cause),
			(int)MPA2_DONE);
	KUNIT_EXPECT_EQ(test, fpdu.kind, (u8)MPA2_FPDU_RTR);
	KUNIT_EXPECT_EQ(test, fpdu.rtr, vector->kind);
}

static void rtr_desc(const struct rtr_vector *vector, char *desc)
{
	strscpy(desc, vector->desc, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(rtr, rtr_vectors, rtr_desc);

/* TERM-05, TERM-06 */
static void terminate_is_the_standards_octets(struct kunit *test)
{
	u8 out[MPA2_TERMINATE_MAX];
	size_t i, len;

	for (i = 0; i < ARRAY_SIZE(terminate_vectors); i++) {
		const struct terminate_vector *vector = &terminate_vectors[i];

		len = mpa2_terminate_build(MPA2_TERM_LAYER_MPA, 0, vector->code,
					   vector->crc, false, out,
					   sizeof(out));
		KUNIT_ASSERT_EQ(test, len, sizeof(vector->octets));
		KUNIT_EXPECT_EQ(test, memcmp(out, vector->octets, len), 0);
	}
}

static struct kunit_case frame_cases[] = {
	KUNIT_CASE_PARAM(frame_is_built, frame_gen_params),
	KUNIT_CASE_PARAM(frame_is_read_at_every_length, frame_gen_params),
	KUNIT_CASE_PARAM(rtr_is_the_standards_octets, rtr_gen_params),
	KUNIT_CASE_PARAM(rtr_is_seen_only_whole, rtr_gen_params),
	KUNIT_CASE(terminate_is_the_standards_octets),
	{}
};

struct kunit_suite mpa2_frames_suite = {
	.name = "mpa2_frames",
	.test_cases = frame_cases,
};

/* ---- negotiation ---- */

static struct mpa2_policy policy_of(u8 rtr_set, u16 cap)
{
	struct mpa2_policy policy = {
		.rev = MPA2_REV_2,
		.peer_to_peer = 1,
		.accept_enhanced = 1,
		.cap_ird = cap,
		.cap_ord = cap,
	};
	static const u8 kinds[] = { MPA2_RTR_WRITE, MPA2_RTR_READ,
				    MPA2_RTR_SEND };
	int i, n = 0;

	for (i = 0; i < 3; i++)
		if (rtr_set & kinds[i])
			policy.rtr_order[n++] = kinds[i];
	return policy;
}

/* NEG-02..04, NEG-12, NEG-13, NEG-16 */
static void reply_row_holds(struct kunit *test)
{
	const struct reply_row *row = test->param_value;
	struct mpa2_policy policy = policy_of(row->rtr_set, row->cap);
	struct mpa2_reply_result result;

	mpa2_negotiate_reply(&row->request, &policy, row->ulp_ird, row->ulp_ord,
			     &result);
	KUNIT_EXPECT_EQ(test, result.reply.ird, row->reply_ird);
	KUNIT_EXPECT_EQ(test, result.reply.ord, row->reply_ord);
	KUNIT_EXPECT_EQ(test, result.local_ird, row->local_ird);
	KUNIT_EXPECT_EQ(test, result.local_ord, row->local_ord);
	policy.round_ord = 1;
	mpa2_negotiate_reply(&row->request, &policy, row->ulp_ird, row->ulp_ord,
			     &result);
	KUNIT_EXPECT_EQ(test, result.local_ord, row->rounded_ord);
}

static void reply_desc(const struct reply_row *row, char *desc)
{
	strscpy(desc, row->desc, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(reply, reply_rows, reply_desc);

/* NEG-06..08, NEG-14, NEG-15 */
static void check_row_holds(struct kunit *test)
{
	const struct check_row *row = test->param_value;
	struct mpa2_policy policy =
		policy_of(row->sent.peer_to_peer ? row->sent.rtr : MPA2_RTR_ALL,
			  row->cap);
	struct mpa2_check_result result;

	mpa2_negotiate_check(&row->sent, &row->reply, &policy, row->ulp_ird,
			     row->ulp_ord, &result);
	KUNIT_ASSERT_EQ(test, result.terminate, row->terminate);
	if (row->terminate)
		return;
	KUNIT_EXPECT_EQ(test, result.local_ird, row->local_ird);
	KUNIT_EXPECT_EQ(test, result.local_ord, row->local_ord);
}

static void check_desc(const struct check_row *row, char *desc)
{
	strscpy(desc, row->desc, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(check, check_rows, check_desc);

/* RTR-09, RTR-10, RTR-12..14 */
static void every_pair_of_rtr_sets(struct kunit *test)
{
	int offered, supported;

	for (offered = 0; offered < 7; offered++) {
		for (supported = 0; supported < 7; supported++) {
			const struct rtr_pair *pair =
				&rtr_pairs[offered][supported];
			struct mpa2_policy responder =
				policy_of(rtr_sets[supported], 128);
			struct mpa2_policy initiator =
				policy_of(rtr_sets[offered], 128);
			struct mpa2_enhanced request = {
				.ird = 4,
				.ord = 4,
				.peer_to_peer = 1,
				.rtr = rtr_sets[offered],
			};
			struct mpa2_reply_result reply;
			struct mpa2_check_result check;

			mpa2_negotiate_reply(&request, &responder, 4, 4,
					     &reply);
			KUNIT_EXPECT_EQ(test, reply.reply.rtr, pair->reply);
			mpa2_negotiate_check(&request, &reply.reply, &initiator,
					     4, 4, &check);
			KUNIT_EXPECT_EQ(test, check.rtr, pair->rtr);
			KUNIT_EXPECT_EQ(test, !check.rtr, !!check.terminate);
		}
	}
}

static struct kunit_case negotiation_cases[] = {
	KUNIT_CASE_PARAM(reply_row_holds, reply_gen_params),
	KUNIT_CASE_PARAM(check_row_holds, check_gen_params),
	KUNIT_CASE(every_pair_of_rtr_sets),
	{}
};

struct kunit_suite mpa2_negotiation_suite = {
	.name = "mpa2_negotiation",
	.test_cases = negotiation_cases,
};

/* ---- the machines, 4.1 and 4.2 ---- */

struct machine {
	struct mpa2_conn conn;
	struct mpa2_actions actions;
};

static int machine_init(struct kunit *test)
{
	test->priv = kunit_kzalloc(test, sizeof(struct machine), GFP_KERNEL);
	return test->priv ? 0 : -ENOMEM;
}

static void feed(struct machine *m, const struct mpa2_event *event)
{
	mpa2_conn_event(&m->conn, event, &m->actions);
}

static void feed_type(struct machine *m, enum mpa2_event_type type)
{
	struct mpa2_event event = { .type = type };

	feed(m, &event);
}

static void feed_octets(struct machine *m, const u8 *octets, u32 len)
{
	struct mpa2_event event = { .type = MPA2_EV_OCTETS };

	while (len) {
		event.octets = octets;
		event.octets_len = min(len, mpa2_conn_wanted(&m->conn));
		if (!event.octets_len)
			return;
		len -= event.octets_len;
		octets += event.octets_len;
		event.more_queued = len != 0;
		feed(m, &event);
	}
}

static u8 state_of(struct machine *m)
{
	struct mpa2_info info;

	mpa2_conn_info(&m->conn, &info);
	return info.state;
}

/* The actions of the last event, by their types; ends with MPA2_ACT_NONE. */
static void expect_actions(struct kunit *test, const u8 *types)
{
	struct machine *m = test->priv;
	u32 i;

	for (i = 0; types[i] != MPA2_ACT_NONE; i++) {
		KUNIT_ASSERT_LT(test, i, m->actions.count);
		KUNIT_EXPECT_EQ(test, m->actions.list[i].type, types[i]);
	}
	KUNIT_EXPECT_EQ(test, i, m->actions.count);
}

#define EXPECT_ACTIONS(test, ...)                                   \
	do {                                                        \
		static const u8 types[] = { __VA_ARGS__, MPA2_ACT_NONE }; \
		expect_actions(test, types);                        \
	} while (0)

static const u8 accept_reply[] = "MPA ID Rep Frame\x10\x02\x00\x04\x80\x04\x80\x04";
static const u8 reject_reply[] = "MPA ID Rep Frame\x30\x02\x00\x04\x80\x04\x80\x04";
static const u8 client_server_reply[] =
	"MPA ID Rep Frame\x10\x02\x00\x04\x00\x04\x00\x04";
static const u8 p2p_request[] = "MPA ID Req Frame\x10\x02\x00\x04\x80\x04\x80\x04";
static const u8 rev1_request[] = "MPA ID Req Frame\x00\x01\x00\x00";

static void begin_initiator(struct machine *m)
{
	struct mpa2_policy policy = policy_of(MPA2_RTR_ALL, 128);
	struct mpa2_event event = {
		.type = MPA2_EV_START,
		.ulp_ird = 4,
		.ulp_ord = 4,
	};

	mpa2_conn_init(&m->conn, MPA2_INITIATOR, &policy);
	feed(m, &event);
	feed_type(m, MPA2_EV_CONNECTED);
}

/* RTR-13, RTR-15, RTR-16 */
static void initiator_sends_its_rtr_before_it_binds(struct kunit *test)
{
	struct machine *m = test->priv;

	begin_initiator(m);
	feed_octets(m, accept_reply, sizeof(accept_reply) - 1);
	EXPECT_ACTIONS(test, MPA2_ACT_STOP_TIMER, MPA2_ACT_SEND);
	KUNIT_EXPECT_EQ(test,
			memcmp(m->actions.list[1].octets, rtr_vectors[1].octets,
			       rtr_vectors[1].len),
			0);
	feed_type(m, MPA2_EV_SENT);
	EXPECT_ACTIONS(test, MPA2_ACT_BIND);
	feed_type(m, MPA2_EV_BOUND);
	EXPECT_ACTIONS(test, MPA2_ACT_ESTABLISHED);
}

/* MPA-12 */
static void initiator_honours_a_reject(struct kunit *test)
{
	struct machine *m = test->priv;

	begin_initiator(m);
	feed_octets(m, reject_reply, sizeof(reject_reply) - 1);
	EXPECT_ACTIONS(test, MPA2_ACT_STOP_TIMER, MPA2_ACT_REJECTED,
		       MPA2_ACT_SHUTDOWN, MPA2_ACT_ARM_TIMER);
	feed_type(m, MPA2_EV_EOF);
	KUNIT_EXPECT_EQ(test, state_of(m), (u8)MPA2_ST_CLOSED);
}

/* RTR-14, TERM-04 */
static void initiator_terminates_on_another_model(struct kunit *test)
{
	struct machine *m = test->priv;

	begin_initiator(m);
	feed_octets(m, client_server_reply, sizeof(client_server_reply) - 1);
	EXPECT_ACTIONS(test, MPA2_ACT_STOP_TIMER, MPA2_ACT_SEND);
	KUNIT_EXPECT_EQ(test,
			memcmp(m->actions.list[1].octets,
			       terminate_vectors[2].octets, 28),
			0);
	feed_type(m, MPA2_EV_SENT);
	EXPECT_ACTIONS(test, MPA2_ACT_SHUTDOWN, MPA2_ACT_ARM_TIMER,
		       MPA2_ACT_FAILED);
}

/* MPA-30 */
static void initiator_times_out(struct kunit *test)
{
	struct machine *m = test->priv;

	begin_initiator(m);
	feed_type(m, MPA2_EV_TIMER);
	EXPECT_ACTIONS(test, MPA2_ACT_RESET, MPA2_ACT_FAILED);
}

/* Every event in every state that can be reached by a prefix of a good run. */
static void initiator_survives_any_event(struct kunit *test)
{
	struct machine *m = test->priv;
	int steps, event;

	for (steps = 0; steps <= (int)sizeof(accept_reply) - 1; steps++) {
		for (event = 0; event < MPA2_EV_NR; event++) {
			if (event == MPA2_EV_OCTETS || event == MPA2_EV_FPDU)
				continue;
			begin_initiator(m);
			feed_octets(m, accept_reply, steps);
			feed_type(m, event);
			KUNIT_EXPECT_LE(test, m->actions.count,
					MPA2_ACTIONS_MAX);
			feed_type(m, MPA2_EV_ABORT);
			KUNIT_EXPECT_TRUE(test,
					  state_of(m) == MPA2_ST_CLOSED ||
						  state_of(m) == MPA2_ST_EST);
		}
	}
}

static struct kunit_case initiator_cases[] = {
	KUNIT_CASE(initiator_sends_its_rtr_before_it_binds),
	KUNIT_CASE(initiator_honours_a_reject),
	KUNIT_CASE(initiator_terminates_on_another_model),
	KUNIT_CASE(initiator_times_out),
	KUNIT_CASE(initiator_survives_any_event),
	{}
};

struct kunit_suite mpa2_initiator_suite = {
	.name = "mpa2_initiator",
	.init = machine_init,
	.test_cases = initiator_cases,
};

static void begin_responder(struct machine *m, const u8 *request, u32 len)
{
	struct mpa2_policy policy = policy_of(MPA2_RTR_ALL, 128);

	mpa2_conn_init(&m->conn, MPA2_RESPONDER, &policy);
	feed_type(m, MPA2_EV_CONNECTED);
	feed_octets(m, request, len);
}

static void accept(struct machine *m)
{
	struct mpa2_event event = {
		.type = MPA2_EV_ACCEPT,
		.ulp_ird = 4,
		.ulp_ord = 4,
	};

	feed(m, &event);
	feed_type(m, MPA2_EV_BOUND);
}

static void show_fpdu(struct machine *m, const u8 *octets)
{
	struct mpa2_event event = { .type = MPA2_EV_FPDU, .octets = octets };

	/* First the length, then the whole. */
	event.octets_len = mpa2_conn_wanted(&m->conn);
	feed(m, &event);
	event.octets_len = mpa2_conn_wanted(&m->conn);
	feed(m, &event);
}

/* RTR-18, RTR-06 */
static void responder_establishes_with_the_rtr(struct kunit *test)
{
	struct machine *m = test->priv;

	begin_responder(m, p2p_request, sizeof(p2p_request) - 1);
	EXPECT_ACTIONS(test, MPA2_ACT_STOP_TIMER, MPA2_ACT_CONNECT_REQUEST);
	accept(m);
	EXPECT_ACTIONS(test, MPA2_ACT_SEND);
	KUNIT_ASSERT_EQ(test, m->actions.list[0].octets_len,
			(u32)sizeof(accept_reply) - 1);
	KUNIT_EXPECT_EQ(test,
			memcmp(m->actions.list[0].octets, accept_reply,
			       sizeof(accept_reply) - 1),
			0);
	feed_type(m, MPA2_EV_SENT);
	EXPECT_ACTIONS(test, MPA2_ACT_ARM_TIMER);
	show_fpdu(m, rtr_vectors[1].octets);
	EXPECT_ACTIONS(test, MPA2_ACT_STOP_TIMER, MPA2_ACT_CONSUME,
		       MPA2_ACT_OPEN_FENCE, MPA2_ACT_ESTABLISHED);
}

/* AMB-24, ENH-09 */
static void responder_establishes_rev1_with_the_reply(struct kunit *test)
{
	struct machine *m = test->priv;

	begin_responder(m, rev1_request, sizeof(rev1_request) - 1);
	accept(m);
	feed_type(m, MPA2_EV_SENT);
	EXPECT_ACTIONS(test, MPA2_ACT_ESTABLISHED);
	KUNIT_EXPECT_EQ(test, state_of(m), (u8)MPA2_ST_W_FPDU);
}

/* MPA-14, SEC-10, AMB-04 */
static void responder_closes_without_a_word_before_the_fpdu(struct kunit *test)
{
	static const u8 ends[] = { MPA2_EV_EOF, MPA2_EV_RESET, MPA2_EV_TIMER,
				   MPA2_EV_ABORT };
	struct machine *m = test->priv;
	int i;

	for (i = 0; i < ARRAY_SIZE(ends); i++) {
		begin_responder(m, p2p_request, sizeof(p2p_request) - 1);
		accept(m);
		feed_type(m, MPA2_EV_SENT);
		feed_type(m, ends[i]);
		EXPECT_ACTIONS(test, MPA2_ACT_STOP_TIMER, MPA2_ACT_CLOSE,
			       MPA2_ACT_FAILED);
	}
}

/* AMB-03 */
static void responder_rejects_when_it_cannot_bind(struct kunit *test)
{
	struct mpa2_event event = { .type = MPA2_EV_ACCEPT };
	struct machine *m = test->priv;

	begin_responder(m, p2p_request, sizeof(p2p_request) - 1);
	feed(m, &event);
	feed_type(m, MPA2_EV_LOCAL_FAILURE);
	EXPECT_ACTIONS(test, MPA2_ACT_SEND, MPA2_ACT_FAILED);
	KUNIT_EXPECT_EQ(test, m->actions.list[0].octets[16], (u8)0x30);
}

/* AMB-19 */
static void responder_closes_on_trailing_octets(struct kunit *test)
{
	u8 octets[sizeof(p2p_request)];
	struct machine *m = test->priv;

	memcpy(octets, p2p_request, sizeof(octets)); /* its NUL is one more */
	begin_responder(m, octets, sizeof(octets));
	EXPECT_ACTIONS(test, MPA2_ACT_STOP_TIMER, MPA2_ACT_CLOSE);
}

static struct kunit_case responder_cases[] = {
	KUNIT_CASE(responder_establishes_with_the_rtr),
	KUNIT_CASE(responder_establishes_rev1_with_the_reply),
	KUNIT_CASE(responder_closes_without_a_word_before_the_fpdu),
	KUNIT_CASE(responder_rejects_when_it_cannot_bind),
	KUNIT_CASE(responder_closes_on_trailing_octets),
	{}
};

struct kunit_suite mpa2_responder_suite = {
	.name = "mpa2_responder",
	.init = machine_init,
	.test_cases = responder_cases,
};
