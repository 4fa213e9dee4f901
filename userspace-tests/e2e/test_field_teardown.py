# SPDX-License-Identifier: GPL-2.0
"""Cases from the field: how connections end."""

import pytest

import mpa
from conftest import seconds
from field import both_up, often, take
from test_field_events import agents_on, all_to_all
from test_initiator import connect, the_request
from test_responder import established, listen

pytestmark = pytest.mark.slow

FLUSHED = 5


def test_fr56_the_handler_gives_up_its_id(ulp, dial):
    """DISCONNECTED, and the handler returns non-zero: the last reference goes in the work
    that raised the event.
    """
    ulp("b", addr="10.77.0.2", port=7640, listen="Y", in_handler="Y")
    for done in range(1, 1 + often(20, 5000, 5)):
        raw = dial(7640)
        raw.send(mpa.request("AC", 1, 1))
        raw.receive(24)
        raw.send(mpa.RTR["C"])
        ulp.says("established 0", done)
        raw.close()
        ulp.says("destroy 0", done)


@pytest.mark.parametrize("how", ["close", "reset"])
def test_fr62_completions_before_or_with_the_end(initiator, responder, how):
    """100 messages and a disconnect, or an exit: all arrive, none after DISCONNECTED is lost;
    and iWARP has no TIMEWAIT_EXIT.
    """
    port = listen(responder, "auto=accept recvs=100 depth=128 size=8")
    initiator.do(f"connect 10.77.0.2 {port} depth=128 size=8")
    ours, theirs = both_up(initiator, responder)
    initiator.do(f"send {ours} n=100 size=8")
    take(initiator, "SEND", 100)
    initiator.do(f"{'disconnect' if how == 'close' else 'destroy'} {ours}")
    completions = take(responder, "RECV", 100)
    assert [completion["data"][:2] for completion in completions] == [
        f"{number:02x}" for number in range(1, 101)]
    responder.expect("DISCONNECTED", id=theirs, status=0)
    for agent in (initiator, responder):
        agent.nothing("TIMEWAIT_EXIT", 0.1)


def test_fr63_an_idle_end_flushes_and_nothing_else(responder, initiator, dial, answer):
    """The peer closes: what is posted comes back as flushed, at either end."""
    port = listen(responder, "auto=accept recvs=4")
    raw = dial(port)
    number = established(responder, raw)
    raw.close()
    responder.expect("DISCONNECTED", id=number, status=0)
    raw = connect(initiator, answer, "recvs=4")
    the_request(raw)
    raw.send(mpa.reply("AC", 1, 1))
    raw.receive(20)
    number = initiator.expect("ESTABLISHED", status=0)["id"]
    raw.close()
    initiator.expect("DISCONNECTED", id=number, status=0)
    for agent in (responder, initiator):
        assert [agent.expect("WC")["status"] for _ in range(4)] == [FLUSHED] * 4
        for name in ("WC", "ERROR", "DISCONNECTED"):
            agent.nothing(name, 0.05)


def test_fr66_srq_goes_after_its_qp(initiator, responder):
    """The other way about it is EBUSY at once."""
    port = listen(responder, "auto=accept recvs=4 srq=1")
    initiator.do(f"connect 10.77.0.2 {port} recvs=4 srq=1 size=8 established=1")
    ours, theirs = both_up(initiator, responder)
    take(responder, "RECV", 1)
    for agent, number in ((initiator, ours), (responder, theirs)):
        done = agent.do(f"destroy_srq {number}", errno=16)
        assert done["ms"] < 1000 * seconds(1)
    # Used on, and given back in the right order.
    responder.do(f"send {theirs} size=8")
    take(initiator, "RECV", 1)
    for agent, number in ((initiator, ours), (responder, theirs)):
        agent.do(f"destroy {number}")


def test_fr68_all_end_at_once(hosta):
    """Eight processes with connections among all of them disconnect at the same time: all
    are gone within 5 s.
    """
    for _ in range(often(1, 500)):
        with agents_on(hosta, often(8, 8, 4)) as agents:
            numbers = all_to_all(hosta, agents)
            for agent, own in zip(agents, numbers):
                for number in own:
                    agent.tell(f"disconnect {number}")
                agent.tell("quit")
            for agent in agents:
                assert agent.process.wait(timeout=seconds(5)) == 0


def test_fr71_all_of_it_inside_the_handler(ulp, responder, answer):
    """A kernel ULP that connects in ROUTE_RESOLVED and destroys its id in the last event:
    connected, rejected, refused.
    """
    port = listen(responder, "auto=accept")
    ulp("a", addr="10.77.0.2", port=port, in_handler="Y")
    ulp.says("established 0")
    number = responder.expect("ESTABLISHED", status=0)["id"]
    responder.do(f"disconnect {number}")
    ulp.says("destroy 0")
    ulp.unload()
    port = listen(responder, "auto=reject")
    ulp("a", addr="10.77.0.2", port=port, in_handler="Y")
    ulp.says("rejected -111")
    ulp.says("destroy 0")
    ulp.unload()
    ulp("a", addr="10.77.0.2", port=7641, in_handler="Y")
    ulp.says("rejected -104")
    ulp.says("destroy 0")
    ulp.unload()
    ulp("a", addr="10.77.0.2", port=answer.port, in_handler="Y")
    raw = answer()
    the_request(raw)
    raw.send(mpa.reply("A", 1, 1))
    assert raw.rest() == mpa.TERMINATE_RTR
    ulp.says("connect error -71")
    ulp.says("destroy 0")


def test_fr71_accept_and_reject_inside_the_handler(ulp, dial):
    ulp("b", addr="10.77.0.2", port=7642, listen="Y", in_handler="Y", send_early="Y")
    raw = dial(7642)
    raw.send(mpa.request("AC", 4, 4))
    assert raw.receive(24) == mpa.reply("AC", 4, 4)
    raw.send(mpa.RTR["C"])
    assert raw.receive(24) == mpa.fpdu(mpa.send(1))
    raw.close()
    ulp.says("destroy 0")
    ulp.unload()
    ulp("b", addr="10.77.0.2", port=7643, listen="Y", in_handler="Y", reject="Y")
    for _ in range(3):
        raw = dial(7643)
        raw.send(mpa.request("AC", 4, 4))
        assert raw.rest() == mpa.reply("AC", 4, 4, flags=mpa.FLAG_S | mpa.FLAG_R)
    ulp.says("reject 0")


def test_fr87_a_kernel_ulp_maps_by_the_rdma_cores_rule(ulp, initiator, responder):
    """Buffers mapped by ib_dma_*: messages that it receives are sent back, in either role.

    krping is not in the kernel; Reads, Writes and memory registration by kernel users are
    in the tests of NVMe and NFS.
    """
    port = listen(responder, "auto=accept recvs=8 size=200")
    ulp("a", addr="10.77.0.2", port=port, echo="Y")
    number = responder.expect("ESTABLISHED", status=0)["id"]
    for round_ in range(1, 9):
        responder.do(f"send {number} size=200")
        [completion] = take(responder, "RECV", 1)
        assert completion["data"] == bytes([round_] * 200).hex()
    assert ulp.said().count("received 200") == 8
    ulp.unload()
    responder.expect("DISCONNECTED", id=number)
    ulp("b", addr="10.77.0.2", port=7644, listen="Y", echo="Y")
    initiator.do("connect 10.77.0.2 7644 recvs=8 size=200")
    number = initiator.expect("ESTABLISHED", status=0)["id"]
    initiator.do(f"send {number} size=200")
    [completion] = take(initiator, "RECV", 1)
    assert completion["data"] == bytes([1] * 200).hex()
