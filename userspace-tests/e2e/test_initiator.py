# SPDX-License-Identifier: GPL-2.0
"""The initiator against a raw responder: octets and events."""

import time

import pytest

import mpa
from conftest import seconds

REFUSED, RESET, TIMEDOUT = -111, -104, -110


def connect(initiator, answer, options=""):
    """rdma_connect to the raw responder, up to its accept; returns it."""
    initiator.do(f"connect 10.77.0.2 {answer.port} {options}")
    try:
        return answer()
    except TimeoutError:
        pytest.fail(f"no TCP connection came; the initiator: {initiator.all_said()}")


def the_request(raw, length=24):
    return raw.receive(length)


def ends_with(initiator, name, status=None):
    event = initiator.expect(name)
    if status is not None:
        assert event["status"] == status
    initiator.nothing("ESTABLISHED", 0.05)
    return event


def test_request_has_depths_model_and_kinds(initiator, answer):
    """MPA-06, ENH-01, RTR-01, RTR-02, NEG-01, MPA-41."""
    raw = connect(initiator, answer, "ird=32 ord=16 pd=6869")
    assert the_request(raw, 26) == mpa.request("ABCD", 32, 16, b"hi")


def test_parameters_steer_the_request(initiator, answer, set_parameter):
    """RTR-01 to RTR-03, ENH-02, ENH-10."""
    set_parameter(peer_to_peer="N")
    assert the_request(connect(initiator, answer)) == mpa.request("", 1, 1)
    set_parameter(peer_to_peer="Y", rtr="read,send", crc="Y")
    assert the_request(connect(initiator, answer)) == \
        mpa.request("ABD", 1, 1, flags=mpa.FLAG_S | mpa.FLAG_C)
    set_parameter(rev=1, crc="N")
    assert the_request(connect(initiator, answer), 20) == mpa.request_rev1()


@pytest.mark.parametrize("crc", [False, True], ids=["no-crc", "crc"])
@pytest.mark.parametrize("kind", "BCD")
def test_rtr13_sends_the_kind_of_the_reply(initiator, answer, kind, crc):
    """RTR-13, RTR-15, RTR-16, RTR-23, MPA-37; FR-06, A-33; requirements 1.5 octet for octet."""
    raw = connect(initiator, answer, "ird=4 ord=4 established=1 size=8")
    the_request(raw)
    flags = mpa.FLAG_S | (mpa.FLAG_C if crc else 0)
    raw.send(mpa.reply("A" + kind, 4, 4, b"hi", flags))
    rtr = (mpa.RTR_CRC if crc else mpa.RTR)[kind]
    assert raw.receive(len(rtr)) == rtr
    event = initiator.expect("ESTABLISHED", status=0)
    assert event["private_data"] == b"hi".hex()
    octets = raw.receive(32)
    assert int.from_bytes(octets[12:16], "big") == (2 if kind == "B" else 1)
    assert octets == mpa.fpdu(octets[2:28], crc)
    if kind == "D":
        raw.send(mpa.READ_RESPONSE_CRC if crc else mpa.READ_RESPONSE)
        initiator.do(f"read {event['id']} size=8 addr=0 rkey=1")
        read = raw.receive(52)
        assert int.from_bytes(read[12:16], "big") == 2
    completion = initiator.expect("WC", opcode="SEND")
    assert completion["status"] == 0


@pytest.mark.parametrize("kinds,kind", [("BC", "C"), ("BD", "D"), ("CD", "C"), ("BCD", "C")])
def test_rtr_preference(initiator, answer, kinds, kind):
    """RTR-13."""
    raw = connect(initiator, answer)
    the_request(raw)
    raw.send(mpa.reply("A" + kinds, 1, 1))
    assert raw.receive(len(mpa.RTR[kind])) == mpa.RTR[kind]
    initiator.expect("ESTABLISHED", status=0)


def test_fr12_depths_of_established(initiator, answer):
    """NEG-09, A-42: the peer's values, as rdma_get_cm_event(3) words them."""
    raw = connect(initiator, answer, "ird=8 ord=8")
    the_request(raw)
    raw.send(mpa.reply("AC", 3, 5))
    raw.receive(20)
    event = initiator.expect("ESTABLISHED", status=0)
    assert event["initiator_depth"] == 3 and event["responder_resources"] == 5


CLOSED = {
    "request-key": (mpa.frame(mpa.REQUEST_KEY, mpa.FLAG_S, 2, mpa.enhanced("AC", 1, 1)), -71),
    "ssh-banner": (b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", -71),
    "s0-accept": (mpa.frame(mpa.REPLY_KEY, 0, 2), -71),
    "rev1-accept": (mpa.reply_rev1(), -71),
    "t1-short0": (mpa.frame(mpa.REPLY_KEY, mpa.FLAG_S, 2), -71),
    "short3": (mpa.frame(mpa.REPLY_KEY, mpa.FLAG_S, 2, b"abc"), -71),
    "rev0": (mpa.frame(mpa.REPLY_KEY, mpa.FLAG_S, 0, bytes(4)), -71),
    "rev3": (mpa.frame(mpa.REPLY_KEY, mpa.FLAG_S, 3, bytes(4)), -71),
    "t2-pd513": (mpa.frame(mpa.REPLY_KEY, mpa.FLAG_S, 2, length=513), -71),
}


@pytest.mark.parametrize("name", CLOSED)
def test_wrong_replies_are_closed_without_a_word(initiator, answer, name):
    """MPA-04, MPA-08, SEC-02, SEC-11, AMB-09 to AMB-11; no private data is reported."""
    octets, status = CLOSED[name]
    raw = connect(initiator, answer)
    the_request(raw)
    raw.send(octets)
    assert raw.ends() == b""
    event = ends_with(initiator, "CONNECT_ERROR", status)
    assert event["private_data_len"] == 0


TERMINATED = {
    "model": (mpa.reply("", 1, 1), mpa.TERMINATE_RTR),
    "no-kind": (mpa.reply("A", 1, 1), mpa.TERMINATE_RTR),
    "ird": (mpa.reply("AC", 1, 129), mpa.TERMINATE_IRD),
    "both": (mpa.reply("", 1, 129), mpa.TERMINATE_IRD),
    "model-crc": (mpa.reply("", 1, 1, flags=mpa.FLAG_S | mpa.FLAG_C), mpa.TERMINATE_RTR_CRC),
    "ird-crc": (mpa.reply("AC", 1, 129, flags=mpa.FLAG_S | mpa.FLAG_C), mpa.TERMINATE_IRD_CRC),
    "markers": (mpa.reply("AC", 1, 1, flags=mpa.FLAG_S | mpa.FLAG_M),
                bytes(4) + mpa.TERMINATE_LOCAL),
}


@pytest.mark.parametrize("name", TERMINATED)
def test_wrong_replies_are_terminated(initiator, answer, name):
    """NEG-08, RTR-14, TERM-01 to TERM-08, TERM-10, AMB-12, AMB-23; FR-02, FR-10; A-36, A-45,
    A-46, A-47, A-54.

    RTR-24: behind the Request comes one RDMAP message, then the FIN.
    """
    octets, terminate = TERMINATED[name]
    raw = connect(initiator, answer)
    the_request(raw)
    raw.send(octets)
    assert raw.rest() == terminate  # rest() ends at a FIN, not at an RST
    ends_with(initiator, "CONNECT_ERROR")


def test_n15_read_rtr_without_a_slot(initiator, answer, set_parameter):
    """RTR-14, TERM-04; T17."""
    set_parameter(rtr="read")
    raw = connect(initiator, answer, "ird=0 ord=0")
    assert the_request(raw) == mpa.request("AD", 0, 0)
    raw.send(mpa.reply("AD", 0, 0))
    assert raw.rest() == mpa.TERMINATE_RTR
    ends_with(initiator, "CONNECT_ERROR")


def test_n4_read_rtr_with_ord_zero(initiator, answer, set_parameter):
    """RTR-17; T17, A-43."""
    set_parameter(rtr="read")
    raw = connect(initiator, answer, "ird=0 ord=0")
    the_request(raw)
    raw.send(mpa.reply("AD", 1, 0))
    assert raw.receive(52) == mpa.RTR["D"]
    initiator.expect("ESTABLISHED", status=0)


@pytest.mark.parametrize("length", [0, 1, 32, 148, 251, 252, 255])
def test_fr33_reject_with_private_data(initiator, answer, length):
    """MPA-12, AMB-20: the data is exactly the peer's; only a FIN follows."""
    data = bytes(n * 3 % 256 for n in range(length))
    raw = connect(initiator, answer)
    the_request(raw)
    raw.send(mpa.reply("AC", 1, 64, data, mpa.FLAG_S | mpa.FLAG_R))
    assert raw.rest() == b""
    event = ends_with(initiator, "REJECTED", REFUSED)
    assert event["private_data"] == data.hex()


@pytest.mark.parametrize("octets,data", [
    (mpa.frame(mpa.REPLY_KEY, mpa.FLAG_S | mpa.FLAG_R, 2, b"\xaa"), b""),
    (mpa.reply_rev1(bytes(range(8)), mpa.FLAG_R), bytes(range(8)))], ids=["t4-stump", "rev1"])
def test_odd_rejects_are_honoured(initiator, answer, octets, data):
    """SEC-11, AMB-05, FS-02, A-57."""
    raw = connect(initiator, answer)
    the_request(raw)
    raw.send(octets)
    event = ends_with(initiator, "REJECTED", REFUSED)
    assert event["private_data"] == data.hex()


def test_r12_reject_and_fin_in_one_segment(initiator, answer):
    raw = connect(initiator, answer)
    the_request(raw)
    raw.sock.setsockopt(6, 3, 1)  # TCP_CORK: the FIN takes the data along
    raw.send(mpa.reply("AC", 1, 1, b"no", mpa.FLAG_S | mpa.FLAG_R))
    raw.close()
    assert ends_with(initiator, "REJECTED", REFUSED)["private_data"] == b"no".hex()


def test_fr18_reply_split_at_every_offset(initiator, answer):
    reply = mpa.reply("AC", 1, 1, b"split")
    for offset in range(1, len(reply)):
        raw = connect(initiator, answer)
        the_request(raw)
        raw.send(reply[:offset])
        raw.send(reply[offset:])
        assert raw.receive(20) == mpa.RTR["C"]
        event = initiator.expect("ESTABLISHED", status=0)
        assert event["private_data"] == b"split".hex()
        raw.close()
        initiator.expect("DISCONNECTED")


def test_octets_behind_the_reply_are_not_lost(initiator, answer, set_parameter):
    """MPA-27, AMB-19, T18: what makes passive-first applications fail today."""
    set_parameter(peer_to_peer="N")
    raw = connect(initiator, answer, "recvs=2")
    the_request(raw)
    raw.send(mpa.reply("", 1, 1) + mpa.fpdu(mpa.send(1, b"first")) +
             mpa.fpdu(mpa.send(2, b"second")))
    initiator.expect("ESTABLISHED", status=0)
    assert initiator.expect("WC", opcode="RECV")["data"] == b"first".hex()
    assert initiator.expect("WC", opcode="RECV")["data"] == b"second".hex()


def test_reply_data_and_fin_at_once(initiator, answer):
    """MPA-35: the data is delivered, then the end; nothing is left hanging."""
    raw = connect(initiator, answer, "recvs=1")
    the_request(raw)
    raw.send(mpa.reply("AC", 1, 1) + mpa.fpdu(mpa.send(1, b"bye")))
    raw.sock.shutdown(1)
    initiator.expect("ESTABLISHED", status=0)
    assert initiator.expect("WC", opcode="RECV")["data"] == b"bye".hex()
    initiator.expect("DISCONNECTED")


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("octets", [b"", mpa.REPLY_KEY + b"\x10\x02\x01",
                                    mpa.REPLY_KEY + b"\x10\x02\x01\x00"],
                         ids=["nothing", "t3-19", "t5-header"])
def test_loss_before_the_reply(initiator, answer, how, octets):
    raw = connect(initiator, answer)
    the_request(raw)
    raw.send(octets)
    getattr(raw, how)()
    assert ends_with(initiator, "REJECTED", RESET)["private_data_len"] == 0


@pytest.mark.parametrize("how", ["close", "reset"])
def test_fr08_one_fallback_to_rev1(initiator, answer, set_parameter, how):
    """ENH-12, A-44: once, with the same private data, and never again."""
    set_parameter(fallback="Y")
    raw = connect(initiator, answer, "pd=6869")
    the_request(raw, 26)
    getattr(raw, how)()
    raw = answer()
    assert the_request(raw, 22) == mpa.request_rev1(b"hi")
    raw.send(mpa.reply_rev1(b"ok"))
    event = initiator.expect("ESTABLISHED", status=0)
    assert event["private_data"] == b"ok".hex()
    raw = connect(initiator, answer)
    the_request(raw)
    getattr(raw, how)()
    raw = answer()
    the_request(raw, 20)
    getattr(raw, how)()
    ends_with(initiator, "REJECTED", RESET)


def test_reply_timeout(initiator, answer, set_parameter):
    """MPA-30: over the whole step, dripping does not help."""
    set_parameter(reply_timeout_ms=300)
    raw = connect(initiator, answer)
    the_request(raw)
    raw.send(mpa.REPLY_KEY)
    initiator.expect("CONNECT_RETURNED", errno=0)
    ends_with(initiator, "UNREACHABLE", TIMEDOUT)


def test_connect_never_waits_for_the_network(initiator, hostb, set_parameter):
    """Done when 5: packets are dropped, the call returns, the event comes in time."""
    set_parameter(connect_timeout_ms=700)
    hostb.run("nft", "add table inet hole; add chain inet hole in "
              "{ type filter hook input priority 0; }; "
              "add rule inet hole in tcp dport 7999 drop")
    try:
        begun = time.monotonic()
        initiator.do("connect 10.77.0.2 7999")
        returned = initiator.expect("CONNECT_RETURNED", errno=0)
        assert returned["ms"] < 100 * seconds(1)
        ends_with(initiator, "UNREACHABLE", TIMEDOUT)
        assert time.monotonic() - begun >= 0.7
    finally:
        hostb.run("nft", "delete table inet hole")


def test_fr35_refused_port(initiator):
    initiator.do("connect 10.77.0.2 7998")
    initiator.expect("CONNECT_RETURNED", errno=0)
    ends_with(initiator, "REJECTED", RESET)


def test_destroy_while_connecting(initiator, answer, set_parameter):
    """The QP goes first, and ends the handshake at once."""
    set_parameter(reply_timeout_ms=20000)
    raw = connect(initiator, answer)
    the_request(raw)
    begun = time.monotonic()
    initiator.do("destroy 0")
    assert raw.ends() == b""
    assert time.monotonic() - begun < seconds(5)
