# SPDX-License-Identifier: GPL-2.0
"""What a run of the virtual machine is worth, whatever its tests said.

A run passes only if the machine reached its end by itself, the command
succeeded, and the kernel had nothing to complain about: no warning, BUG,
lockdep or KASAN report, leak, hung task or stall.
"""

import json
import os
import re

# What the kernel says when something is wrong with it. Matched against the
# kernel's own messages only, never against what a program printed.
COMPLAINTS = [
    r"\bWARNING: ",
    r"\bBUG: ",
    r"\bkernel BUG at ",
    r"\bKASAN: ",
    r"\bUBSAN: ",
    r"\bKCSAN: ",
    r"\bODEBUG: ",
    r"\bOops\b",
    r"\bgeneral protection fault",
    r"\bUnable to handle kernel",
    r"\bKernel panic",
    r"\bINFO: task .* blocked for more than",
    r"\bINFO: possible ",
    r"\bINFO: trying to register non-static key",
    r"\bpossible (circular|recursive|irq|deadlock)",
    r"\bINFO: lockdep is turned off",
    r"\bDEBUG_LOCKS_WARN_ON",
    r"\brcu: .*\bdetected( expedited)? stall",
    r"\brcu: .*\bstall",
    r"\bself-detected stall",
    r"\bsoft lockup",
    r"\bhard LOCKUP",
    r"\bworkqueue lockup",
    r"\bkmemleak: \d+ new suspected memory leak",
    r"\bref(count_t|_tracker): ",
    r"\bunregister_netdevice: waiting for",
    r"\blist_(add|del) corruption",
    r"\bSlab .* Objects remaining",
    r"\bBUG \S+ \(.*\): ",
    r"\bscheduling while atomic",
    r"\bsleeping function called from invalid context",
    r"\bpage allocation failure",
    r"\bvm-init: ",
    r"\bCall Trace:",
]
COMPLAINT = re.compile("|".join(COMPLAINTS))

# A kernel that says one of these has its memory or its locks broken.
TAINTS = {
    1 << 4: "machine check",
    1 << 5: "bad page",
    1 << 7: "oops or BUG",
    1 << 9: "warning",
    1 << 14: "soft lockup",
}

MAX_LISTED = 12

PASSED = 0
UNEXPECTED_STOP = 96
TIMED_OUT = 97
KERNEL_COMPLAINED = 98


def kernel_messages(text):
    """The text of the kernel's own records in what /dev/kmsg gave."""
    messages = []
    ours = False
    for line in text.splitlines():
        head = re.match(r"^(\d+),\d+,\d+,[^;]*;(.*)$", line)
        if head:
            # The facility is above the three bits of the level; 0 is the kernel.
            ours = int(head[1]) >> 3 == 0
            if ours:
                messages.append(head[2])
        elif ours and not line.startswith(" "):
            # The rest of a record of several lines; a blank leads a key=value.
            messages.append(line)
    return messages


def complaints(messages):
    """Messages in which the kernel says that something is wrong."""
    return [message.strip() for message in messages if COMPLAINT.search(message)]


def parse_facts(text):
    """The facts of the result port: {name: [values]}."""
    facts = {}
    for line in text.splitlines():
        name, _, value = line.strip().partition(" ")
        if name:
            facts.setdefault(name, []).append(value)
    return facts


def read(directory, name):
    """A file's text, empty where there is none."""
    try:
        with open(os.path.join(directory, name), encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def without_repeats(items):
    """The same list with each item once."""
    return list(dict.fromkeys(items))


def strip_time(line):
    """A console line without its time stamp."""
    return re.sub(r"^\s*(<\d+>)?\[\s*\d+\.\d+\](\[[^\]]*\])?\s*", "", line)


# What vmalloc() says of an allocation of its own that has failed, with a trace.
FAILED_ALLOCATION = re.compile(r"vmalloc error: size \d+, .*(allocation|allocate).* mode:0x")


def without_failed_allocations(messages):
    """Without the traces of such words, where allocations fail on purpose: the next
    one after them, not those of anything else.
    """
    theirs = False
    for message in messages:
        if FAILED_ALLOCATION.search(message):
            theirs = True
        elif theirs and "Call Trace:" in message:
            theirs = False
        else:
            yield message


# siw forgets its list of pages when a process is killed before the first page is pinned:
# one null pointer, allocated where a memory region is registered.  Nothing of ours runs
# there (limits.rst), and where processes are killed at any moment it is met at times.
LEAKED_PAGE_LIST = re.compile(r"\(size 8\):.*\n\s+(?:00 ){8}.*\bib_uverbs_reg_mr\+", re.DOTALL)
LEAKS_SEEN = re.compile(r"\bkmemleak: \d+ new suspected memory leak")


def only_siws_own(kmemleak):
    """Whether kmemleak has found something, and nothing but that."""
    objects = re.split(r"^(?=unreferenced object )", kmemleak, flags=re.MULTILINE)[1:]
    return bool(objects) and all(LEAKED_PAGE_LIST.search(each) for each in objects)


def kernel_findings(facts, kernel_log, console_log, kmemleak="", allocations_fail=False):
    """All that the kernel complained about, in words."""
    found = []
    siws_own = only_siws_own(kmemleak)
    # The console has what could not leave by the port any more.
    for messages in (kernel_messages(kernel_log),
                     [strip_time(line) for line in console_log.splitlines()]):
        if allocations_fail:
            messages = without_failed_allocations(messages)
        found += [text for text in complaints(messages)
                  if not (siws_own and LEAKS_SEEN.search(text))]
    found = [f"kernel: {text}" for text in without_repeats(found)]
    if len(found) > MAX_LISTED:
        found[MAX_LISTED:] = [f"kernel: {len(found) - MAX_LISTED} more lines of that sort"]
    for value in facts.get("tainted", []):
        found += [f"kernel tainted: {why}" for bit, why in TAINTS.items() if int(value) & bit]
    for value in facts.get("kmemleak", []):
        if value != "0" and not siws_own:
            found.append(f"kmemleak: {value} unreferenced objects, see kmemleak.txt")
    for value in facts.get("debug_locks", []):
        if value != "1":
            found.append("lockdep has turned itself off after a report")
    found += [f"module cannot be unloaded: {value}" for value in facts.get("stuck", [])]
    return found


class Verdict:
    """The outcome of one run."""

    def __init__(self, directory, timed_out=False, kernel_counts=True, allocations_fail=False):
        self.facts = parse_facts(read(directory, "result.txt"))
        self.kernel = kernel_findings(
            self.facts, read(directory, "kernel.log") + read(directory, "kernel-end.log"),
            read(directory, "console.log"), read(directory, "kmemleak.txt"), allocations_fail)
        self.kernel_counts = kernel_counts
        self.timed_out = timed_out
        self.ended = "end" in self.facts
        exits = self.facts.get("exit", [])
        self.command_exit = int(exits[-1]) if exits else None

    @property
    def reasons(self):
        """Why the run failed; empty where it passed."""
        reasons = []
        if self.timed_out:
            reasons.append("the run took longer than its time limit")
        elif not self.ended:
            reasons.append("the machine stopped before its end")
        if self.command_exit is None:
            reasons.append("the command did not come to its end")
        elif self.command_exit:
            reasons.append(f"the command ended with exit status {self.command_exit}")
        if self.kernel_counts:
            reasons += self.kernel
        return reasons

    @property
    def exit_status(self):
        """For the caller's shell."""
        if self.timed_out:
            return TIMED_OUT
        if not self.ended:
            return UNEXPECTED_STOP
        if self.kernel and self.kernel_counts:
            return KERNEL_COMPLAINED
        return self.command_exit if self.command_exit is not None else UNEXPECTED_STOP

    def as_json(self):
        """For scripts/check and for people who keep records."""
        return json.dumps({
            "passed": not self.reasons,
            "reasons": self.reasons,
            "kernel": self.kernel,
            "kernel_counts": self.kernel_counts,
            "command_exit": self.command_exit,
            "timed_out": self.timed_out,
            "facts": self.facts,
        }, indent=2)
