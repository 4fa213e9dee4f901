/* SPDX-License-Identifier: GPL-2.0 */
#ifndef IW_MPA2_KUNIT_SIW_TEST_H
#define IW_MPA2_KUNIT_SIW_TEST_H

#include <kunit/test.h>

extern struct kunit_suite mpa2_fence_suite;
extern struct kunit_suite mpa2_handover_suite;

#endif /* IW_MPA2_KUNIT_SIW_TEST_H */
