// SPDX-License-Identifier: GPL-2.0
/*
 * Finding siw: siw exports nothing, so its functions are resolved by name once
 * at load, and only if the siw that is running is the one built against.
 *
 * The functions are reached by static_call(), which patches direct calls: on
 * kernels with IBT an indirect call to a function whose ENDBR was sealed is a
 * fault.  siw is pinned while this module is loaded, so no address goes stale.
 */
#include <linux/fs.h>
#include <linux/kernel_read_file.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/vmalloc.h>

#include "siw_view.h"
#include "symbols.h"

#define SIW_BUILD_ID_NOTE "/sys/module/siw/notes/.note.gnu.build-id"
#define BUILD_ID_OCTETS 20

/* Never called: a static call needs a function of the right type to begin with. */
int mpa2_stub_qp_modify(struct siw_qp *qp, void *attrs, int mask)
{
	return -ENXIO;
}

void mpa2_stub_cep_put(struct siw_cep *cep)
{
}

int mpa2_stub_sq_start(struct siw_qp *qp)
{
	return -ENXIO;
}

int mpa2_stub_activate_tx(struct siw_qp *qp)
{
	return -ENXIO;
}

void mpa2_stub_qp_cm_drop(struct siw_qp *qp, int schedule)
{
}

void mpa2_stub_data_ready(struct sock *sk)
{
}

static unsigned long mpa2_stub_lookup(const char *name)
{
	return 0;
}

static struct module *mpa2_stub_text_module(unsigned long addr)
{
	return NULL;
}

DEFINE_STATIC_CALL(siw_qp_modify, mpa2_stub_qp_modify);
DEFINE_STATIC_CALL(siw_cep_put, mpa2_stub_cep_put);
DEFINE_STATIC_CALL(siw_sq_start, mpa2_stub_sq_start);
DEFINE_STATIC_CALL(siw_activate_tx, mpa2_stub_activate_tx);
DEFINE_STATIC_CALL(siw_qp_cm_drop, mpa2_stub_qp_cm_drop);
DEFINE_STATIC_CALL(siw_qp_llp_data_ready, mpa2_stub_data_ready);
DEFINE_STATIC_CALL(mpa2_lookup, mpa2_stub_lookup);
DEFINE_STATIC_CALL(mpa2_text_module, mpa2_stub_text_module);

/* Make a static call go to what was found at an address. */
#define DIRECT(name, address) static_call_update(name, (void *)(address))

struct mpa2_siw_callbacks mpa2_siw_callbacks;

static struct module *siw_module;
static char *siw_key_area;

/**
 * mpa2_siw_lock_key() - the class of a lock that outlives this module
 * @which: which kind of lock
 *
 * Context: any, once siw was resolved.
 * Return: an address in siw, of which only the value counts.
 */
struct lock_class_key *mpa2_siw_lock_key(enum mpa2_lock_key which)
{
	/* A key is an address only; nothing is ever stored there. */
	return (struct lock_class_key *)(siw_key_area +
					 which * sizeof(void *));
}

/**
 * mpa2_siw_lock_name() - the name of such a class
 *
 * Context: any, once siw was resolved.
 * Return: a text in siw.
 */
const char *mpa2_siw_lock_name(void)
{
	return siw_module->name;
}

/*
 * kallsyms_lookup_name() is not exported; a kprobe finds its address.  With
 * IBT the probe sits behind the ENDBR, which a direct call does not mind.
 */
static int find_kernel_lookup(void)
{
	/*
	 * Disabled, it is never armed: nothing to allocate, and nothing to take
	 * back, which could fail and leave the kernel with our stack in its table.
	 */
	struct kprobe probe = {
		.symbol_name = "kallsyms_lookup_name",
		.flags = KPROBE_FLAG_DISABLED,
	};
	int ret;

	ret = register_kprobe(&probe);
	if (ret) {
		pr_err("the kernel does not let us find symbols (kprobes needed): %d\n",
		       ret);
		return ret;
	}
	DIRECT(mpa2_lookup, probe.addr);
	unregister_kprobe(&probe);
	return 0;
}

static unsigned long lookup(const char *name)
{
	unsigned long addr = static_call(mpa2_lookup)(name);

	if (!addr)
		pr_err("%s not found: load siw first; if it is loaded, it is not the siw this module was built for: rebuild iw_mpa2 against it\n",
		       name);
	return addr;
}

/* The build-id note of the siw in memory, read as any program would. */
static int check_build_id(void)
{
	static const u8 wanted[BUILD_ID_OCTETS] = SIW_BUILD_ID;
	struct file *file;
	u8 note[64];
	loff_t pos = 0;
	ssize_t len;

	file = filp_open(SIW_BUILD_ID_NOTE, O_RDONLY, 0);
	if (IS_ERR(file)) {
		pr_err("siw is not loaded (no " SIW_BUILD_ID_NOTE "): run \"modprobe siw\" first\n");
		return -ENOENT;
	}
	len = kernel_read(file, note, sizeof(note), &pos);
	filp_close(file, NULL);
	/* The note's header is three words and the name "GNU". */
	if (len < 16 + BUILD_ID_OCTETS ||
	    memcmp(note + 16, wanted, BUILD_ID_OCTETS)) {
		pr_err("the loaded siw is not the one this module was built for: rebuild iw_mpa2 against the running siw.ko\n");
		return -ENOEXEC;
	}
	return 0;
}

static int pin_siw(unsigned long text)
{
	struct module *mod;
	int ret = 0;

	preempt_disable();
	mod = static_call(mpa2_text_module)(text);
	if (!mod || !try_module_get(mod))
		ret = -ENOENT;
	preempt_enable();
	if (ret)
		pr_err("siw is not live: run \"modprobe siw\" first\n");
	else
		siw_module = mod;
	return ret;
}

/**
 * mpa2_siw_resolve() - find, check and pin the running siw
 *
 * Context: module init, may sleep.
 * Return: 0, or -errno after one line that says what to do.
 */
int mpa2_siw_resolve(void)
{
	unsigned long modify, put, start, activate, drop, ready, space, state,
		error, area, text_module;
	int ret;

	ret = find_kernel_lookup();
	if (ret)
		return ret;
	ret = check_build_id();
	if (ret)
		return ret;

	text_module = lookup("__module_text_address");
	modify = lookup("siw:siw_qp_modify");
	if (!text_module || !modify)
		return -ENOENT;
	DIRECT(mpa2_text_module, text_module);
	ret = pin_siw(modify);
	if (ret)
		return ret;

	ret = -ENOENT;
	put = lookup("siw:siw_cep_put");
	start = lookup("siw:siw_sq_start");
	activate = lookup("siw:siw_activate_tx");
	drop = lookup("siw:siw_qp_cm_drop");
	ready = lookup("siw:siw_qp_llp_data_ready");
	space = lookup("siw:siw_qp_llp_write_space");
	state = lookup("siw:siw_cm_llp_state_change");
	error = lookup("siw:siw_cm_llp_error_report");
	area = lookup("siw:iwarp_pktinfo");
	if (!put || !start || !activate || !drop || !ready || !space ||
	    !state || !error || !area) {
		mpa2_siw_release();
		return ret;
	}

	DIRECT(siw_qp_modify, modify);
	DIRECT(siw_cep_put, put);
	DIRECT(siw_sq_start, start);
	DIRECT(siw_activate_tx, activate);
	DIRECT(siw_qp_cm_drop, drop);
	DIRECT(siw_qp_llp_data_ready, ready);
	mpa2_siw_callbacks.data_ready = (void (*)(struct sock *))ready;
	mpa2_siw_callbacks.write_space = (void (*)(struct sock *))space;
	mpa2_siw_callbacks.state_change = (void (*)(struct sock *))state;
	mpa2_siw_callbacks.error_report = (void (*)(struct sock *))error;
	siw_key_area = (char *)area;
	return 0;
}

/**
 * mpa2_siw_release() - let siw go again
 *
 * Context: module exit, after the last call into siw.
 */
void mpa2_siw_release(void)
{
	if (siw_module)
		module_put(siw_module);
	siw_module = NULL;
}
