# SPDX-License-Identifier: GPL-2.0
"""The verdict of a boot: what counts as a complaint of the kernel."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/lib"))

import verdict  # noqa: E402  pylint: disable=wrong-import-position

VMALLOC = "mpa2-cm: vmalloc error: size 480, vm_struct allocation failed, mode:0xdc0(GFP_KERNEL)"
TRACE = ["CPU: 1 PID: 172 Comm: mpa2-cm", "Call Trace:", " <TASK>", " dump_stack_lvl+0x1"]
WARNING = ["WARNING: CPU: 1 PID: 1 at kernel/kprobes.c:1126 f+0x1/0x2"]


def findings(messages, allocations_fail):
    log = "".join(f"4,{number},1,-;{text}\n" for number, text in enumerate(messages))
    return verdict.kernel_findings({}, log, "", allocations_fail=allocations_fail)


def test_a_failed_vmalloc_is_a_complaint_unless_it_was_made_to():
    messages = [VMALLOC, *TRACE]
    assert findings(messages, False)
    assert not findings(messages, True)


def test_other_reports_count_beside_it():
    for messages in ([*WARNING, *TRACE], [VMALLOC, *TRACE, *WARNING],
                     [VMALLOC, *TRACE, *TRACE], [VMALLOC, *WARNING, *TRACE]):
        assert findings(messages, True), messages


def leaked(size, octets, where):
    return (f"unreferenced object 0xffff8880072417a8 (size {size}):\n"
            '  comm "mpa2-cm", pid 1985, jiffies 4295147764\n'
            f"  hex dump (first {size} bytes):\n"
            f"    {octets}                          ........\n"
            "  backtrace:\n"
            "    [<0000000000000001>] __kmalloc+0x51/0x170\n"
            f"    [<0000000000000002>] {where}+0x35c/0xac0 [ib_uverbs]\n")


SIWS_OWN = leaked(8, "00 " * 8, "ib_uverbs_reg_mr")


def leak_findings(*objects):
    log = f"6,1,1,-;kmemleak: {len(objects)} new suspected memory leaks (see f)\n"
    return verdict.kernel_findings({"kmemleak": [str(len(objects))]}, log, "", "".join(objects))


def test_a_leak_of_siws_own_is_no_complaint():
    assert not leak_findings(SIWS_OWN)
    assert not leak_findings(SIWS_OWN, SIWS_OWN)


def test_other_leaks_are():
    for other in (leaked(16, "00 " * 16, "ib_uverbs_reg_mr"), leaked(8, "00 " * 8, "f"),
                  leaked(8, "01 " + "00 " * 7, "ib_uverbs_reg_mr")):
        assert len(leak_findings(other)) == 2
        assert len(leak_findings(SIWS_OWN, other)) == 2
        assert len(leak_findings(other, SIWS_OWN)) == 2
