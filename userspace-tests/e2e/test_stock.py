# SPDX-License-Identifier: GPL-2.0
"""Stock siw at one end, by the switch of its device; not under lockdep, which would
report stock siw's own faults.
"""

import pytest

from test_responder import listen

pytestmark = pytest.mark.stock


def both_up(initiator, responder):
    """Numbers of the connection at both ends."""
    return (initiator.expect("ESTABLISHED", status=0)["id"],
            responder.expect("ESTABLISHED", status=0)["id"])


def data_passes(sender, number, receiver):
    """One Send."""
    sender.do(f"send {number} size=8")
    assert receiver.expect("WC", opcode="RECV")["status"] == 0
    assert sender.expect("WC", opcode="SEND")["status"] == 0


@pytest.mark.parametrize("fence", ["always", "p2p"])
def test_stock_initiator_speaks_first(hosta, stock, initiator, responder, set_parameter, fence):
    stock(hosta)
    set_parameter(fence=fence)
    port = listen(responder, "auto=accept recvs=8")
    initiator.do(f"connect 10.77.0.2 {port} established=1 size=8 recvs=8")
    ours, theirs = both_up(initiator, responder)
    assert initiator.expect("WC", opcode="SEND")["status"] == 0
    assert responder.expect("WC", opcode="RECV")["status"] == 0
    data_passes(responder, theirs, initiator)
    data_passes(initiator, ours, responder)
    initiator.do(f"disconnect {ours}")
    responder.expect("DISCONNECTED", id=theirs)
    initiator.expect("DISCONNECTED", id=ours)


def test_early_work_is_held_for_a_stock_initiator(hosta, stock, initiator, responder):
    """fence=always: what the responder posts at once arrives, behind the initiator's word."""
    stock(hosta)
    port = listen(responder, "auto=accept recvs=8 sends=2 size=8")
    initiator.do(f"connect 10.77.0.2 {port} recvs=8 size=8")
    ours, _ = both_up(initiator, responder)
    initiator.nothing("WC", 0.3)
    initiator.do(f"send {ours} size=8")
    for _ in range(2):
        assert initiator.expect("WC", opcode="RECV")["status"] == 0
        assert responder.expect("WC", opcode="SEND")["status"] == 0


@pytest.mark.parametrize("rtr", ["write", "read"])
def test_stock_responder_takes_our_rtr(hostb, stock, initiator, responder, set_parameter, rtr):
    stock(hostb)
    set_parameter(rtr=rtr)
    port = listen(responder, "auto=accept recvs=8 ird=4 ord=4")
    initiator.do(f"connect 10.77.0.2 {port} recvs=8 ird=4 ord=4")
    ours, theirs = both_up(initiator, responder)
    data_passes(responder, theirs, initiator)
    data_passes(initiator, ours, responder)
