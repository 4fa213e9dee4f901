// SPDX-License-Identifier: GPL-2.0
/*
 * iw_mpa2_kunit.ko: the KUnit suites, with a copy of their own of what they
 * test.  Results are read from /sys/kernel/debug/kunit/<suite>/results.
 */
#include <linux/module.h>

#include "core_test.h"
#include "siw_test.h"

kunit_test_suites(&mpa2_frames_suite, &mpa2_negotiation_suite,
		  &mpa2_initiator_suite, &mpa2_responder_suite,
		  &mpa2_fence_suite, &mpa2_handover_suite);

MODULE_DESCRIPTION("KUnit suites of iw_mpa2");
MODULE_LICENSE("GPL");
