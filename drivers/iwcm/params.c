// SPDX-License-Identifier: GPL-2.0
/* Module parameters: checked when set, copied when a connection begins. */
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "mpa2.h"

static DEFINE_SPINLOCK(params_lock);

/* What applies where no rule and no application says otherwise. */
static struct mpa2_choice params = {
	.set = GENMASK(MPA2_SET_NR - 1, 0),
	.settings = {
		.policy = {
			.rev = MPA2_REV_2,
			.peer_to_peer = 1,
			.accept_enhanced = 1,
			.round_ord = 1,	/* siw would round it up */
			.rtr_order = { MPA2_RTR_WRITE, MPA2_RTR_READ,
				       MPA2_RTR_SEND },
		},
		.fence = MPA2_FENCE_ALWAYS,
		.transport = MPA2_TRANSPORT_TCP,
		.timeout_ms = {
			[MPA2_TIMER_CONNECT] = 10000,
			[MPA2_TIMER_REQUEST] = 5000,
			[MPA2_TIMER_REPLY] = 10000,
			[MPA2_TIMER_RTR] = 10000,
			[MPA2_TIMER_CLOSE] = 2000,
		},
	},
};

/**
 * mpa2_settings_get() - a copy of the parameters as they are now
 * @settings: the copy; the device's limits in its policy are 0
 *
 * Context: process.
 */
void mpa2_settings_get(struct mpa2_settings *settings)
{
	spin_lock(&params_lock);
	*settings = params.settings;
	spin_unlock(&params_lock);
}

static int refuse(const char *val, const struct kernel_param *kp, const char *expected)
{
	pr_err("%s=%.*s: expected %s\n", kp->name, (int)strcspn(val, "\n"), val,
	       expected);
	return -EINVAL;
}

/* kp->arg: the address of the setting's number. */
static int set_setting(const char *val, const struct kernel_param *kp)
{
	enum mpa2_setting which = *(const enum mpa2_setting *)kp->arg;
	int ret = -EINVAL;

	if (*val) {
		spin_lock(&params_lock);
		ret = mpa2_setting_parse(&params, which, val);
		spin_unlock(&params_lock);
	}
	return ret ? refuse(val, kp, mpa2_setting_expected(which)) : 0;
}

static int get_setting(char *buffer, const struct kernel_param *kp)
{
	enum mpa2_setting which = *(const enum mpa2_setting *)kp->arg;
	int ret;

	spin_lock(&params_lock);
	ret = mpa2_setting_print(&params, which, buffer);
	spin_unlock(&params_lock);
	return ret;
}

static const struct kernel_param_ops setting_ops = {
	.set = set_setting,
	.get = get_setting,
};

/* Y or N of their own; kp->arg: the octet in the policy. */
static int set_flag(const char *val, const struct kernel_param *kp)
{
	bool yes;

	if (kstrtobool(val, &yes))
		return refuse(val, kp, "Y or N");
	spin_lock(&params_lock);
	*(u8 *)kp->arg = yes;
	spin_unlock(&params_lock);
	return 0;
}

static int get_flag(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%c\n", READ_ONCE(*(u8 *)kp->arg) ? 'Y' : 'N');
}

static const struct kernel_param_ops flag_ops = {
	.set = set_flag,
	.get = get_flag,
};

/* Well over what a busy server has at a time, and a bound on memory all the same. */
static unsigned int max_pending = 4096;

#define MAX_PENDING_LIMIT 1000000

/**
 * mpa2_max_pending() - connections of a device that may be about to come up
 *
 * As responder, from TCP's accept to ESTABLISHED.
 *
 * Context: any.
 * Return: how many.
 */
unsigned int mpa2_max_pending(void)
{
	return READ_ONCE(max_pending);
}

static int set_max_pending(const char *val, const struct kernel_param *kp)
{
	unsigned int value;

	if (kstrtouint(val, 0, &value) || !value || value > MAX_PENDING_LIMIT)
		return refuse(val, kp, "a number from 1 to 1000000");
	WRITE_ONCE(max_pending, value);
	return 0;
}

static const struct kernel_param_ops max_pending_ops = {
	.set = set_max_pending,
	.get = param_get_uint,
};

#define MPA2_SETTING_PARAM(name, which, type, text)                       \
	static enum mpa2_setting setting_##name = which;                  \
	module_param_cb(name, &setting_ops, &setting_##name, 0644);       \
	__MODULE_PARM_TYPE(name, type);                                   \
	MODULE_PARM_DESC(name, text)

#define MPA2_FLAG_PARAM(name, flag, text)                                 \
	module_param_cb(name, &flag_ops, &params.settings.policy.flag, 0644); \
	__MODULE_PARM_TYPE(name, "bool");                                 \
	MODULE_PARM_DESC(name, text)

MPA2_SETTING_PARAM(rev, MPA2_SET_REV, "uint",
		   "MPA revision that we use as initiator: 1 or 2 (default 2)");
MPA2_FLAG_PARAM(peer_to_peer, peer_to_peer,
		"initiator: ask for a peer-to-peer connection with an RTR, A=1 (default Y)");
MPA2_SETTING_PARAM(fallback, MPA2_SET_FALLBACK, "bool",
		   "initiator: retry once in Rev 1 when an enhanced Request is answered by a close (default N)");
MPA2_FLAG_PARAM(accept_enhanced, accept_enhanced,
		"responder: answer enhanced Requests; N closes them, as a Rev 1 host does (default Y)");
MPA2_SETTING_PARAM(rtr, MPA2_SET_RTR, "string",
		   "RTR kinds we offer and support, most wanted first (default write,read,send)");
MPA2_SETTING_PARAM(fence, MPA2_SET_FENCE, "string",
		   "responder: hold sends until the first FPDU: always, or p2p (only when A=1) (default always)");
MPA2_SETTING_PARAM(crc, MPA2_SET_CRC, "bool",
		   "ask for CRC32c in our frames; the peer's wish is always honoured (default N)");
MPA2_SETTING_PARAM(transport, MPA2_SET_TRANSPORT, "string",
		   "what carries connections: tcp, sctp, or sctp-or-tcp; with the latter two listeners take both (default tcp)");
MPA2_SETTING_PARAM(connect_timeout_ms, MPA2_SET_TIMEOUT + MPA2_TIMER_CONNECT, "uint",
		   "initiator: TCP connection set-up, in milliseconds (default 10000)");
MPA2_SETTING_PARAM(request_timeout_ms, MPA2_SET_TIMEOUT + MPA2_TIMER_REQUEST, "uint",
		   "responder: from TCP accept to the whole Request, in milliseconds (default 5000)");
MPA2_SETTING_PARAM(reply_timeout_ms, MPA2_SET_TIMEOUT + MPA2_TIMER_REPLY, "uint",
		   "initiator: from Request to the whole Reply, in milliseconds (default 10000)");
MPA2_SETTING_PARAM(rtr_timeout_ms, MPA2_SET_TIMEOUT + MPA2_TIMER_RTR, "uint",
		   "responder: from Reply to the whole RTR, in milliseconds (default 10000)");
MPA2_SETTING_PARAM(close_timeout_ms, MPA2_SET_TIMEOUT + MPA2_TIMER_CLOSE, "uint",
		   "from a reject or Terminate to the close of TCP, in milliseconds (default 2000)");
module_param_cb(max_pending, &max_pending_ops, &max_pending, 0644);
__MODULE_PARM_TYPE(max_pending, "uint");
MODULE_PARM_DESC(max_pending,
		 "responder: connections of one device on their way to ESTABLISHED at a time; more wait in TCP's backlog (default 4096)");
