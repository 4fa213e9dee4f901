# SPDX-License-Identifier: GPL-2.0
"""A kernel ULP on rdma_cm, with and without options of its own (kunit/ulp.c)."""

import pytest

import mpa
from conftest import run, wait_until

MARK = "iw_mpa2_ulp: "


def said():
    """What the ULP has told since it was loaded."""
    lines = run("dmesg").stdout.rsplit("iw_mpa2_ulp: start", 1)[-1].splitlines()
    return [line.split(MARK, 1)[1] for line in lines if MARK in line]


@pytest.fixture(name="ulp")
def fixture_ulp(hosta, hostb):
    """ulp(host, parameter=value, ...) loads it in a host's namespace."""
    hosts = {"a": hosta, "b": hostb}
    loaded = []

    def load(host, **parameters):
        with open("/dev/kmsg", "w", encoding="utf-8") as log:
            log.write("iw_mpa2_ulp: start\n")
        words = [f"{name}={value}" for name, value in parameters.items()]
        hosts[host].run("modprobe", "iw_mpa2_ulp", *words)
        loaded.append(True)

    def unload():
        run("rmmod", "iw_mpa2_ulp")
        loaded.clear()

    load.unload = unload
    yield load
    if loaded:
        unload()


def says(text):
    wait_until(lambda: text in said(), f"{text!r}, only: {said()}")


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
    says("established 0")
    raw.close()
    says("disconnected 0")


def test_enh13_initiator_asks_for_its_own_model(ulp, answer):
    raw = connected(ulp, answer, mpa.request("", 4, 4), client_server="Y")
    raw.send(mpa.reply("", 4, 4))
    says("established 0")


def test_options_go_before_rules(ulp, answer, rule):
    rule("all", model="client-server", rtr="write")
    # 4 is the read kind; what the ULP leaves open the rule decides.
    rule("all", model="", rev="2")
    raw = connected(ulp, answer, mpa.request("AD", 4, 4), rtr=4)
    raw.send(mpa.reply("AD", 4, 4))
    assert raw.receive(52) == mpa.RTR["D"]
    says("established 0")


def test_options_that_were_forgotten(ulp, answer):
    connected(ulp, answer, mpa.request("ABCD", 4, 4), client_server="Y", forget="Y")


@pytest.mark.parametrize("addr", ["10.77.0.2", "0.0.0.0"])
def test_children_inherit_their_listeners_options(ulp, dial, addr):
    ulp("b", addr=addr, port=7801, listen="Y", rtr=4)
    raw = dial(7801)
    raw.send(mpa.request("ABCD", 4, 4))
    assert raw.receive(24) == mpa.reply("AD", 4, 4)
    raw.send(mpa.RTR["D"])
    assert raw.receive(20) == mpa.READ_RESPONSE
    says("established 0")
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
    says("established 0")


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
    says("post 0")
    raw.silent()
    raw.send(mpa.RTR[kind])
    if kind == "D":
        assert raw.receive(20) == mpa.READ_RESPONSE
    assert raw.receive(24) == mpa.fpdu(mpa.send(1))
    says("completion 0")
    says("established 0")
    raw.close()
    says("disconnected 0")


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
    says("post 0")
    ulp.unload()
    assert raw.ends() == b""
