// SPDX-License-Identifier: GPL-2.0
/* Settings as text: one grammar for module parameters and rules. */
#include <linux/kernel.h>
#include <linux/kstrtox.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "settings.h"

static const u8 rtr_kinds[MPA2_RTR_KINDS] = {
	MPA2_RTR_WRITE, MPA2_RTR_READ, MPA2_RTR_SEND,
};

static u8 rtr_of(const char *word)
{
	int i;

	for (i = 0; i < MPA2_RTR_KINDS; i++)
		if (!strcmp(word, mpa2_rtr_text(rtr_kinds[i])))
			return rtr_kinds[i];
	return MPA2_RTR_NONE;
}

/* "write,read,send" in any order, each at most once, at least one. */
static int parse_rtr(const char *text, u8 order[MPA2_RTR_KINDS])
{
	char copy[32], *rest = copy, *word;
	unsigned int n = 0;
	u8 seen = 0, kind;

	if (strscpy(copy, text, sizeof(copy)) < 0)
		return -EINVAL;
	memset(order, 0, MPA2_RTR_KINDS);
	while ((word = strsep(&rest, ",")) != NULL) {
		kind = rtr_of(strim(word));
		if (!kind || seen & kind)
			return -EINVAL;
		seen |= kind;
		order[n++] = kind;
	}
	return n ? 0 : -EINVAL;
}

static int print_rtr(const u8 order[MPA2_RTR_KINDS], char *text)
{
	int len = 0, i;

	for (i = 0; i < MPA2_RTR_KINDS && order[i]; i++)
		len += sysfs_emit_at(text, len, "%s%s", i ? "," : "",
				     mpa2_rtr_text(order[i]));
	return len + sysfs_emit_at(text, len, "\n");
}

static int parse_number(const char *text, unsigned int low, unsigned int high,
			unsigned int *value)
{
	if (kstrtouint(text, 0, value) || *value < low || *value > high)
		return -EINVAL;
	return 0;
}

/* One of two words; 1 for the second. */
static int parse_either(const char *text, const char *first, const char *second,
			bool *is_second)
{
	if (!sysfs_streq(text, first) && !sysfs_streq(text, second))
		return -EINVAL;
	*is_second = sysfs_streq(text, second);
	return 0;
}

static const char *const transports[MPA2_TRANSPORT_NR] = {
	[MPA2_TRANSPORT_TCP] = "tcp",
	[MPA2_TRANSPORT_SCTP] = "sctp",
	[MPA2_TRANSPORT_SCTP_OR_TCP] = "sctp-or-tcp",
};

static int parse_transport(const char *text, enum mpa2_transport *transport)
{
	int which;

	for (which = 0; which < MPA2_TRANSPORT_NR; which++) {
		if (sysfs_streq(text, transports[which])) {
			*transport = which;
			return 0;
		}
	}
	return -EINVAL;
}

static int parse_depths(const char *text, struct mpa2_policy *policy)
{
	bool ulp;

	if (parse_either(text, "negotiate", "ulp", &ulp))
		return -EINVAL;
	policy->no_negotiate_ird = ulp;
	policy->no_negotiate_ord = ulp;
	return 0;
}

static int parse_value(struct mpa2_settings *s, enum mpa2_setting which,
		       const char *text)
{
	unsigned int number = 0;
	bool yes = false;
	int ret;

	switch (which) {
	case MPA2_SET_MODEL:
		ret = parse_either(text, "client-server", "peer-to-peer", &yes);
		s->policy.peer_to_peer = yes;
		return ret;
	case MPA2_SET_REQUIRE_ORD:
		ret = parse_number(text, 0, MPA2_DEPTH_MAX, &number);
		s->policy.require_ord = number;
		return ret;
	case MPA2_SET_RTR:
		return parse_rtr(text, s->policy.rtr_order);
	case MPA2_SET_REV:
		ret = parse_number(text, MPA2_REV_1, MPA2_REV_2, &number);
		s->policy.rev = number;
		return ret;
	case MPA2_SET_FALLBACK:
		ret = kstrtobool(text, &yes);
		s->policy.fallback = yes;
		return ret;
	case MPA2_SET_DEPTHS:
		return parse_depths(text, &s->policy);
	case MPA2_SET_FENCE:
		ret = parse_either(text, "always", "p2p", &yes);
		s->fence = yes ? MPA2_FENCE_P2P : MPA2_FENCE_ALWAYS;
		return ret;
	case MPA2_SET_CRC:
		ret = kstrtobool(text, &yes);
		s->policy.crc = yes;
		return ret;
	case MPA2_SET_TRANSPORT:
		return parse_transport(text, &s->transport);
	default:
		ret = parse_number(text, MPA2_TIMEOUT_MIN_MS, MPA2_TIMEOUT_MAX_MS,
				   &number);
		s->timeout_ms[which - MPA2_SET_TIMEOUT] = number;
		return ret;
	}
}

/**
 * mpa2_setting_expected() - what a text for a setting has to look like
 * @which: the setting
 *
 * Context: any.
 * Return: words that follow "expected".
 */
const char *mpa2_setting_expected(enum mpa2_setting which)
{
	switch (which) {
	case MPA2_SET_MODEL:
		return "peer-to-peer or client-server";
	case MPA2_SET_REQUIRE_ORD:
		return "0 to 16382";
	case MPA2_SET_RTR:
		return "a list of write, read and send, most wanted first";
	case MPA2_SET_REV:
		return "1 or 2";
	case MPA2_SET_DEPTHS:
		return "negotiate or ulp";
	case MPA2_SET_FENCE:
		return "always or p2p";
	case MPA2_SET_TRANSPORT:
		return "tcp, sctp or sctp-or-tcp";
	case MPA2_SET_FALLBACK:
	case MPA2_SET_CRC:
		return "Y or N";
	default:
		return "10 to 600000 milliseconds";
	}
}

/**
 * mpa2_setting_parse() - take a setting from its text
 * @choice: where it goes; unchanged on error
 * @which: the setting
 * @text: without a newline; an empty text leaves the setting to others
 *
 * Context: any.
 * Return: 0 or -EINVAL.
 */
int mpa2_setting_parse(struct mpa2_choice *choice, enum mpa2_setting which,
		       const char *text)
{
	struct mpa2_choice changed = *choice;

	if (!*text) {
		choice->set &= ~BIT(which);
		return 0;
	}
	if (parse_value(&changed.settings, which, text))
		return -EINVAL;
	changed.set |= BIT(which);
	*choice = changed;
	return 0;
}

/**
 * mpa2_setting_print() - the text of a setting, with a newline
 * @choice: where it is
 * @which: the setting
 * @text: a page
 *
 * Context: any.
 * Return: octets written; a setting that is left to others is an empty line.
 */
int mpa2_setting_print(const struct mpa2_choice *choice, enum mpa2_setting which,
		       char *text)
{
	const struct mpa2_settings *s = &choice->settings;

	if (!(choice->set & BIT(which)))
		return sysfs_emit(text, "\n");
	switch (which) {
	case MPA2_SET_MODEL:
		return sysfs_emit(text, "%s\n", s->policy.peer_to_peer ?
				  "peer-to-peer" : "client-server");
	case MPA2_SET_REQUIRE_ORD:
		return sysfs_emit(text, "%u\n", s->policy.require_ord);
	case MPA2_SET_RTR:
		return print_rtr(s->policy.rtr_order, text);
	case MPA2_SET_REV:
		return sysfs_emit(text, "%u\n", s->policy.rev);
	case MPA2_SET_FALLBACK:
		return sysfs_emit(text, "%c\n", s->policy.fallback ? 'Y' : 'N');
	case MPA2_SET_DEPTHS:
		return sysfs_emit(text, "%s\n", s->policy.no_negotiate_ird ?
				  "ulp" : "negotiate");
	case MPA2_SET_FENCE:
		return sysfs_emit(text, "%s\n", s->fence == MPA2_FENCE_P2P ?
				  "p2p" : "always");
	case MPA2_SET_CRC:
		return sysfs_emit(text, "%c\n", s->policy.crc ? 'Y' : 'N');
	case MPA2_SET_TRANSPORT:
		return sysfs_emit(text, "%s\n", transports[s->transport]);
	default:
		return sysfs_emit(text, "%u\n",
				  s->timeout_ms[which - MPA2_SET_TIMEOUT]);
	}
}

static void apply_one(struct mpa2_settings *to, const struct mpa2_settings *from,
		      enum mpa2_setting which)
{
	switch (which) {
	case MPA2_SET_MODEL:
		to->policy.peer_to_peer = from->policy.peer_to_peer;
		break;
	case MPA2_SET_REQUIRE_ORD:
		to->policy.require_ord = from->policy.require_ord;
		break;
	case MPA2_SET_RTR:
		memcpy(to->policy.rtr_order, from->policy.rtr_order,
		       sizeof(to->policy.rtr_order));
		break;
	case MPA2_SET_REV:
		to->policy.rev = from->policy.rev;
		break;
	case MPA2_SET_FALLBACK:
		to->policy.fallback = from->policy.fallback;
		break;
	case MPA2_SET_DEPTHS:
		to->policy.no_negotiate_ird = from->policy.no_negotiate_ird;
		to->policy.no_negotiate_ord = from->policy.no_negotiate_ord;
		break;
	case MPA2_SET_FENCE:
		to->fence = from->fence;
		break;
	case MPA2_SET_CRC:
		to->policy.crc = from->policy.crc;
		break;
	case MPA2_SET_TRANSPORT:
		to->transport = from->transport;
		break;
	default:
		to->timeout_ms[which - MPA2_SET_TIMEOUT] =
			from->timeout_ms[which - MPA2_SET_TIMEOUT];
	}
}

/**
 * mpa2_settings_apply() - let a choice decide what it decides
 * @settings: what was decided before
 * @choice: some settings
 *
 * Context: any.
 */
void mpa2_settings_apply(struct mpa2_settings *settings,
			 const struct mpa2_choice *choice)
{
	unsigned int which;

	for (which = 0; which < MPA2_SET_NR; which++)
		if (choice->set & BIT(which))
			apply_one(settings, &choice->settings, which);
}
