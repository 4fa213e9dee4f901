// SPDX-License-Identifier: GPL-2.0
/*
 * The transmit fence and the hand-over against the real siw: kernel QPs on a
 * siw device over lo, and real TCP connections.
 *
 *   peer (plain socket)  <-- TCP over lo -->  sock, handed to the QP
 */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/in.h>
#include <linux/kthread.h>
#include <linux/net.h>
#include <linux/slab.h>
#include <net/sock.h>
#include <rdma/ib_verbs.h>
#include <rdma/iw_cm.h>
#include <rdma/siw-abi.h>

#include <iw_mpa2/core.h>

#include "../drivers/siw/siw.h"
#include "../drivers/siw/siw_view.h"
#include "../drivers/siw/symbols.h"
#include "siw_test.h"

#define DEVICE_NAME "siw_lo"
#define QP_DEPTH 128
#define WAIT_JIFFIES (20 * HZ)
#define SILENCE_JIFFIES (HZ / 5)
#define PAYLOAD 4
#define EVENTS_MAX 8

/* A Send of PAYLOAD octets, and an empty one: length, DDP, RDMAP, QN, MSN, MO, CRC. */
#define SEND_HEADER 20
#define SEND_LEN (SEND_HEADER + PAYLOAD + 4)
#define EMPTY_SEND_LEN (SEND_HEADER + 4)
#define MSN_OFFSET 12

static struct ib_device *device;

/* One connection under test. */
struct link {
	struct kunit *test;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *qp;
	struct completion cq_event;
	struct socket *peer;
	struct socket *sock;
	struct mpa2_sock_ops original;
	struct mpa2_binding binding;
	struct mpa2_fence_owner owner;
	struct iw_cm_id cm_id;
	atomic_t released;
	atomic_t id_refs;
	atomic_t nr_events;
	enum iw_cm_event_type events[EVENTS_MAX];
	wait_queue_head_t wait;
};

/* ---- what the link is told ---- */

static void ignore(struct sock *sk)
{
}

static const struct mpa2_sock_ops deaf_ops = {
	.state_change = ignore,
	.data_ready = ignore,
	.write_space = ignore,
	.error_report = ignore,
};

static void owner_released(struct mpa2_fence_owner *owner)
{
	struct link *link = container_of(owner, struct link, owner);

	atomic_inc(&link->released);
	wake_up(&link->wait);
}

static int id_event(struct iw_cm_id *id, struct iw_cm_event *event)
{
	struct link *link = container_of(id, struct link, cm_id);
	int n = atomic_read(&link->nr_events);

	if (n < EVENTS_MAX)
		link->events[n] = event->event;
	atomic_inc(&link->nr_events);
	wake_up(&link->wait);
	return 0;
}

static void id_add_ref(struct iw_cm_id *id)
{
	atomic_inc(&container_of(id, struct link, cm_id)->id_refs);
}

static void id_rem_ref(struct iw_cm_id *id)
{
	struct link *link = container_of(id, struct link, cm_id);

	atomic_dec(&link->id_refs);
	wake_up(&link->wait);
}

static void cq_event(struct ib_cq *cq, void *context)
{
	complete(&((struct link *)context)->cq_event);
}

/* ---- arranging ---- */

static int tcp_pair(struct link *link)
{
	struct sockaddr_storage addr = {};
	struct sockaddr_in *in = (struct sockaddr_in *)&addr;
	struct socket *listener;
	int ret;

	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ret = sock_create_kern(&init_net, AF_INET, SOCK_STREAM, IPPROTO_TCP, &listener);
	if (ret)
		return ret;
	ret = kernel_bind(listener, (struct sockaddr *)in, sizeof(*in));
	if (!ret)
		ret = kernel_listen(listener, 1);
	if (!ret)
		ret = kernel_getsockname(listener, (struct sockaddr *)&addr);
	if (ret < 0)
		goto out;
	ret = mpa2_tcp_socket(&init_net, &addr, false, 0, false, &link->sock);
	if (ret)
		goto out;
	mpa2_tcp_install(link->sock, &deaf_ops, link, &link->original);
	ret = mpa2_tcp_connect(link->sock, &addr);
	if (ret && ret != -EINPROGRESS)
		goto out;
	ret = kernel_accept(listener, &link->peer, 0);
	if (!ret)
		mpa2_tcp_prepare(link->peer);
out:
	sock_release(listener);
	return ret;
}

static int make_qp(struct link *link)
{
	struct ib_cq_init_attr cq_attr = { .cqe = 4 * QP_DEPTH };
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_ALL_WR,
		.cap = {
			.max_send_wr = QP_DEPTH,
			.max_recv_wr = 8,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = PAYLOAD,
		},
	};

	link->pd = ib_alloc_pd(device, 0);
	if (IS_ERR(link->pd))
		return PTR_ERR(link->pd);
	link->cq = ib_create_cq(device, cq_event, NULL, link, &cq_attr);
	if (IS_ERR(link->cq))
		return PTR_ERR(link->cq);
	attr.send_cq = link->cq;
	attr.recv_cq = link->cq;
	link->qp = ib_create_qp(link->pd, &attr);
	return PTR_ERR_OR_ZERO(link->qp);
}

static void free_link(void *context)
{
	struct link *link = context;

	mpa2_siw_unbind(&link->binding);
	if (!IS_ERR_OR_NULL(link->qp))
		ib_destroy_qp(link->qp);
	if (!IS_ERR_OR_NULL(link->cq))
		ib_destroy_cq(link->cq);
	if (!IS_ERR_OR_NULL(link->pd))
		ib_dealloc_pd(link->pd);
	if (link->sock)
		sock_release(link->sock);
	if (link->peer)
		sock_release(link->peer);
	kfree(link);
}

static int link_init(struct kunit_resource *res, void *context)
{
	res->data = context;
	return 0;
}

static void link_free(struct kunit_resource *res)
{
	free_link(res->data);
}

static struct link *make_link(struct kunit *test)
{
	struct link *link = kzalloc(sizeof(*link), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, link);
	link->test = test;
	link->owner.released = owner_released;
	link->cm_id.device = device;
	link->cm_id.event_handler = id_event;
	link->cm_id.add_ref = id_add_ref;
	link->cm_id.rem_ref = id_rem_ref;
	init_completion(&link->cq_event);
	init_waitqueue_head(&link->wait);
	KUNIT_ASSERT_NOT_NULL(test, kunit_alloc_resource(test, link_init, link_free,
							 GFP_KERNEL, link));
	KUNIT_ASSERT_EQ(test, tcp_pair(link), 0);
	KUNIT_ASSERT_EQ(test, make_qp(link), 0);
	return link;
}

static struct mpa2_handover handover_of(struct link *link, u8 rtr)
{
	return (struct mpa2_handover){
		.qp = link->qp,
		.cm_id = &link->cm_id,
		.sock = link->sock,
		.original = &link->original,
		.ird = 4,
		.ord = 4,
		.rtr = rtr,
	};
}

static int attach_responder(struct link *link)
{
	struct mpa2_handover h = handover_of(link, 0);
	int ret;

	device->ops.iw_add_ref(link->qp);
	ret = mpa2_siw_attach_responder(&link->binding, &h, &deaf_ops, &link->owner);
	if (ret)
		device->ops.iw_rem_ref(link->qp);
	else
		link->sock = NULL;
	return ret;
}

static int attach_initiator(struct link *link, u8 rtr)
{
	struct mpa2_handover h = handover_of(link, rtr);
	int ret;

	device->ops.iw_add_ref(link->qp);
	link->cm_id.add_ref(&link->cm_id);
	ret = mpa2_siw_attach_initiator(&link->binding, &h);
	if (ret) {
		device->ops.iw_rem_ref(link->qp);
		link->cm_id.rem_ref(&link->cm_id);
	} else {
		link->sock = NULL;
	}
	return ret;
}

static int open_fence(struct link *link, u8 rtr)
{
	struct iw_cm_event event = { .event = IW_CM_EVENT_ESTABLISHED };
	int ret;

	link->cm_id.add_ref(&link->cm_id);
	ret = mpa2_siw_open_fence(&link->binding, link->qp, &link->cm_id, &event, rtr);
	if (ret)
		link->cm_id.rem_ref(&link->cm_id);
	return ret;
}

/* ---- acting ---- */

/* A Send whose octets are its number. */
static int post_send(struct link *link, u32 number)
{
	__be32 payload = cpu_to_be32(number);
	struct ib_sge sge = { .addr = (uintptr_t)&payload, .length = PAYLOAD };
	struct ib_send_wr wr = {
		.wr_id = number,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_INLINE | IB_SEND_SIGNALED,
	};

	return ib_post_send(link->qp, &wr, NULL);
}

static int post_empty_recv(struct link *link, u64 wr_id)
{
	struct ib_recv_wr wr = { .wr_id = wr_id };

	return ib_post_recv(link->qp, &wr, NULL);
}

/* The number of octets that came before the time was over, len at most. */
static int peer_receive(struct link *link, void *octets, size_t len, long timeout)
{
	struct kvec vec = { .iov_base = octets, .iov_len = len };
	struct msghdr msg = {};

	link->peer->sk->sk_rcvtimeo = timeout;
	return kernel_recvmsg(link->peer, &msg, &vec, 1, len, MSG_WAITALL);
}

static int peer_send(struct link *link, const void *octets, size_t len)
{
	struct kvec vec = { .iov_base = (void *)octets, .iov_len = len };
	struct msghdr msg = {};

	return kernel_sendmsg(link->peer, &msg, &vec, 1, len);
}

static void empty_send(u8 *octets, u8 msn)
{
	static const u8 form[EMPTY_SEND_LEN] = { 0x00, 0x12, 0x41, 0x43 };

	memcpy(octets, form, sizeof(form));
	octets[MSN_OFFSET + 3] = msn;
}

/* One completion; false when none came in time. */
static bool next_completion(struct link *link, struct ib_wc *wc, long timeout)
{
	int n;

	for (;;) {
		n = ib_poll_cq(link->cq, 1, wc);
		if (n)
			return n == 1;
		reinit_completion(&link->cq_event);
		ib_req_notify_cq(link->cq, IB_CQ_NEXT_COMP);
		n = ib_poll_cq(link->cq, 1, wc);
		if (n)
			return n == 1;
		if (!wait_for_completion_timeout(&link->cq_event, timeout))
			return false;
	}
}

/* The wire carries Sends with these numbers, in order, MSN from first_msn. */
static void expect_sends(struct link *link, u32 first_number, u32 count, u32 first_msn)
{
	u8 octets[SEND_LEN];
	u32 i;

	for (i = 0; i < count; i++) {
		KUNIT_ASSERT_EQ(link->test, peer_receive(link, octets, SEND_LEN, WAIT_JIFFIES),
				SEND_LEN);
		KUNIT_ASSERT_EQ(link->test, get_unaligned_be16(octets), 18 + PAYLOAD);
		KUNIT_ASSERT_EQ(link->test, get_unaligned_be16(octets + 2), 0x4143);
		KUNIT_ASSERT_EQ(link->test, get_unaligned_be32(octets + MSN_OFFSET),
				first_msn + i);
		KUNIT_ASSERT_EQ(link->test, get_unaligned_be32(octets + SEND_HEADER),
				first_number + i);
	}
}

static void expect_completions(struct link *link, u32 first_number, u32 count,
			       enum ib_wc_status status)
{
	struct ib_wc wc;
	u32 i;

	for (i = 0; i < count; i++) {
		KUNIT_ASSERT_TRUE(link->test, next_completion(link, &wc, WAIT_JIFFIES));
		KUNIT_EXPECT_EQ(link->test, (u32)wc.wr_id, first_number + i);
		KUNIT_EXPECT_EQ(link->test, (int)wc.status, (int)status);
	}
}

static void expect_no_completion(struct link *link)
{
	struct ib_wc wc;

	KUNIT_EXPECT_EQ(link->test, ib_poll_cq(link->cq, 1, &wc), 0);
}

static void expect_silence(struct link *link)
{
	u8 octet;

	KUNIT_EXPECT_EQ(link->test, peer_receive(link, &octet, 1, SILENCE_JIFFIES), -EAGAIN);
}

/* A receive that the ULP has posted is taken by the peer's Send of that MSN. */
static void expect_peer_send_arrives(struct link *link, u8 msn)
{
	u8 octets[EMPTY_SEND_LEN];
	struct ib_wc wc;

	empty_send(octets, msn);
	KUNIT_ASSERT_EQ(link->test, peer_send(link, octets, sizeof(octets)), EMPTY_SEND_LEN);
	KUNIT_ASSERT_TRUE(link->test, next_completion(link, &wc, WAIT_JIFFIES));
	KUNIT_EXPECT_EQ(link->test, (int)wc.status, (int)IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(link->test, (int)wc.opcode, (int)IB_WC_RECV);
}

/* ---- the fence ---- */

/* MPA-14, MPA-26, RTR-18, ENH-14 */
static void fence_holds_work_and_sends_it_in_order(struct kunit *test)
{
	struct link *link = make_link(test);
	u32 i;

	KUNIT_ASSERT_EQ(test, attach_responder(link), 0);
	KUNIT_EXPECT_FALSE(test, mpa2_siw_fence_holds_work(link->qp));
	for (i = 0; i < 5; i++)
		KUNIT_ASSERT_EQ(test, post_send(link, i), 0);
	KUNIT_EXPECT_TRUE(test, mpa2_siw_fence_holds_work(link->qp));
	expect_silence(link);
	expect_no_completion(link);
	KUNIT_EXPECT_EQ(test, atomic_read(&link->nr_events), 0);

	KUNIT_ASSERT_EQ(test, open_fence(link, MPA2_RTR_WRITE), 0);
	expect_sends(link, 0, 5, 1);
	expect_completions(link, 0, 5, IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, atomic_read(&link->nr_events), 1);
	KUNIT_EXPECT_EQ(test, (int)link->events[0], (int)IW_CM_EVENT_ESTABLISHED);
	/* The shim gave nothing back: the connection goes on with the real id. */
	KUNIT_EXPECT_EQ(test, atomic_read(&link->released), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&link->id_refs), 1);
	KUNIT_ASSERT_EQ(test, post_send(link, 5), 0);
	expect_sends(link, 5, 1, 6);
}

/* MPA-14 */
static void fence_full_queue_is_held(struct kunit *test)
{
	struct link *link = make_link(test);
	u32 i;

	KUNIT_ASSERT_EQ(test, attach_responder(link), 0);
	for (i = 0; i < QP_DEPTH; i++)
		KUNIT_ASSERT_EQ(test, post_send(link, i), 0);
	KUNIT_EXPECT_EQ(test, post_send(link, i), -ENOMEM);
	KUNIT_ASSERT_EQ(test, open_fence(link, 0), 0);
	expect_sends(link, 0, QP_DEPTH, 1);
	expect_completions(link, 0, QP_DEPTH, IB_WC_SUCCESS);
}

/* The RTR makes no completion, and the peer's next Send has this MSN. */
static void open_and_expect_msn(struct kunit *test, u8 rtr, u8 msn)
{
	struct link *link = make_link(test);

	KUNIT_ASSERT_EQ(test, post_empty_recv(link, 77), 0);
	KUNIT_ASSERT_EQ(test, attach_responder(link), 0);
	KUNIT_ASSERT_EQ(test, open_fence(link, rtr), 0);
	expect_no_completion(link);
	expect_peer_send_arrives(link, msn);
}

/* RTR-19, RTR-22, AMB-02, ENH-14 */
static void fence_send_rtr_takes_msn_1_and_no_receive(struct kunit *test)
{
	open_and_expect_msn(test, MPA2_RTR_SEND, 2);
}

/* RTR-19, RTR-23, ENH-14 */
static void fence_other_rtr_leaves_msn_1(struct kunit *test)
{
	open_and_expect_msn(test, MPA2_RTR_READ, 1);
}

/* AMB-18 */
static void fence_leaves_the_first_message_in_the_stream(struct kunit *test)
{
	struct link *link = make_link(test);
	u8 octets[EMPTY_SEND_LEN];
	struct ib_wc wc;

	KUNIT_ASSERT_EQ(test, post_empty_recv(link, 77), 0);
	KUNIT_ASSERT_EQ(test, attach_responder(link), 0);
	empty_send(octets, 1);
	KUNIT_ASSERT_EQ(test, peer_send(link, octets, sizeof(octets)), EMPTY_SEND_LEN);
	expect_silence(link);
	expect_no_completion(link);
	KUNIT_ASSERT_EQ(test, open_fence(link, 0), 0);
	KUNIT_ASSERT_TRUE(test, next_completion(link, &wc, WAIT_JIFFIES));
	KUNIT_EXPECT_EQ(test, (int)wc.opcode, (int)IB_WC_RECV);
}

static void fence_taken_back_flushes_work_once(struct kunit *test)
{
	struct link *link = make_link(test);
	u32 i;

	KUNIT_ASSERT_EQ(test, attach_responder(link), 0);
	for (i = 0; i < 3; i++)
		KUNIT_ASSERT_EQ(test, post_send(link, i), 0);
	link->sock = mpa2_siw_take_back(&link->binding, link->qp, &deaf_ops, link);
	KUNIT_ASSERT_NOT_NULL(test, link->sock);
	KUNIT_EXPECT_EQ(test, atomic_read(&link->released), 1);
	/* No completion for what closed the fence, one for each of the ULP's. */
	expect_completions(link, 0, 3, IB_WC_WR_FLUSH_ERR);
	expect_no_completion(link);
	expect_silence(link);
	/* The socket is ours again: a Terminate could still leave by it. */
	KUNIT_EXPECT_EQ(test, mpa2_tcp_send(link->sock, "last", 4), 0);
	KUNIT_EXPECT_EQ(test, peer_receive(link, &i, 4, WAIT_JIFFIES), 4);
}

static void fence_qp_to_error_lets_the_owner_go(struct kunit *test)
{
	struct link *link = make_link(test);
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	u8 octet;

	KUNIT_ASSERT_EQ(test, attach_responder(link), 0);
	KUNIT_ASSERT_EQ(test, post_send(link, 0), 0);
	KUNIT_ASSERT_EQ(test, ib_modify_qp(link->qp, &attr, IB_QP_STATE), 0);
	KUNIT_ASSERT_GT(test, wait_event_timeout(link->wait, atomic_read(&link->released),
						 WAIT_JIFFIES), 0L);
	KUNIT_EXPECT_NULL(test, mpa2_siw_fence_enter(&link->binding));
	KUNIT_EXPECT_EQ(test, open_fence(link, 0), -ENOTCONN);
	KUNIT_EXPECT_EQ(test, atomic_read(&link->released), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&link->nr_events), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&link->id_refs), 0);
	expect_completions(link, 0, 1, IB_WC_WR_FLUSH_ERR);
	/* The end, and nothing before it. */
	KUNIT_EXPECT_LE(test, peer_receive(link, &octet, 1, WAIT_JIFFIES), 0);
}

static void fence_qp_destroyed_lets_the_owner_go(struct kunit *test)
{
	struct link *link = make_link(test);

	KUNIT_ASSERT_EQ(test, attach_responder(link), 0);
	ib_destroy_qp(link->qp);
	link->qp = NULL;
	KUNIT_EXPECT_EQ(test, atomic_read(&link->released), 1);
	KUNIT_EXPECT_NULL(test, mpa2_siw_fence_enter(&link->binding));
}

/* Posts until told to stop or the queue is full. */
struct poster {
	struct link *link;
	u32 posted;
	struct completion begun;
};

static int poster_thread(void *data)
{
	struct poster *poster = data;

	while (poster->posted < QP_DEPTH && !kthread_should_stop()) {
		if (post_send(poster->link, poster->posted))
			break;
		if (++poster->posted == 4)
			complete(&poster->begun);
		cond_resched();
	}
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

/* A kernel QP's post_send and the opening race: nothing is lost or doubled. */
static void fence_opens_under_a_posting_thread(struct kunit *test)
{
	int round;

	for (round = 0; round < 20; round++) {
		struct link *link = make_link(test);
		struct poster poster = { .link = link };
		struct task_struct *task;

		init_completion(&poster.begun);
		KUNIT_ASSERT_EQ(test, attach_responder(link), 0);
		task = kthread_run(poster_thread, &poster, "mpa2_poster");
		KUNIT_ASSERT_FALSE(test, IS_ERR(task));
		wait_for_completion(&poster.begun);
		KUNIT_EXPECT_EQ(test, open_fence(link, 0), 0);
		expect_sends(link, 0, QP_DEPTH, 1);
		kthread_stop(task);
		KUNIT_ASSERT_EQ(test, poster.posted, (u32)QP_DEPTH);
		expect_completions(link, 0, QP_DEPTH, IB_WC_SUCCESS);
		expect_no_completion(link);
	}
}

/* Many fences of one processor's transmit list open at once. */
static void fence_many_open_side_by_side(struct kunit *test)
{
	struct link *links[12];
	u32 i, j;

	for (i = 0; i < ARRAY_SIZE(links); i++) {
		links[i] = make_link(test);
		KUNIT_ASSERT_EQ(test, attach_responder(links[i]), 0);
		for (j = 0; j < 8; j++)
			KUNIT_ASSERT_EQ(test, post_send(links[i], j), 0);
	}
	for (i = 0; i < ARRAY_SIZE(links); i++)
		KUNIT_ASSERT_EQ(test, open_fence(links[i], 0), 0);
	for (i = 0; i < ARRAY_SIZE(links); i++)
		KUNIT_ASSERT_EQ(test, post_send(links[i], 8), 0);
	for (i = 0; i < ARRAY_SIZE(links); i++) {
		expect_sends(links[i], 0, 9, 1);
		expect_completions(links[i], 0, 9, IB_WC_SUCCESS);
	}
}

static struct kunit_case fence_cases[] = {
	KUNIT_CASE(fence_holds_work_and_sends_it_in_order),
	KUNIT_CASE(fence_full_queue_is_held),
	KUNIT_CASE(fence_send_rtr_takes_msn_1_and_no_receive),
	KUNIT_CASE(fence_other_rtr_leaves_msn_1),
	KUNIT_CASE(fence_leaves_the_first_message_in_the_stream),
	KUNIT_CASE(fence_taken_back_flushes_work_once),
	KUNIT_CASE(fence_qp_to_error_lets_the_owner_go),
	KUNIT_CASE(fence_qp_destroyed_lets_the_owner_go),
	KUNIT_CASE(fence_opens_under_a_posting_thread),
	KUNIT_CASE(fence_many_open_side_by_side),
	{}
};

/* ---- the initiator's hand-over ---- */

struct rtr_case {
	const char *desc;
	u8 rtr;
	u8 first_msn;	/* of the ULP's first Send */
};

static const struct rtr_case rtr_cases[] = {
	{ "no RTR", 0, 1 },
	{ "Send", MPA2_RTR_SEND, 2 },
	{ "Write", MPA2_RTR_WRITE, 1 },
	{ "Read", MPA2_RTR_READ, 1 },
};

static void rtr_desc(const struct rtr_case *row, char *desc)
{
	strscpy(desc, row->desc, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(rtr, rtr_cases, rtr_desc);

/* RTR-19, RTR-23, ENH-14 */
static void initiator_goes_on_behind_its_rtr(struct kunit *test)
{
	static const u8 read_response[20] = { 0x00, 0x0e, 0xc1, 0x42, 0, 0, 0, 1 };
	const struct rtr_case *row = test->param_value;
	struct link *link = make_link(test);

	KUNIT_ASSERT_EQ(test, post_empty_recv(link, 77), 0);
	KUNIT_ASSERT_EQ(test, attach_initiator(link, row->rtr), 0);
	mpa2_siw_finish_initiator(&link->binding);
	if (row->rtr == MPA2_RTR_READ)
		KUNIT_ASSERT_EQ(test, peer_send(link, read_response, sizeof(read_response)),
				(int)sizeof(read_response));
	/* The answer to a Read RTR is siw's to take and nobody's completion. */
	expect_peer_send_arrives(link, 1);
	expect_no_completion(link);
	KUNIT_ASSERT_EQ(test, post_send(link, 1), 0);
	expect_sends(link, 1, 1, row->first_msn);
	expect_completions(link, 1, 1, IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, atomic_read(&link->nr_events), 0);
}

/* MPA-27, AMB-19; FR-01: what follows the reply in the same segment. */
static void initiator_takes_what_came_early(struct kunit *test)
{
	struct link *link = make_link(test);
	u8 octets[2 * EMPTY_SEND_LEN];

	KUNIT_ASSERT_EQ(test, post_empty_recv(link, 1), 0);
	KUNIT_ASSERT_EQ(test, post_empty_recv(link, 2), 0);
	empty_send(octets, 1);
	empty_send(octets + EMPTY_SEND_LEN, 2);
	KUNIT_ASSERT_EQ(test, peer_send(link, octets, sizeof(octets)), (int)sizeof(octets));
	KUNIT_ASSERT_EQ(test, attach_initiator(link, MPA2_RTR_WRITE), 0);
	mpa2_siw_finish_initiator(&link->binding);
	expect_completions(link, 1, 2, IB_WC_SUCCESS);
}

static bool has_event(struct link *link, enum iw_cm_event_type type)
{
	int i, n = min(atomic_read(&link->nr_events), EVENTS_MAX);

	for (i = 0; i < n; i++)
		if (link->events[i] == type)
			return true;
	return false;
}

/* MPA-35: a close that came before siw's callbacks were in is not missed. */
static void initiator_sees_an_early_close(struct kunit *test)
{
	struct link *link = make_link(test);
	u8 octet;

	KUNIT_ASSERT_EQ(test, attach_initiator(link, MPA2_RTR_WRITE), 0);
	kernel_sock_shutdown(link->peer, SHUT_RDWR);
	mpa2_siw_finish_initiator(&link->binding);
	KUNIT_EXPECT_GT(test, wait_event_timeout(link->wait,
						 has_event(link, IW_CM_EVENT_CLOSE) &&
						 !atomic_read(&link->id_refs), WAIT_JIFFIES), 0L);
	KUNIT_EXPECT_LE(test, peer_receive(link, &octet, 1, WAIT_JIFFIES), 0);
}

/* a QP that was used comes up dead, so it is refused. */
static void used_qp_is_refused(struct kunit *test)
{
	struct link *link = make_link(test);
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct socket *sock = link->sock;

	KUNIT_EXPECT_EQ(test, mpa2_siw_check_qp(link->qp), 0);
	KUNIT_ASSERT_EQ(test, ib_modify_qp(link->qp, &attr, IB_QP_STATE), 0);
	KUNIT_EXPECT_EQ(test, mpa2_siw_check_qp(link->qp), -EINVAL);
	KUNIT_EXPECT_EQ(test, attach_initiator(link, MPA2_RTR_WRITE), -EINVAL);
	KUNIT_EXPECT_EQ(test, attach_responder(link), -EINVAL);
	/* Nothing was taken. */
	KUNIT_EXPECT_PTR_EQ(test, link->sock, sock);
	KUNIT_EXPECT_NULL(test, link->binding.cep);
	KUNIT_EXPECT_EQ(test, atomic_read(&link->released), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&link->id_refs), 0);
}

static void connected_qp_is_refused(struct kunit *test)
{
	struct link *link = make_link(test);
	struct link *other = make_link(test);
	struct mpa2_binding second = {};
	struct mpa2_handover h;

	KUNIT_ASSERT_EQ(test, attach_responder(link), 0);
	h = handover_of(link, 0);
	h.sock = other->sock;
	KUNIT_EXPECT_EQ(test, mpa2_siw_check_qp(link->qp), -EINVAL);
	KUNIT_EXPECT_EQ(test, mpa2_siw_attach_initiator(&second, &h), -EINVAL);
	KUNIT_EXPECT_NULL(test, second.cep);
}

/* siw reads nothing while a QP is being modified, and is not called again. */
static void message_beside_a_modify_is_read_later(struct kunit *test)
{
	struct link *link = make_link(test);
	struct rw_semaphore *lock = SIW_QP(siw_qp_of(link->qp), state_lock, struct rw_semaphore);
	u8 octets[EMPTY_SEND_LEN];
	struct ib_wc wc;
	int sent;

	KUNIT_ASSERT_EQ(test, post_empty_recv(link, 77), 0);
	KUNIT_ASSERT_EQ(test, attach_initiator(link, MPA2_RTR_WRITE), 0);
	mpa2_siw_finish_initiator(&link->binding);
	empty_send(octets, 1);
	down_write(lock);
	sent = peer_send(link, octets, sizeof(octets));
	/* Over lo it has arrived by now; the wait is for a kernel that is busy. */
	schedule_timeout_uninterruptible(SILENCE_JIFFIES);
	up_write(lock);
	KUNIT_ASSERT_EQ(test, sent, EMPTY_SEND_LEN);
	KUNIT_ASSERT_FALSE(test, next_completion(link, &wc, SILENCE_JIFFIES));
	mpa2_siw_poll_receive(link->qp);
	KUNIT_ASSERT_TRUE(test, next_completion(link, &wc, WAIT_JIFFIES));
	KUNIT_EXPECT_EQ(test, (int)wc.status, (int)IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, (int)wc.opcode, (int)IB_WC_RECV);
}

/* siw's would look at the cep without a lock. */
static void error_report_stays_tcps_own(struct kunit *test)
{
	struct link *initiator = make_link(test), *responder = make_link(test);
	struct sock *sk = initiator->sock->sk;

	KUNIT_ASSERT_EQ(test, attach_initiator(initiator, MPA2_RTR_WRITE), 0);
	mpa2_siw_finish_initiator(&initiator->binding);
	KUNIT_EXPECT_PTR_EQ(test, sk->sk_error_report, initiator->original.error_report);
	KUNIT_EXPECT_PTR_NE(test, sk->sk_data_ready, initiator->original.data_ready);

	sk = responder->sock->sk;
	KUNIT_ASSERT_EQ(test, attach_responder(responder), 0);
	KUNIT_ASSERT_EQ(test, open_fence(responder, MPA2_RTR_WRITE), 0);
	KUNIT_EXPECT_PTR_EQ(test, sk->sk_error_report, responder->original.error_report);
	KUNIT_EXPECT_PTR_NE(test, sk->sk_data_ready, responder->original.data_ready);
}

static struct kunit_case handover_cases[] = {
	KUNIT_CASE_PARAM(initiator_goes_on_behind_its_rtr, rtr_gen_params),
	KUNIT_CASE(initiator_takes_what_came_early),
	KUNIT_CASE(initiator_sees_an_early_close),
	KUNIT_CASE(used_qp_is_refused),
	KUNIT_CASE(connected_qp_is_refused),
	KUNIT_CASE(message_beside_a_modify_is_read_later),
	KUNIT_CASE(error_report_stays_tcps_own),
	{}
};

/* ---- suites ---- */

static int suite_init(struct kunit_suite *suite)
{
	int ret = mpa2_siw_resolve();

	if (ret)
		return ret;
	ret = mpa2_tcp_start();
	if (ret)
		goto release_siw;
	device = ib_device_get_by_name(DEVICE_NAME, RDMA_DRIVER_SIW);
	if (device)
		return 0;
	pr_err("the suites need a siw device called " DEVICE_NAME "\n");
	ret = -ENODEV;
	mpa2_tcp_stop();
release_siw:
	mpa2_siw_release();
	return ret;
}

static void suite_exit(struct kunit_suite *suite)
{
	if (!device)
		return;
	ib_device_put(device);
	device = NULL;
	mpa2_tcp_stop();
	mpa2_siw_release();
}

struct kunit_suite mpa2_fence_suite = {
	.name = "mpa2_fence",
	.suite_init = suite_init,
	.suite_exit = suite_exit,
	.test_cases = fence_cases,
};

struct kunit_suite mpa2_handover_suite = {
	.name = "mpa2_handover",
	.suite_init = suite_init,
	.suite_exit = suite_exit,
	.test_cases = handover_cases,
};
