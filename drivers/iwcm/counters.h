/* SPDX-License-Identifier: GPL-2.0 */
/* What is counted per device; the names are files in sysfs and stay as they are. */
#ifndef IW_MPA2_COUNTERS_H
#define IW_MPA2_COUNTERS_H

#include <linux/atomic.h>
#include <linux/types.h>

/* How a handshake can end; each one that began ends in exactly one of these. */
#define MPA2_OUTCOMES(O, C)                                                    \
	O(C, established) O(C, rejected)                                       \
	O(C, failed_connect) O(C, failed_timeout) O(C, failed_closed)          \
	O(C, failed_reset) O(C, failed_malformed) O(C, failed_refused)         \
	O(C, failed_negotiation) O(C, failed_terminated) O(C, failed_aborted)  \
	O(C, failed_local)
#define MPA2_OUTCOME_BY_ROLE(C, name) C(name##_initiator) C(name##_responder)

/* Documentation/ABI/sysfs-class-infiniband-iw_mpa2 says what each one means. */
#define MPA2_COUNTERS(C)                                                       \
	/* startup frames, by format */                                        \
	C(requests_sent_rev1) C(requests_sent_rev2) C(requests_sent_enhanced)  \
	C(requests_received_rev1) C(requests_received_rev2)                    \
	C(requests_received_enhanced)                                          \
	C(accepts_sent_rev1) C(accepts_sent_rev2) C(accepts_sent_enhanced)     \
	C(accepts_received_rev1) C(accepts_received_rev2)                      \
	C(accepts_received_enhanced)                                           \
	C(rejects_sent_rev1) C(rejects_sent_rev2) C(rejects_sent_enhanced)     \
	C(rejects_received_rev1) C(rejects_received_rev2)                      \
	C(rejects_received_enhanced)                                           \
	/* why we rejected */                                                  \
	C(rejects_by_application) C(rejects_for_markers)                       \
	C(rejects_for_private_data) C(rejects_for_required_ord)                \
	C(rejects_for_resources)                                               \
	/* the first FPDU */                                                   \
	C(rtr_sent_send) C(rtr_sent_write) C(rtr_sent_read)                    \
	C(rtr_received_send) C(rtr_received_write) C(rtr_received_read)        \
	C(first_fpdu_no_rtr)                                                   \
	C(fence_holds) C(fence_long_holds)                                     \
	C(fallbacks)                                                           \
	/* Terminate messages during set-up */                                 \
	C(terminates_sent_local) C(terminates_sent_ird)                        \
	C(terminates_sent_rtr) C(terminates_sent_other)                        \
	C(terminates_received_local) C(terminates_received_ird)                \
	C(terminates_received_rtr) C(terminates_received_other)                \
	/* steps that took too long */                                         \
	C(timeouts_connect) C(timeouts_request) C(timeouts_reply)              \
	C(timeouts_rtr) C(timeouts_close)                                      \
	/* what a peer sent and nobody can read */                             \
	C(malformed_key) C(malformed_rev) C(malformed_length)                  \
	C(malformed_enhanced) C(malformed_trailing)                            \
	C(malformed_unenhanced_reply) C(malformed_fpdu_crc)                    \
	C(malformed_fpdu_length) C(malformed_fpdu_header)                      \
	/* other ends of a handshake */                                        \
	C(refused_enhanced_off) C(refused_markers) C(connects_failed)          \
	C(peer_closed) C(peer_reset) C(aborted) C(send_failures)               \
	C(handover_failures)                                                   \
	/* the sums of each role: started = all outcomes + in progress */      \
	C(started_initiator) C(started_responder)                              \
	MPA2_OUTCOMES(MPA2_OUTCOME_BY_ROLE, C)

#define MPA2_COUNTER_ID(name) MPA2_COUNT_##name,
enum mpa2_counter {
	MPA2_COUNTERS(MPA2_COUNTER_ID)
	MPA2_COUNT_NR,
	MPA2_COUNT_NONE = MPA2_COUNT_NR,
};

struct mpa2_counters {
	atomic64_t count[MPA2_COUNT_NR];
};

struct mpa2_device;

void mpa2_counters_add(struct mpa2_device *dev);
void mpa2_counters_remove(struct mpa2_device *dev);

#endif /* IW_MPA2_COUNTERS_H */
