# SPDX-License-Identifier: GPL-2.0
"""The verdict of a boot where allocations fail on purpose."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/lib"))

import verdict  # noqa: E402  pylint: disable=wrong-import-position

VMALLOC = "mpa2-cm: vmalloc error: size 480, vm_struct allocation failed, mode:0xdc0(GFP_KERNEL)"
TRACE = ["CPU: 1 PID: 172 Comm: mpa2-cm", "Call Trace:", " <TASK>", " dump_stack_lvl+0x1"]
WARNING = ["WARNING: CPU: 1 PID: 1 at kernel/kprobes.c:1126 f+0x1/0x2"]


def findings(messages, allocations_fail):
    log = "".join(f"4,{number},1,-;{text}\n" for number, text in enumerate(messages))
    return verdict.kernel_findings({}, log, "", allocations_fail)


def test_a_failed_vmalloc_is_a_complaint_unless_it_was_made_to():
    messages = [VMALLOC, *TRACE]
    assert findings(messages, False)
    assert not findings(messages, True)


def test_other_reports_count_beside_it():
    for messages in ([*WARNING, *TRACE], [VMALLOC, *TRACE, *WARNING],
                     [VMALLOC, *TRACE, *TRACE], [VMALLOC, *WARNING, *TRACE]):
        assert findings(messages, True), messages
