// SPDX-License-Identifier: GPL-2.0
/*
 * Rules in configfs: which settings a connection gets, by what it is.
 *
 *	/sys/kernel/config/iw_mpa2/RULE/ATTRIBUTE
 *
 * The rule with the smallest priority whose every match attribute fits decides
 * the settings that it has; the others come from the module parameters.  An
 * attribute that was never written, or was written empty, fits everything and
 * decides nothing.
 */
#include <linux/configfs.h>
#include <linux/inet.h>
#include <linux/list_sort.h>
#include <linux/module.h>
#include <linux/rwsem.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <net/ipv6.h>

#include "mpa2.h"
#include "settings.h"

#define RULES_MAX 1024
#define DEFAULT_PRIORITY 100

struct prefix {
	bool any;
	u8 len;			/* bits of addr, which is IPv6 or mapped */
	struct in6_addr addr;
};

struct port_range {
	u16 low, high;		/* host order */
};

struct rule {
	struct config_item item;
	struct list_head node;	/* rules, sorted */
	/* what it fits; an empty string or any fits all */
	char device[IB_DEVICE_NAME_MAX];
	char comm[TASK_COMM_LEN];
	struct prefix local, remote;
	struct port_range local_port, remote_port;
	int priority;
	struct mpa2_choice choice;
};

/* Over the list and all rules; a leaf. */
static DECLARE_RWSEM(rules_sem);
static LIST_HEAD(rules);
static unsigned int nr_rules;

static struct rule *rule_of(struct config_item *item)
{
	return container_of(item, struct rule, item);
}

/* ---- matching ---- */

static void split_address(const struct sockaddr_storage *from,
			  struct in6_addr *addr, u16 *port)
{
	if (from->ss_family == AF_INET) {
		const struct sockaddr_in *v4 = (const struct sockaddr_in *)from;

		ipv6_addr_set_v4mapped(v4->sin_addr.s_addr, addr);
		*port = ntohs(v4->sin_port);
	} else {
		const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)from;

		*addr = v6->sin6_addr;
		*port = ntohs(v6->sin6_port);
	}
}

static bool end_fits(const struct prefix *prefix, const struct port_range *range,
		     const struct sockaddr_storage *end)
{
	struct in6_addr addr;
	u16 port;

	split_address(end, &addr, &port);
	return (prefix->any ||
		ipv6_prefix_equal(&addr, &prefix->addr, prefix->len)) &&
	       port >= range->low && port <= range->high;
}

static bool rule_fits(const struct rule *rule, const struct mpa2_match *match)
{
	lockdep_assert_held(&rules_sem);
	if (*rule->device && strcmp(rule->device, match->device))
		return false;
	if (*rule->comm && strcmp(rule->comm, match->comm))
		return false;
	return end_fits(&rule->local, &rule->local_port, match->local) &&
	       end_fits(&rule->remote, &rule->remote_port, match->remote);
}

/**
 * mpa2_rules_apply() - what the rules say of a connection
 * @settings: from the module parameters; changed as the first rule that fits says
 * @match: the connection
 *
 * Context: may sleep.
 */
void mpa2_rules_apply(struct mpa2_settings *settings, const struct mpa2_match *match)
{
	struct rule *rule;

	down_read(&rules_sem);
	list_for_each_entry(rule, &rules, node) {
		if (rule_fits(rule, match)) {
			mpa2_settings_apply(settings, &rule->choice);
			break;
		}
	}
	up_read(&rules_sem);
}

/* ---- text ---- */

/* The value without its newline; false if it is too long to be one. */
static bool copy_value(const char *page, size_t count, char *text, size_t size)
{
	if (count && page[count - 1] == '\n')
		count--;
	if (count >= size || memchr(page, '\n', count))
		return false;
	memcpy(text, page, count);
	text[count] = '\0';
	return true;
}

static int parse_prefix(char *text, struct prefix *prefix)
{
	char *slash = strchr(text, '/');
	unsigned int len, max;
	u8 v4[4];

	if (!*text) {
		*prefix = (struct prefix){ .any = true };
		return 0;
	}
	if (slash)
		*slash++ = '\0';
	if (in4_pton(text, -1, v4, -1, NULL)) {
		__be32 addr;

		memcpy(&addr, v4, sizeof(addr));
		ipv6_addr_set_v4mapped(addr, &prefix->addr);
		max = 32;
	} else if (in6_pton(text, -1, prefix->addr.s6_addr, -1, NULL)) {
		max = 128;
	} else {
		return -EINVAL;
	}
	len = max;
	if (slash && (kstrtouint(slash, 10, &len) || len > max))
		return -EINVAL;
	prefix->len = len + 128 - max;
	prefix->any = false;
	return 0;
}

static int print_prefix(const struct prefix *prefix, char *page)
{
	if (prefix->any)
		return sysfs_emit(page, "\n");
	if (ipv6_addr_v4mapped(&prefix->addr) && prefix->len >= 96)
		return sysfs_emit(page, "%pI4/%u\n", &prefix->addr.s6_addr32[3],
				  prefix->len - 96);
	return sysfs_emit(page, "%pI6c/%u\n", &prefix->addr, prefix->len);
}

/* "N" or "N-M" */
static int parse_range(char *text, struct port_range *range)
{
	char *dash = strchr(text, '-');

	if (!*text) {
		*range = (struct port_range){ 0, U16_MAX };
		return 0;
	}
	if (dash)
		*dash++ = '\0';
	if (kstrtou16(text, 10, &range->low))
		return -EINVAL;
	range->high = range->low;
	if (dash && kstrtou16(dash, 10, &range->high))
		return -EINVAL;
	return range->low > range->high ? -EINVAL : 0;
}

static int print_range(const struct port_range *range, char *page)
{
	if (!range->low && range->high == U16_MAX)
		return sysfs_emit(page, "\n");
	if (range->low == range->high)
		return sysfs_emit(page, "%u\n", range->low);
	return sysfs_emit(page, "%u-%u\n", range->low, range->high);
}

static int compare_rules(void *priv, const struct list_head *a,
			 const struct list_head *b)
{
	const struct rule *first = list_entry(a, struct rule, node);
	const struct rule *second = list_entry(b, struct rule, node);

	lockdep_assert_held_write(&rules_sem);
	if (first->priority != second->priority)
		return first->priority < second->priority ? -1 : 1;
	return strcmp(config_item_name((struct config_item *)&first->item),
		      config_item_name((struct config_item *)&second->item));
}

static ssize_t refused(struct config_item *item, const char *name, const char *page,
		       size_t count, const char *expected)
{
	pr_err("rule %s: %s=%.*s: expected %s\n", config_item_name(item), name,
	       (int)min_t(size_t, strcspn(page, "\n"), 64), page, expected);
	return -EINVAL;
}

/* ---- match attributes ---- */

#define RULE_TEXT_MAX 96

/* One attribute: how it is read into a copy of the rule, and shown. */
#define RULE_MATCH(name, parse, show, expected)                               \
	static ssize_t rule_##name##_show(struct config_item *item, char *page) \
	{                                                                     \
		struct rule *rule = rule_of(item);                            \
		int ret;                                                      \
									      \
		down_read(&rules_sem);                                        \
		ret = show;                                                   \
		up_read(&rules_sem);                                          \
		return ret;                                                   \
	}                                                                     \
	static ssize_t rule_##name##_store(struct config_item *item,          \
					   const char *page, size_t count)    \
	{                                                                     \
		struct rule *rule = rule_of(item);                            \
		char text[RULE_TEXT_MAX];                                     \
		int ret;                                                      \
									      \
		if (!copy_value(page, count, text, sizeof(text)))             \
			return refused(item, #name, page, count, expected);   \
		down_write(&rules_sem);                                       \
		ret = parse;                                                  \
		list_sort(NULL, &rules, compare_rules);                       \
		up_write(&rules_sem);                                         \
		return ret ? refused(item, #name, page, count, expected) :    \
			     (ssize_t)count;                                  \
	}                                                                     \
	CONFIGFS_ATTR(rule_, name)

static int set_string(char *to, const char *text, size_t size)
{
	if (strlen(text) >= size)
		return -EINVAL;
	strcpy(to, text);
	return 0;
}

static int set_prefix(struct prefix *to, char *text)
{
	struct prefix prefix = {};
	int ret = parse_prefix(text, &prefix);

	if (!ret)
		*to = prefix;
	return ret;
}

static int set_range(struct port_range *to, char *text)
{
	struct port_range range = {};
	int ret = parse_range(text, &range);

	if (!ret)
		*to = range;
	return ret;
}

static int set_priority(int *to, const char *text)
{
	if (!*text) {
		*to = DEFAULT_PRIORITY;
		return 0;
	}
	return kstrtoint(text, 10, to);
}

RULE_MATCH(device, set_string(rule->device, text, sizeof(rule->device)),
	   sysfs_emit(page, "%s\n", rule->device), "the name of a siw device");
RULE_MATCH(comm, set_string(rule->comm, text, sizeof(rule->comm)),
	   sysfs_emit(page, "%s\n", rule->comm),
	   "the name of a task, 15 octets at most");
RULE_MATCH(local, set_prefix(&rule->local, text), print_prefix(&rule->local, page),
	   "an address, or address/prefix");
RULE_MATCH(remote, set_prefix(&rule->remote, text), print_prefix(&rule->remote, page),
	   "an address, or address/prefix");
RULE_MATCH(local_port, set_range(&rule->local_port, text),
	   print_range(&rule->local_port, page), "a port, or first-last");
RULE_MATCH(remote_port, set_range(&rule->remote_port, text),
	   print_range(&rule->remote_port, page), "a port, or first-last");
RULE_MATCH(priority, set_priority(&rule->priority, text),
	   sysfs_emit(page, "%d\n", rule->priority), "a number, the smallest is first");

/* ---- settings ---- */

static ssize_t setting_show(struct config_item *item, enum mpa2_setting which,
			    char *page)
{
	int ret;

	down_read(&rules_sem);
	ret = mpa2_setting_print(&rule_of(item)->choice, which, page);
	up_read(&rules_sem);
	return ret;
}

static ssize_t setting_store(struct config_item *item, enum mpa2_setting which,
			     const char *name, const char *page, size_t count)
{
	char text[RULE_TEXT_MAX];
	int ret = -EINVAL;

	if (copy_value(page, count, text, sizeof(text))) {
		down_write(&rules_sem);
		ret = mpa2_setting_parse(&rule_of(item)->choice, which, text);
		up_write(&rules_sem);
	}
	return ret ? refused(item, name, page, count, mpa2_setting_expected(which)) :
		     (ssize_t)count;
}

#define RULE_SETTING(name, which)                                             \
	static ssize_t rule_##name##_show(struct config_item *item, char *page) \
	{                                                                     \
		return setting_show(item, which, page);                       \
	}                                                                     \
	static ssize_t rule_##name##_store(struct config_item *item,          \
					   const char *page, size_t count)    \
	{                                                                     \
		return setting_store(item, which, #name, page, count);        \
	}                                                                     \
	CONFIGFS_ATTR(rule_, name)

RULE_SETTING(model, MPA2_SET_MODEL);
RULE_SETTING(require_ord, MPA2_SET_REQUIRE_ORD);
RULE_SETTING(rtr, MPA2_SET_RTR);
RULE_SETTING(rev, MPA2_SET_REV);
RULE_SETTING(fallback, MPA2_SET_FALLBACK);
RULE_SETTING(depths, MPA2_SET_DEPTHS);
RULE_SETTING(fence, MPA2_SET_FENCE);
RULE_SETTING(crc, MPA2_SET_CRC);
RULE_SETTING(transport, MPA2_SET_TRANSPORT);
RULE_SETTING(connect_timeout_ms, MPA2_SET_TIMEOUT + MPA2_TIMER_CONNECT);
RULE_SETTING(request_timeout_ms, MPA2_SET_TIMEOUT + MPA2_TIMER_REQUEST);
RULE_SETTING(reply_timeout_ms, MPA2_SET_TIMEOUT + MPA2_TIMER_REPLY);
RULE_SETTING(rtr_timeout_ms, MPA2_SET_TIMEOUT + MPA2_TIMER_RTR);
RULE_SETTING(close_timeout_ms, MPA2_SET_TIMEOUT + MPA2_TIMER_CLOSE);

static struct configfs_attribute *rule_attributes[] = {
	&rule_attr_device,
	&rule_attr_comm,
	&rule_attr_local,
	&rule_attr_remote,
	&rule_attr_local_port,
	&rule_attr_remote_port,
	&rule_attr_priority,
	&rule_attr_model,
	&rule_attr_require_ord,
	&rule_attr_rtr,
	&rule_attr_rev,
	&rule_attr_fallback,
	&rule_attr_depths,
	&rule_attr_fence,
	&rule_attr_crc,
	&rule_attr_transport,
	&rule_attr_connect_timeout_ms,
	&rule_attr_request_timeout_ms,
	&rule_attr_reply_timeout_ms,
	&rule_attr_rtr_timeout_ms,
	&rule_attr_close_timeout_ms,
	NULL,
};

static void rule_release(struct config_item *item)
{
	kfree(rule_of(item));
}

static struct configfs_item_operations rule_ops = {
	.release = rule_release,
};

static const struct config_item_type rule_type = {
	.ct_item_ops = &rule_ops,
	.ct_attrs = rule_attributes,
	.ct_owner = THIS_MODULE,
};

/* ---- the folder of all rules ---- */

static struct config_item *make_rule(struct config_group *group, const char *name)
{
	struct rule *rule = kzalloc(sizeof(*rule), GFP_KERNEL);
	bool full;

	if (!rule)
		return ERR_PTR(-ENOMEM);
	rule->local.any = true;
	rule->remote.any = true;
	rule->local_port.high = U16_MAX;
	rule->remote_port.high = U16_MAX;
	rule->priority = DEFAULT_PRIORITY;
	config_item_init_type_name(&rule->item, name, &rule_type);

	down_write(&rules_sem);
	full = nr_rules >= RULES_MAX;
	if (!full) {
		nr_rules++;
		list_add_tail(&rule->node, &rules);
		list_sort(NULL, &rules, compare_rules);
	}
	up_write(&rules_sem);
	if (full) {
		config_item_put(&rule->item);
		return ERR_PTR(-ENOSPC);
	}
	return &rule->item;
}

static void drop_rule(struct config_group *group, struct config_item *item)
{
	down_write(&rules_sem);
	list_del(&rule_of(item)->node);
	nr_rules--;
	up_write(&rules_sem);
	config_item_put(item);
}

static struct configfs_group_operations rules_ops = {
	.make_item = make_rule,
	.drop_item = drop_rule,
};

static const struct config_item_type rules_type = {
	.ct_group_ops = &rules_ops,
	.ct_owner = THIS_MODULE,
};

static struct configfs_subsystem rules_subsystem = {
	.su_group.cg_item = {
		.ci_namebuf = "iw_mpa2",
		.ci_type = &rules_type,
	},
};

/**
 * mpa2_rules_start() - make the folder of rules
 *
 * Context: module init, may sleep.
 * Return: 0 or -errno.
 */
int mpa2_rules_start(void)
{
	config_group_init(&rules_subsystem.su_group);
	mutex_init(&rules_subsystem.su_mutex);
	return configfs_register_subsystem(&rules_subsystem);
}

/**
 * mpa2_rules_stop() - remove the folder; a rule holds the module, so there is none
 *
 * Context: module exit, may sleep.
 */
void mpa2_rules_stop(void)
{
	configfs_unregister_subsystem(&rules_subsystem);
}
