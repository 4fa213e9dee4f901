/* SPDX-License-Identifier: GPL-2.0 */
/* How a connection is set up: from parameters, a rule, or the ULP itself. */
#ifndef IW_MPA2_SETTINGS_H
#define IW_MPA2_SETTINGS_H

#include <linux/types.h>

#include <iw_mpa2/core.h>

#define MPA2_TIMEOUT_MIN_MS 10
#define MPA2_TIMEOUT_MAX_MS 600000
#define MPA2_RTR_KINDS 3

enum mpa2_fence_mode {
	MPA2_FENCE_ALWAYS = 0,
	MPA2_FENCE_P2P,
};

/* What carries a connection; a listener takes TCP whatever it says. */
enum mpa2_transport {
	MPA2_TRANSPORT_TCP = 0,
	MPA2_TRANSPORT_SCTP,
	MPA2_TRANSPORT_SCTP_OR_TCP,	/* initiator: TCP where SCTP does not come up */
	MPA2_TRANSPORT_NR,
};

/* Taken when a connection begins; what changes later concerns the next one. */
struct mpa2_settings {
	struct mpa2_policy policy;	/* without the device's limits */
	enum mpa2_fence_mode fence;
	enum mpa2_transport transport;
	unsigned int timeout_ms[MPA2_TIMER_NR];
};

/* One setting that a rule, or an application, may decide. */
enum mpa2_setting {
	MPA2_SET_MODEL = 0,
	MPA2_SET_REQUIRE_ORD,
	MPA2_SET_RTR,
	MPA2_SET_REV,
	MPA2_SET_FALLBACK,
	MPA2_SET_DEPTHS,
	MPA2_SET_FENCE,
	MPA2_SET_CRC,
	MPA2_SET_TRANSPORT,	/* not for a kernel ULP: options.c */
	MPA2_SET_TIMEOUT,	/* one for each enum mpa2_timer */
	MPA2_SET_NR = MPA2_SET_TIMEOUT + MPA2_TIMER_NR,
};

/* Some of the settings: those whose bit is set. */
struct mpa2_choice {
	u32 set;		/* bits of enum mpa2_setting */
	struct mpa2_settings settings;
};

/* The module parameters as they are now (params.c). */
void mpa2_settings_get(struct mpa2_settings *settings);

void mpa2_settings_apply(struct mpa2_settings *settings,
			 const struct mpa2_choice *choice);

/* Text of one setting (settings.c). */
int __must_check mpa2_setting_parse(struct mpa2_choice *choice,
				    enum mpa2_setting which, const char *text);
int mpa2_setting_print(const struct mpa2_choice *choice, enum mpa2_setting which,
		       char *text);
const char *mpa2_setting_expected(enum mpa2_setting which);

#endif /* IW_MPA2_SETTINGS_H */
