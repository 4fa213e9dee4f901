# SPDX-License-Identifier: GPL-2.0
"""What the tests of cases from the field share (test_field_*.py)."""

import contextlib
import os
import pathlib

from conftest import wait_until

# How often a case is gone through: a few times in every check, and as often as it takes to
# meet a rare race in the long run (scripts/check-long sets it).
LONG = int(os.environ.get("IW_LONG", "0"))
# The debug kernel is slow; see scripts/test-e2e.
SLOW = float(os.environ.get("IW_SCALE", "1")) > 1


def often(short, long, slow=None):
    """A number of rounds: of the check, of the long run, of the check on the debug kernel."""
    if LONG:
        return long
    return short if slow is None or not SLOW else slow


def both_up(initiator, responder):
    """The numbers of the next connection at both ends."""
    return (initiator.expect("ESTABLISHED", status=0)["id"],
            responder.expect("ESTABLISHED", status=0)["id"])


def take(agent, opcode, count):
    """So many good completions, in their order."""
    completions = [agent.expect("WC", opcode=opcode) for _ in range(count)]
    assert all(completion["status"] == 0 for completion in completions), completions
    return completions


def exchange(initiator, ours, responder, theirs):
    """One Send of each end."""
    for sender, number, receiver in ((initiator, ours, responder),
                                     (responder, theirs, initiator)):
        sender.do(f"send {number} size=8")
        take(receiver, "RECV", 1)
        take(sender, "SEND", 1)


@contextlib.contextmanager
def link_down(host, other):
    """The cable between the two is pulled at a host, and put back at the end."""
    number = host.address[-1]
    link = f"veth_{host.name[-1]}"
    host.run("ip", "link", "set", link, "down")
    try:
        yield
    finally:
        host.run("ip", "link", "set", link, "up")
        # It has taken its IPv6 addresses along.
        host.run("ip", "-6", "address", "replace", f"fd77::{number}/64", "dev", link, "nodad")
        host.run("ping", "-c", "2", "-i", "0.2", other.address)
        for device in (host.device, other.device):
            state = pathlib.Path(f"/sys/class/infiniband/{device}/ports/1/state")
            wait_until(lambda path=state: "ACTIVE" in path.read_text(), f"{device} to be active")
