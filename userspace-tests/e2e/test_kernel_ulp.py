# SPDX-License-Identifier: GPL-2.0
"""A kernel ULP on rdma_cm, with and without options of its own (kunit/ulp.c)."""

import json

import pytest

import mpa


def connected(ulp, answer, request, **options):
    """The ULP connects; its Request is checked and its connection made."""
    ulp("a", addr="10.77.0.2", port=answer.port, **options)
    raw = answer()
    assert raw.receive(len(request)) == request
    return raw


def test_initiator_without_options(ulp, answer):
    raw = connected(ulp, answer, mpa.request("ABCD", 4, 4))
    raw.send(mpa.reply("AC", 4, 4))
    assert raw.receive(20) == mpa.RTR["C"]
    ulp.says("established 0")
    raw.close()
    ulp.says("disconnected 0")


def test_enh13_initiator_asks_for_its_own_model(ulp, answer):
    raw = connected(ulp, answer, mpa.request("", 4, 4), client_server="Y")
    raw.send(mpa.reply("", 4, 4))
    ulp.says("established 0")


def test_a70_a_kernel_qp_that_rdma_cm_did_not_make(ulp, answer, dial):
    """A thread of the kernel names a ULP's QP by number, in either role."""
    raw = connected(ulp, answer, mpa.request("ABCD", 4, 4), own_qp="Y")
    raw.send(mpa.reply("AC", 4, 4))
    assert raw.receive(20) == mpa.RTR["C"]
    ulp.says("established 0")
    ulp.unload()
    ulp("b", addr="10.77.0.2", port=7805, listen="Y", own_qp="Y")
    raw = dial(7805)
    raw.send(mpa.request("AC", 4, 4))
    assert raw.receive(24) == mpa.reply("AC", 4, 4)
    raw.send(mpa.RTR["C"])
    ulp.says("established 0")


def test_a70_a_user_cannot_name_a_kernel_qp(ulp, responder, hostb, dial):
    """Neither before nor after it is connected; its own connection lives on."""
    ulp("b", addr="10.77.0.2", port=7806, listen="Y")
    raw = dial(7806)
    raw.send(mpa.request("AC", 4, 4))
    assert raw.receive(24) == mpa.reply("AC", 4, 4)
    shown = json.loads(hostb.run("rdma", "-j", "resource", "show", "qp").stdout)
    [qpn] = [qp["lqpn"] for qp in shown if qp["type"] == "RC" and "pid" not in qp]
    responder.do("listen 10.77.0.2 0")
    port = responder.expect("LISTENING")["port"]
    for number in 1, 2:
        other = dial(port)
        other.send(mpa.request("AC", 1, 1))
        responder.do(f"accept {responder.expect('CONNECT_REQUEST')['id']} qpn={qpn}", errno=22)
        assert other.ends() == b""
        if number == 1:
            raw.send(mpa.RTR["C"])
            ulp.says("established 0")
    assert "disconnected 0" not in ulp.said()
    raw.silent()


def test_options_go_before_rules(ulp, answer, rule):
    rule("all", model="client-server", rtr="write")
    # 4 is the read kind; what the ULP leaves open the rule decides.
    rule("all", model="", rev="2")
    raw = connected(ulp, answer, mpa.request("AD", 4, 4), rtr=4)
    raw.send(mpa.reply("AD", 4, 4))
    assert raw.receive(52) == mpa.RTR["D"]
    ulp.says("established 0")


def test_options_that_were_forgotten(ulp, answer):
    connected(ulp, answer, mpa.request("ABCD", 4, 4), client_server="Y", forget="Y")


@pytest.mark.slow
@pytest.mark.parametrize("addr", ["10.77.0.2", "0.0.0.0"])
def test_children_inherit_their_listeners_options(ulp, dial, addr):
    ulp("b", addr=addr, port=7801, listen="Y", rtr=4)
    raw = dial(7801)
    raw.send(mpa.request("ABCD", 4, 4))
    assert raw.receive(24) == mpa.reply("AD", 4, 4)
    raw.send(mpa.RTR["D"])
    assert raw.receive(20) == mpa.READ_RESPONSE
    ulp.says("established 0")
    # The next one as well: a listener's options are not used up.
    other = dial(7801)
    other.send(mpa.request("ABCD", 4, 4))
    assert other.receive(24) == mpa.reply("AD", 4, 4, flags=mpa.FLAG_S | mpa.FLAG_R)


def test_options_with_the_accept(ulp, dial):
    ulp("b", addr="10.77.0.2", port=7802, listen="Y", rtr=2, at_accept="Y")
    raw = dial(7802)
    raw.send(mpa.request("ABCD", 4, 4))
    assert raw.receive(24) == mpa.reply("AC", 4, 4)
    raw.send(mpa.RTR["C"])
    ulp.says("established 0")


def test_required_ord_of_a_kernel_ulp(ulp, dial):
    ulp("b", addr="10.77.0.2", port=7803, listen="Y", require_ord=8)
    raw = dial(7803)
    raw.send(mpa.request("AC", 4, 4))
    octets = raw.rest()
    assert octets[16] == mpa.FLAG_S | mpa.FLAG_R
    assert int.from_bytes(octets[22:24], "big") & 0x3fff == 8


@pytest.mark.parametrize("kind", "BCD")
def test_mpa14_kernel_qp_behind_the_fence(ulp, dial, kind):
    """Work that a kernel QP posts right after accept is held, and goes out once."""
    ulp("b", addr="10.77.0.2", port=7804, listen="Y", send_early="Y")
    raw = dial(7804)
    raw.send(mpa.request("ABCD", 4, 4))
    assert raw.receive(24) == mpa.reply("ABCD", 4, 4)
    ulp.says("post 0")
    raw.silent()
    raw.send(mpa.RTR[kind])
    if kind == "D":
        assert raw.receive(20) == mpa.READ_RESPONSE
    assert raw.receive(24) == mpa.fpdu(mpa.send(1))
    ulp.says("completion 0")
    ulp.says("established 0")
    raw.close()
    ulp.says("disconnected 0")


def test_ulp_goes_with_its_handshake(ulp, dial, answer, set_parameter):
    """Unloaded while a Reply is due, and while a fence is closed with work behind it.

    iw_cm lets rdma_disconnect() wait for a handshake that is under way, so each takes as
    long as its timer.
    """
    set_parameter(reply_timeout_ms=500, rtr_timeout_ms=500)
    ulp("a", addr="10.77.0.2", port=answer.port)
    raw = answer()
    raw.receive(24)
    ulp.unload()
    assert raw.ends() == b""
    ulp("b", addr="10.77.0.2", port=7805, listen="Y", send_early="Y")
    raw = dial(7805)
    raw.send(mpa.request("ABCD", 4, 4))
    raw.receive(24)
    ulp.says("post 0")
    ulp.unload()
    assert raw.ends() == b""
