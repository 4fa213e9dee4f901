/* SPDX-License-Identifier: GPL-2.0 */
#ifndef IW_MPA2_KUNIT_CORE_TEST_H
#define IW_MPA2_KUNIT_CORE_TEST_H

#include <kunit/test.h>

extern struct kunit_suite mpa2_frames_suite;
extern struct kunit_suite mpa2_negotiation_suite;
extern struct kunit_suite mpa2_initiator_suite;
extern struct kunit_suite mpa2_responder_suite;

#endif /* IW_MPA2_KUNIT_CORE_TEST_H */
