/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An endpoint from the inside: shared by endpoint.c (life, timer, work item),
 * stream.c (its socket), actions.c (the core's answers), events.c (iw_cm) and
 * ops.c (beginnings and ends).  All under ep->lock unless said otherwise.
 */
#ifndef IW_MPA2_ENDPOINT_H
#define IW_MPA2_ENDPOINT_H

#include "mpa2.h"

/* A fence that holds work longer than this is worth a line. */
#define MPA2_LONG_HOLD_MS 1000
/* An event that iw_cm has not delivered by then was dropped by it: while its
 * listener lives, and after the listener's destruction, which drops events.
 */
#define MPA2_DELIVER_TIMEOUT_MS 60000
#define MPA2_DROPPED_TIMEOUT_MS 5000

/* endpoint.c */
struct mpa2_endpoint __must_check *mpa2_endpoint_alloc(struct mpa2_device *dev,
						       enum mpa2_role role,
						       const struct mpa2_settings *settings);
void mpa2_endpoint_choose(struct mpa2_endpoint *ep, const struct mpa2_choice *choice);
void mpa2_ep_wake(struct mpa2_endpoint *ep, enum mpa2_ep_flag flag);
void mpa2_ep_arm(struct mpa2_endpoint *ep, enum mpa2_ep_timer kind,
		 unsigned int timeout_ms);
void mpa2_ep_stop_timer(struct mpa2_endpoint *ep);
struct mpa2_info mpa2_ep_info(struct mpa2_endpoint *ep);
struct mpa2_record mpa2_ep_record(struct mpa2_endpoint *ep);
void mpa2_ep_log_failure(struct mpa2_endpoint *ep, int status);
void mpa2_ep_check_hold(struct mpa2_endpoint *ep);
void mpa2_ep_leave_room(struct mpa2_endpoint *ep);
void mpa2_ep_drop_ids(struct mpa2_endpoint *ep);
void mpa2_ep_finish(struct mpa2_endpoint *ep);
void mpa2_ep_abort(struct mpa2_endpoint *ep);

/* stream.c */
extern const struct mpa2_sock_ops mpa2_pending_ops;
extern const struct mpa2_sock_ops mpa2_fence_ops;
void mpa2_ep_socket(struct mpa2_endpoint *ep);
void mpa2_ep_watch_for_end(struct mpa2_endpoint *ep);

/* actions.c */
void mpa2_ep_feed(struct mpa2_endpoint *ep, struct mpa2_event event);
void mpa2_ep_feed_type(struct mpa2_endpoint *ep, enum mpa2_event_type type);
struct socket __must_check *mpa2_ep_enter(struct mpa2_endpoint *ep);
void mpa2_ep_leave(struct mpa2_endpoint *ep);
void mpa2_ep_take_back(struct mpa2_endpoint *ep);
void mpa2_ep_close(struct mpa2_endpoint *ep);

/* events.c */
void mpa2_ep_raise_reply(struct mpa2_endpoint *ep, int status);
void mpa2_ep_raise_request(struct mpa2_endpoint *ep);
void mpa2_ep_take_turn(struct mpa2_endpoint *ep);
struct iw_cm_event mpa2_ep_established_event(struct mpa2_endpoint *ep,
					     int status);
void mpa2_ep_fail(struct mpa2_endpoint *ep, u32 failure);

/* observe.c */
void mpa2_ep_count(struct mpa2_endpoint *ep, enum mpa2_counter counter);
void mpa2_ep_observe_start(struct mpa2_endpoint *ep);
void mpa2_ep_observe(struct mpa2_endpoint *ep, const struct mpa2_info *before,
		     const struct mpa2_event *event);
void mpa2_ep_observe_sent(struct mpa2_endpoint *ep, const u8 *octets, u32 len);
void mpa2_ep_observe_fence(struct mpa2_endpoint *ep, u8 rtr);
void mpa2_ep_observe_result(struct mpa2_endpoint *ep, int status);

#endif /* IW_MPA2_ENDPOINT_H */
