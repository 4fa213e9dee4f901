// SPDX-License-Identifier: GPL-2.0
/* iw_mpa2: RFC 6581 connection set-up for soft-iWARP. */
#include <linux/init.h>
#include <linux/module.h>
#include <linux/workqueue.h>

#include "../siw/symbols.h"
#include "mpa2.h"

static int __init mpa2_init(void)
{
	int ret;

	mpa2_wq = alloc_workqueue("iw_mpa2", WQ_UNBOUND, 0);
	if (!mpa2_wq)
		return -ENOMEM;
	ret = mpa2_siw_resolve();
	if (ret)
		goto destroy_wq;
	ret = mpa2_tcp_start();
	if (ret)
		goto release_siw;
	ret = mpa2_rules_start();
	if (ret)
		goto stop_tcp;
	ret = mpa2_devices_start();
	if (ret)
		goto stop_rules;
	return 0;

stop_rules:
	mpa2_rules_stop();
stop_tcp:
	mpa2_tcp_stop();
release_siw:
	mpa2_siw_release();
destroy_wq:
	destroy_workqueue(mpa2_wq);
	return ret;
}

static void __exit mpa2_exit(void)
{
	mpa2_devices_stop();
	destroy_workqueue(mpa2_wq);
	mpa2_devices_finish();
	mpa2_owned_stop();
	mpa2_options_stop();
	mpa2_rules_stop();
	mpa2_tcp_stop();
	mpa2_siw_release();
}

module_init(mpa2_init);
module_exit(mpa2_exit);

MODULE_DESCRIPTION("RFC 6581 connection set-up (MPA Rev 2, peer-to-peer) for soft-iWARP");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1.0");
MODULE_SOFTDEP("pre: siw");
