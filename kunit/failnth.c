// SPDX-License-Identifier: GPL-2.0
/*
 * iw_mpa2_failnth: lets allocations fail, one at a time, in whatever task they
 * are made (scripts/test-fail-nth).
 *
 * The kernel's fail-nth counts the allocations of one task, known beforehand.
 * Most of connection set-up runs in work items.  So this module looks at each
 * allocation on its way into failslab: one that is made below a function of
 * chosen modules, and that is next, gets fail-nth of its task set to 1.
 *
 * Next is the first call chain that has not failed yet since this module was
 * loaded.  One that comes more than once in a try, as from a loop, fails in each
 * of its first REPEATS rounds.
 *
 *	/sys/kernel/debug/iw_mpa2_failnth/control	below MODULE... | arm | disarm
 *	/sys/kernel/debug/iw_mpa2_failnth/failed	the call chain that failed
 */
#include <linux/debugfs.h>
#include <linux/fault-inject.h>
#include <linux/hash.h>
#include <linux/jhash.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/pgtable.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/stacktrace.h>
#include <linux/string.h>

#define CHAINS_BITS 13
#define CHAINS_MAX BIT(CHAINS_BITS)
#define DEPTH_MAX 64
#define MODULES_MAX 64
#define REPEATS 2
#define SYMBOL_MAX 80
/* This probe's own frames and ftrace's, up to should_failslab(). */
#define FRAMES_OF_PROBE 3

/* Where a module's code is, and whether what is below it may fail. */
struct code {
	char name[MODULE_NAME_LEN];
	unsigned long core, core_size, init, init_size;
	bool wanted;
};

struct chain {
	u32 key;	/* 0: none */
	u32 try;	/* the last that has seen it, */
	u8 seen;	/* and how often */
	u8 failed;	/* bits: in which of its rounds */
	bool spared;
};

static DEFINE_RAW_SPINLOCK(lock);	/* over all below */
static struct code codes[MODULES_MAX];
static struct chain chains[CHAINS_MAX];
static bool armed;
static u32 try;
static unsigned int nr_lines;
static char lines[DEPTH_MAX][SYMBOL_MAX];

static struct code *code_of(unsigned long addr, unsigned long *offset)
{
	struct code *code;

	if (addr < MODULES_VADDR || addr >= MODULES_END)
		return NULL;
	for (code = codes; code < codes + MODULES_MAX; code++) {
		if (addr - code->core < code->core_size) {
			*offset = addr - code->core;
			return code;
		}
		if (addr - code->init < code->init_size) {
			*offset = ~(addr - code->init);
			return code;
		}
	}
	return NULL;
}

static bool is_below_wanted(const unsigned long *stack, unsigned int depth)
{
	unsigned long offset;
	unsigned int i;

	for (i = 0; i < depth; i++) {
		const struct code *code = code_of(stack[i], &offset);

		if (code && code->wanted)
			return true;
	}
	return false;
}

/* The same for the same chain, wherever its modules lie. */
static u32 key_of(const unsigned long *stack, unsigned int depth)
{
	unsigned int i;
	u32 key = 0;

	for (i = 0; i < depth; i++) {
		unsigned long offset = stack[i];
		const struct code *code = code_of(stack[i], &offset);

		key = jhash(&offset, sizeof(offset), key + (code ? code - codes : 0));
	}
	return key ?: 1;
}

static void name_of(char *name, unsigned long addr)
{
	char symbol[KSYM_SYMBOL_LEN];

	sprint_symbol(symbol, addr);
	strscpy(name, symbol, SYMBOL_MAX);
}

static bool passes(const unsigned long *stack, unsigned int depth, const char *function)
{
	char name[SYMBOL_MAX];
	unsigned int i;

	for (i = 0; i < depth; i++) {
		name_of(name, stack[i]);
		if (str_has_prefix(name, function))
			return true;
	}
	return false;
}

static bool is_spared(const unsigned long *stack, unsigned int depth)
{
	/* What the checkers allocate to remember something; they do without, but say so. */
	static const char * const checkers[] = {
		"kmemleak_", "debug_object", "__debug_object", "fill_pool",
		"ref_tracker_alloc",
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(checkers); i++)
		if (passes(stack, depth, checkers[i]))
			return true;
	/*
	 * rdma_ucm without memory for the event of a CONNECT_REQUEST destroys the new
	 * id in a handler that rdma_cm calls with that id's mutex held, and so waits
	 * for itself, whoever is the provider.
	 */
	return passes(stack, depth, "iw_conn_req_handler") &&
	       passes(stack, depth, "ucma_create_uevent");
}

/* Its place in the table, or the empty one where it belongs; NULL when that is full. */
static struct chain *chain_of(u32 key)
{
	unsigned int place = hash_32(key, CHAINS_BITS), i;

	for (i = 0; i < CHAINS_MAX; i++) {
		struct chain *chain = &chains[(place + i) % CHAINS_MAX];

		if (!chain->key || chain->key == key)
			return chain;
	}
	return NULL;
}

static bool is_next(const unsigned long *stack, unsigned int depth)
{
	struct chain *chain;
	u32 key;

	if (!is_below_wanted(stack, depth))
		return false;
	key = key_of(stack, depth);
	chain = chain_of(key);
	if (WARN_ON_ONCE(!chain))
		return false;
	if (!chain->key)
		*chain = (struct chain){
			.key = key,
			.spared = is_spared(stack, depth),
		};
	if (chain->try != try) {
		chain->try = try;
		chain->seen = 0;
	}
	if (chain->spared || chain->seen == REPEATS)
		return false;
	chain->seen++;
	if (chain->failed & BIT(chain->seen))
		return false;
	chain->failed |= BIT(chain->seen);
	return true;
}

/* Context: failslab is about to be asked; preemption is off. */
static int on_allocation(struct kprobe *probe, struct pt_regs *regs)
{
	gfp_t gfp = (__force gfp_t)regs_get_kernel_argument(regs, 1);
	unsigned long stack[DEPTH_MAX];
	unsigned int depth, i;
	unsigned long flags;

	if (!READ_ONCE(armed) || !in_task() || (gfp & __GFP_NOFAIL) || current->fail_nth)
		return 0;
	depth = stack_trace_save(stack, DEPTH_MAX, FRAMES_OF_PROBE);
	raw_spin_lock_irqsave(&lock, flags);
	if (armed && is_next(stack, depth)) {
		armed = false;
		for (i = 0; i < depth; i++)
			name_of(lines[i], stack[i]);
		nr_lines = depth;
		current->fail_nth = 1;
	}
	raw_spin_unlock_irqrestore(&lock, flags);
	return 0;
}

static struct kprobe probe = {
	.symbol_name = "should_failslab",
	.pre_handler = on_allocation,
};

/* ---- modules come and go ---- */

static struct code *code_named(const char *name, bool make)
{
	struct code *code, *empty = NULL;

	for (code = codes; code < codes + MODULES_MAX; code++) {
		if (!strcmp(code->name, name))
			return code;
		if (!*code->name && !empty)
			empty = code;
	}
	if (!make || !empty)
		return NULL;
	strscpy(empty->name, name, sizeof(empty->name));
	return empty;
}

static int on_module(struct notifier_block *block, unsigned long what, void *data)
{
	const struct module *mod = data;
	unsigned long flags;
	struct code *code;

	raw_spin_lock_irqsave(&lock, flags);
	code = code_named(mod->name, true);
	if (code && what == MODULE_STATE_COMING) {
		code->core = (unsigned long)mod->core_layout.base;
		code->core_size = mod->core_layout.text_size;
		code->init = (unsigned long)mod->init_layout.base;
		code->init_size = mod->init_layout.text_size;
	} else if (code) {
		code->init_size = 0;
		if (what == MODULE_STATE_GOING)
			code->core_size = 0;
	}
	raw_spin_unlock_irqrestore(&lock, flags);
	return NOTIFY_DONE;
}

static struct notifier_block module_block = { .notifier_call = on_module };

/* ---- debugfs ---- */

static void arm(bool on)
{
	if (on) {
		nr_lines = 0;
		try++;
	}
	armed = on;
}

static int choose(char *names)
{
	struct code *code;
	char *name;

	for (code = codes; code < codes + MODULES_MAX; code++)
		code->wanted = false;
	while ((name = strsep(&names, " "))) {
		code = code_named(name, false);
		if (!code)
			return -ENOENT;
		code->wanted = true;
	}
	return 0;
}

static ssize_t control_write(struct file *file, const char __user *from, size_t count,
			     loff_t *pos)
{
	char text[128] = {}, *order;
	unsigned long flags;
	int ret = 0;

	if (count >= sizeof(text) || copy_from_user(text, from, count))
		return -EINVAL;
	order = strim(text);
	raw_spin_lock_irqsave(&lock, flags);
	if (!strcmp(order, "arm") || !strcmp(order, "disarm"))
		arm(!strcmp(order, "arm"));
	else if (str_has_prefix(order, "below "))
		ret = choose(order + strlen("below "));
	else
		ret = -EINVAL;
	raw_spin_unlock_irqrestore(&lock, flags);
	return ret ?: count;
}

static const struct file_operations control_ops = {
	.owner = THIS_MODULE,
	.write = control_write,
};

/* Read while nothing is armed. */
static int failed_show(struct seq_file *seq, void *unused)
{
	unsigned int i;

	for (i = 0; i < nr_lines; i++)
		seq_printf(seq, "%s\n", lines[i]);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(failed);

static struct dentry *folder;

static int __init failnth_init(void)
{
	int ret = register_module_notifier(&module_block);

	if (ret)
		return ret;
	ret = register_kprobe(&probe);
	if (ret) {
		unregister_module_notifier(&module_block);
		return ret;
	}
	folder = debugfs_create_dir("iw_mpa2_failnth", NULL);
	debugfs_create_file("control", 0200, folder, NULL, &control_ops);
	debugfs_create_file("failed", 0400, folder, NULL, &failed_fops);
	return 0;
}

static void __exit failnth_exit(void)
{
	debugfs_remove(folder);
	unregister_kprobe(&probe);
	unregister_module_notifier(&module_block);
}

module_init(failnth_init);
module_exit(failnth_exit);

MODULE_DESCRIPTION("Lets allocations fail one at a time, for tests of iw_mpa2");
MODULE_LICENSE("GPL");
