// SPDX-License-Identifier: GPL-2.0
/* Module parameters: checked when set, copied when a connection begins. */
#include <linux/moduleparam.h>
#include <linux/module.h>
#include <linux/string.h>

#include "mpa2.h"

#define TIMEOUT_MIN_MS 10
#define TIMEOUT_MAX_MS 600000

static DEFINE_SPINLOCK(params_lock);	/* rtr_order and rtr_text */

static unsigned int rev = MPA2_REV_2;
static bool peer_to_peer = true;
static bool fallback;
static bool accept_enhanced = true;
static bool crc;
static enum mpa2_fence_mode fence = MPA2_FENCE_ALWAYS;
static u8 rtr_order[3] = { MPA2_RTR_WRITE, MPA2_RTR_READ, MPA2_RTR_SEND };
static unsigned int timeout_ms[MPA2_TIMER_NR] = {
	[MPA2_TIMER_CONNECT] = 10000,
	[MPA2_TIMER_REQUEST] = 5000,
	[MPA2_TIMER_REPLY] = 10000,
	[MPA2_TIMER_RTR] = 10000,
	[MPA2_TIMER_CLOSE] = 2000,
};

static const struct {
	const char *name;
	u8 kind;
} rtr_names[] = {
	{ "write", MPA2_RTR_WRITE },
	{ "read", MPA2_RTR_READ },
	{ "send", MPA2_RTR_SEND },
};

/**
 * mpa2_settings_get() - a copy of the parameters as they are now
 * @settings: the copy; the device's limits in its policy are 0
 *
 * Context: any.
 */
void mpa2_settings_get(struct mpa2_settings *settings)
{
	int i;

	memset(settings, 0, sizeof(*settings));
	settings->policy.rev = READ_ONCE(rev);
	settings->policy.peer_to_peer = READ_ONCE(peer_to_peer);
	settings->policy.fallback = READ_ONCE(fallback);
	settings->policy.accept_enhanced = READ_ONCE(accept_enhanced);
	settings->policy.crc = READ_ONCE(crc);
	settings->policy.round_ord = 1;	/* siw would round it up */
	settings->fence = READ_ONCE(fence);
	for (i = 0; i < MPA2_TIMER_NR; i++)
		settings->timeout_ms[i] = READ_ONCE(timeout_ms[i]);
	spin_lock(&params_lock);
	memcpy(settings->policy.rtr_order, rtr_order, sizeof(rtr_order));
	spin_unlock(&params_lock);
}

static int set_rev(const char *val, const struct kernel_param *kp)
{
	unsigned int value;

	if (kstrtouint(val, 0, &value) || value < MPA2_REV_1 ||
	    value > MPA2_REV_2) {
		pr_err("rev=%s: expected 1 or 2\n", val);
		return -EINVAL;
	}
	WRITE_ONCE(rev, value);
	return 0;
}

static const struct kernel_param_ops rev_ops = {
	.set = set_rev,
	.get = param_get_uint,
};
module_param_cb(rev, &rev_ops, &rev, 0644);
__MODULE_PARM_TYPE(rev, "uint");
MODULE_PARM_DESC(rev, "MPA revision that we use as initiator: 1 or 2 (default 2)");

static int set_bool(const char *val, const struct kernel_param *kp)
{
	int ret = param_set_bool(val, kp);

	if (ret)
		pr_err("%s=%s: expected Y or N\n", kp->name, val);
	return ret;
}

static const struct kernel_param_ops bool_ops = {
	.flags = KERNEL_PARAM_OPS_FL_NOARG,
	.set = set_bool,
	.get = param_get_bool,
};

#define MPA2_BOOL_PARAM(name, text)                          \
	module_param_cb(name, &bool_ops, &name, 0644);       \
	__MODULE_PARM_TYPE(name, "bool");                    \
	MODULE_PARM_DESC(name, text)

MPA2_BOOL_PARAM(peer_to_peer, "initiator: ask for a peer-to-peer connection with an RTR, A=1 (default Y)");
MPA2_BOOL_PARAM(fallback, "initiator: retry once in Rev 1 when an enhanced Request is answered by a close (default N)");
MPA2_BOOL_PARAM(accept_enhanced, "responder: answer enhanced Requests; N closes them, as a Rev 1 host does (default Y)");
MPA2_BOOL_PARAM(crc, "ask for CRC32c in our frames; the peer's wish is always honoured (default N)");

/* "write,read,send" in any order, each at most once, at least one. */
static int parse_rtr(const char *val, u8 order[3])
{
	char text[32], *rest = text, *word;
	unsigned int seen = 0, n = 0, i;

	if (strscpy(text, val, sizeof(text)) < 0)
		return -EINVAL;
	memset(order, 0, 3);
	while ((word = strsep(&rest, ",")) != NULL) {
		word = strim(word);
		for (i = 0; i < ARRAY_SIZE(rtr_names); i++)
			if (!strcmp(word, rtr_names[i].name))
				break;
		if (i == ARRAY_SIZE(rtr_names) || seen & rtr_names[i].kind)
			return -EINVAL;
		seen |= rtr_names[i].kind;
		order[n++] = rtr_names[i].kind;
	}
	return n ? 0 : -EINVAL;
}

static int set_rtr(const char *val, const struct kernel_param *kp)
{
	u8 order[3];

	if (parse_rtr(val, order)) {
		pr_err("rtr=%s: expected a list of write, read and send, most wanted first\n",
		       val);
		return -EINVAL;
	}
	spin_lock(&params_lock);
	memcpy(rtr_order, order, sizeof(order));
	spin_unlock(&params_lock);
	return 0;
}

static int get_rtr(char *buffer, const struct kernel_param *kp)
{
	int len = 0, i, j;
	u8 order[3];

	spin_lock(&params_lock);
	memcpy(order, rtr_order, sizeof(order));
	spin_unlock(&params_lock);
	for (i = 0; i < 3 && order[i]; i++)
		for (j = 0; j < ARRAY_SIZE(rtr_names); j++)
			if (rtr_names[j].kind == order[i])
				len += sprintf(buffer + len, "%s%s",
					       i ? "," : "",
					       rtr_names[j].name);
	len += sprintf(buffer + len, "\n");
	return len;
}

static const struct kernel_param_ops rtr_ops = {
	.set = set_rtr,
	.get = get_rtr,
};
module_param_cb(rtr, &rtr_ops, NULL, 0644);
__MODULE_PARM_TYPE(rtr, "string");
MODULE_PARM_DESC(rtr, "RTR kinds we offer and support, most wanted first (default write,read,send)");

static int set_fence(const char *val, const struct kernel_param *kp)
{
	if (sysfs_streq(val, "always")) {
		WRITE_ONCE(fence, MPA2_FENCE_ALWAYS);
	} else if (sysfs_streq(val, "p2p")) {
		WRITE_ONCE(fence, MPA2_FENCE_P2P);
	} else {
		pr_err("fence=%s: expected always or p2p\n", val);
		return -EINVAL;
	}
	return 0;
}

static int get_fence(char *buffer, const struct kernel_param *kp)
{
	return sprintf(buffer, "%s\n",
		       READ_ONCE(fence) == MPA2_FENCE_P2P ? "p2p" : "always");
}

static const struct kernel_param_ops fence_ops = {
	.set = set_fence,
	.get = get_fence,
};
module_param_cb(fence, &fence_ops, NULL, 0644);
__MODULE_PARM_TYPE(fence, "string");
MODULE_PARM_DESC(fence, "responder: hold sends until the first FPDU: always, or p2p (only when A=1) (default always)");

static int set_timeout(const char *val, const struct kernel_param *kp)
{
	unsigned int value;

	if (kstrtouint(val, 0, &value) || value < TIMEOUT_MIN_MS ||
	    value > TIMEOUT_MAX_MS) {
		pr_err("%s=%s: expected %u to %u milliseconds\n", kp->name, val,
		       TIMEOUT_MIN_MS, TIMEOUT_MAX_MS);
		return -EINVAL;
	}
	WRITE_ONCE(*(unsigned int *)kp->arg, value);
	return 0;
}

static const struct kernel_param_ops timeout_ops = {
	.set = set_timeout,
	.get = param_get_uint,
};

#define MPA2_TIMEOUT_PARAM(name, which, text)                             \
	module_param_cb(name, &timeout_ops, &timeout_ms[which], 0644);    \
	__MODULE_PARM_TYPE(name, "uint");                                 \
	MODULE_PARM_DESC(name, text)

MPA2_TIMEOUT_PARAM(connect_timeout_ms, MPA2_TIMER_CONNECT,
		   "initiator: TCP connection set-up, in milliseconds (default 10000)");
MPA2_TIMEOUT_PARAM(request_timeout_ms, MPA2_TIMER_REQUEST,
		   "responder: from TCP accept to the whole Request, in milliseconds (default 5000)");
MPA2_TIMEOUT_PARAM(reply_timeout_ms, MPA2_TIMER_REPLY,
		   "initiator: from Request to the whole Reply, in milliseconds (default 10000)");
MPA2_TIMEOUT_PARAM(rtr_timeout_ms, MPA2_TIMER_RTR,
		   "responder: from Reply to the whole RTR, in milliseconds (default 10000)");
MPA2_TIMEOUT_PARAM(close_timeout_ms, MPA2_TIMER_CLOSE,
		   "from a reject or Terminate to the close of TCP, in milliseconds (default 2000)");
