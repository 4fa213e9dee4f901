# SPDX-License-Identifier: GPL-2.0
"""Peers that mean no good, in both roles; what applications do wrong is in
test_hostile_local.py. Names carry the ids of the cases, T for octets on the wire and A
for all else.

Throughout each test there are a listener, and a connection that was made before:
both have to work on, and a new connection has to come up (hostile.py).
"""

import os
import pathlib
import socket

import pytest

import mpa
from conftest import Agent, seconds, wait_until
from hostile import PROTOCOL, REFUSED, REQUEST_T9, RESET, TIMEDOUT, talk
from segments import ACK, FIN, PSH, URG
from test_initiator import ends_with
from test_responder import END, REQUEST_EVENT, listen
from test_visibility import COUNTERS

pytestmark = pytest.mark.slow

COUNT = int(os.environ.get("IW_COUNT", "200"))


# ---- Replies: T1 to T5 ----

def vector(text, tail=b""):
    return mpa.REPLY_KEY + bytes.fromhex(text) + tail


REPLIES = {
    "t1": vector("10020000"),
    "t2-pd513": vector("10020201", bytes(513)),
    "t2-pd65535": vector("1002ffff"),
    "a05-accept1": vector("10020001", b"\xaa"),
    "a05-accept3": vector("10020003", b"\xaa\xbb\xcc"),
    "a59-rev0": vector("00000000"),
    "t2-ssh": b"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n",
    "t2-smtp": b"220 mail.example.org ESMTP Postfix (Debian/GNU)\r\n",
}


@pytest.mark.parametrize("name", REPLIES)
def test_t1_t2_a02_a03_a48_wrong_replies(partner, name):
    """Closed without a word, CONNECT_ERROR, no private data."""
    raw = partner.asks()
    raw.send(REPLIES[name])
    raw.sock.shutdown(socket.SHUT_WR)
    assert raw.ends() == b""
    partner.ends("CONNECT_ERROR", PROTOCOL)


def test_t2_reply_that_never_becomes_whole(partner, set_parameter):
    """257 octets are announced, which is allowed, and do not come."""
    set_parameter(reply_timeout_ms=300)
    raw = partner.asks()
    raw.send(vector("10020101"))
    raw.ends()
    partner.ends("UNREACHABLE", TIMEDOUT)


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("octets", [
    vector("100201")[:19], vector("10020101"), vector("10020100"), vector("10020100", bytes(255)),
    vector("30020008", b"\xaa" * 7)], ids=["t3", "t2", "t5", "t5-255", "t5-reject"])
def test_t3_t5_a04_a06_end_inside_a_reply(partner, octets, how):
    """REJECTED as for any loss, and nothing of what had arrived, or of older memory."""
    raw = partner.asks()
    raw.send(octets)
    getattr(raw, how)()
    partner.ends("REJECTED", RESET)


@pytest.mark.parametrize("text,tail,data", [
    ("30020001", b"\xaa", b""), ("30020000", b"", b""), ("30020003", b"abc", b""),
    ("30020004", bytes(4), b""), ("30020005", bytes(4) + b"x", b"x"),
    ("20010008", bytes(range(8)), bytes(range(8))), ("20010000", b"", b"")],
    ids=["t4", "t4-0", "t4-3", "t4-4", "t4-5", "a57-rev1", "a57-rev1-0"])
def test_t4_a05_a56_a57_rejects(partner, text, tail, data):
    """Four octets come off enhanced data alone, and only where there are four."""
    raw = partner.asks()
    raw.send(vector(text, tail))
    event = ends_with(partner.initiator, "REJECTED", REFUSED)
    assert bytes.fromhex(event["private_data"]) == data
    raw.close()


# ---- the third segment: T6, T8; segments as no socket sends them ----

def test_t6_a01_ack_and_fin_as_third_segment(service, maker):
    """The listener is not touched by a child that is closed before it was accepted."""
    for _ in range(5):
        raw = maker.initiator(service.port)
        raw.connect(ACK | FIN)
        assert raw.end() in ("FIN", "RST")
    service.unasked()


@pytest.mark.parametrize("how", ["fin", "rst"])
def test_t6_a01_port_scan(service, how):
    for _ in range(20):
        raw = service.dial(service.port)
        raw.close() if how == "fin" else raw.reset()
    service.unasked()


def test_t6_a28_request_and_fin_in_the_third_segment(service, maker):
    """A whole Request and no peer any more: the application learns it from its accept."""
    raw = maker.initiator(service.port)
    raw.connect(ACK | PSH | FIN, REQUEST_T9)
    number = service.request()
    assert service.responder.expect("ERROR", id=number)["errno"] == 104
    assert raw.end() in ("FIN", "RST")


def test_t8_request_in_the_third_segment(service, maker):
    raw = maker.initiator(service.port)
    raw.connect(ACK | PSH, REQUEST_T9)
    assert raw.receive(24) == mpa.reply("AC", 1, 1)
    service.request()
    raw.send(data=mpa.RTR["C"])
    service.responder.expect("ESTABLISHED", status=0)


def test_t8_a20_third_segment_out_of_order(service, maker, set_parameter):
    """Octets with a gap before them are no octets: others go on, and the timer ends it."""
    set_parameter(request_timeout_ms=3000)
    raw = maker.initiator(service.port)
    raw.connect(ACK | PSH, REQUEST_T9[1:], at=1)
    service.connect()
    late = maker.initiator(service.port)
    late.connect(ACK | PSH, REQUEST_T9[1:], at=1)
    late.send(data=REQUEST_T9[:1])
    late.next += len(REQUEST_T9) - 1
    assert late.receive(24) == mpa.reply("AC", 1, 1)
    service.request()
    assert raw.end() in ("FIN", "RST")
    service.unasked()


def test_t8_reply_with_the_acknowledgement_of_the_syn(partner, maker):
    """A responder that speaks before it was asked: its octets count once they are in order."""
    raw = maker.responder()
    partner.initiator.do(f"connect 10.77.0.2 {raw.own[1]}")
    raw.accept()
    raw.send(ACK | PSH, mpa.reply("AC", 1, 1))
    assert raw.receive(24) == mpa.request("ABCD", 1, 1)
    assert raw.receive(20) == mpa.RTR["C"]
    partner.initiator.expect("ESTABLISHED", status=0)


# ---- drips: T7, T13 ----

def test_t7_a20_two_octets_and_silence(service, set_parameter):
    """Nobody waits for it but itself."""
    set_parameter(request_timeout_ms=4000)
    slow = [service.dial(service.port) for _ in range(8)]
    for raw in slow:
        raw.send(b"M")
        raw.send(b"P")
    service.connect()
    for raw in slow:
        assert raw.ends() == b""
    service.unasked()


def test_t7_a20_initiator_with_a_reply_in_two_parts(partner, set_parameter):
    set_parameter(reply_timeout_ms=4000)
    raw = partner.asks()
    raw.send(b"M")
    raw.send(b"P")
    partner.connect()
    partner.ends("UNREACHABLE", TIMEDOUT)
    raw.ends()


def test_t13_a31_rtr_one_octet_per_segment(service):
    raw = service.dial(service.port)
    raw.send(REQUEST_T9)
    assert raw.receive(24) == mpa.reply("AC", 1, 1)
    for octet in mpa.RTR["C"][:-1]:
        raw.send(bytes([octet]))
    service.responder.nothing("ESTABLISHED", 0.1)
    raw.send(mpa.RTR["C"][-1:])
    service.responder.expect("ESTABLISHED", status=0)
    service.request()


def test_t13_reply_one_octet_per_segment(partner):
    raw = partner.asks()
    reply = mpa.reply("AC", 1, 1, b"drip")
    for octet in reply[:-1]:
        raw.send(bytes([octet]))
    partner.initiator.nothing("ESTABLISHED", 0.1)
    raw.send(reply[-1:])
    assert raw.receive(20) == mpa.RTR["C"]
    event = partner.initiator.expect("ESTABLISHED", status=0)
    assert event["private_data"] == b"drip".hex()


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a26_many_octets_alone_and_an_end(service, partner, how):
    """However many segments came before it, the end is not lost; in each phase."""
    raw = service.dial(service.port)
    for octet in REQUEST_T9[:-1]:
        raw.send(bytes([octet]))
    getattr(raw, how)()
    service.unasked()

    raw = partner.asks()
    for octet in mpa.reply("AC", 1, 1)[:-1]:
        raw.send(bytes([octet]))
    getattr(raw, how)()
    partner.ends("REJECTED", RESET)

    raw, number = service.connect()
    for octet in mpa.fpdu(mpa.send(1, b"a26!")):
        raw.send(bytes([octet]))
    assert service.responder.expect("WC", id=number)["data"] == b"a26!".hex()
    for octet in mpa.fpdu(mpa.send(2, b"a26!"))[:-1]:
        raw.send(bytes([octet]))
    getattr(raw, how)()
    service.responder.expect(END, id=number)


# ---- between Reply and first FPDU: T9 to T12 ----

def accepted(service):
    """The exchange of T9 up to the Reply."""
    raw = service.dial(service.port)
    raw.send(REQUEST_T9)
    assert raw.receive(24) == mpa.reply("AC", 1, 1)
    service.request()
    return raw


ENDS = {
    "t9-rst": (None, b"", RESET),
    "t9-fin": (b"", b"", RESET),
    "t9-part": (mpa.RTR["C"][:-1], b"", RESET),
    "t10": (bytes(16), mpa.terminate(0, 2, 0xff), PROTOCOL),
    "t11": (mpa.TERMINATE_RTR, b"", RESET),
    "t11-other": (mpa.terminate(1, 2, 6), b"", RESET),
    "a31-octet": (b"\x00", b"", RESET),
}


@pytest.mark.parametrize("name", ENDS)
def test_t9_t10_t11_a07_a10_death_before_the_rtr(service, name):
    """ESTABLISHED with a negative status, then DISCONNECTED."""
    sent, answer, status = ENDS[name]
    raw = accepted(service)
    if sent is None:
        raw.reset()
    else:
        raw.send(sent)
        if not answer:
            raw.sock.shutdown(socket.SHUT_WR)
        assert raw.ends() == answer
    service.dies(status)


def test_t12_a22_silence_before_the_rtr(service, set_parameter):
    set_parameter(rtr_timeout_ms=200)
    raw = accepted(service)
    assert raw.ends() == b""
    service.dies(TIMEDOUT)


def test_t12_a22_application_is_killed_while_it_waits(service, hostb, dial, set_parameter):
    """iw_cm lets it wait for the handshake, so that it ends with the timer and no later."""
    set_parameter(rtr_timeout_ms=1000)
    agent = Agent(hostb)
    try:
        raw = dial(listen(agent, "auto=accept"))
        raw.send(REQUEST_T9)
        raw.receive(24)
        agent.expect(REQUEST_EVENT)
        agent.process.kill()
        agent.process.wait(timeout=seconds(3))
        assert raw.ends() == b""
    finally:
        agent.process.kill()


@pytest.mark.parametrize("what", ["destroy {}", "modify {} state=ERR"])
def test_a08_application_ends_it_before_the_rtr(service, what):
    raw = accepted(service)
    number = service.number + 1
    service.responder.do(what.format(number))
    assert raw.ends() == b""
    if what.startswith("modify"):
        service.dies(RESET)


def test_a23_rtr_right_behind_the_reply(service):
    """None of them is missed, whenever it comes."""
    raws = []
    for _ in range(25):
        raws.append(service.dial(service.port))
        raws[-1].send(REQUEST_T9)
    for raw in raws:
        raw.receive(24)
        raw.send(mpa.RTR["C"] + mpa.fpdu(mpa.send(1, b"a23!")))
    for _ in raws:
        number = service.responder.expect("ESTABLISHED", status=0)["id"]
        assert service.responder.expect("WC", id=number)["data"] == b"a23!".hex()
        service.responder.expect(REQUEST_EVENT, id=number)


def test_a09_initiator_is_flooded_from_the_reply_on(partner):
    """The Reply and the messages behind it, in segments that know no frames."""
    raw = partner.asks("recvs=32 depth=64")
    stream = mpa.reply("AC", 1, 1) + b"".join(
        mpa.fpdu(mpa.send(msn, bytes([msn]) * 40)) for msn in range(1, 33))
    for at in range(0, len(stream), 37):
        raw.send(stream[at:at + 37])
    number = partner.initiator.expect("ESTABLISHED", status=0)["id"]
    for msn in range(1, 33):
        event = partner.initiator.expect("WC", id=number)
        assert event["status"] == 0 and event["data"] == f"{msn:02x}" * 40


# ---- Requests: T14 to T19 ----

@pytest.mark.parametrize("sent,due", [
    ("10020004 bfffbfff", "10020004 bfffbfff"),
    ("20010000", "00010000"),
    ("1f020004 80018001", "10020004 80018001"),
    ("2f010000", "00010000")], ids=["t14-a38", "t15-a50", "t16-a49", "t16-rev1"])
def test_t14_t15_t16_replies(service, sent, due):
    raw = service.dial(service.port)
    raw.send(mpa.REQUEST_KEY + bytes.fromhex(sent))
    due = mpa.REPLY_KEY + bytes.fromhex(due)
    assert raw.receive(len(due)) == due
    number = service.request()
    raw.send(mpa.RTR["C"])
    service.responder.expect("ESTABLISHED", status=0, id=number)


@pytest.mark.parametrize("text,ord_", [
    ("10020004 bfff8001", 4), ("1f020004 80018001", 1), ("10020004 bffebfff", 4)],
    ids=["t14-ird", "t16", "t14-a39"])
def test_t14_t16_a39_replies_taken(partner, text, ord_):
    """Reserved bits are nothing, and our depths never grow by what a peer says."""
    raw = partner.asks("ird=4 ord=4")
    raw.send(vector(text))
    assert raw.receive(20) == mpa.RTR["C"]
    number = partner.initiator.expect("ESTABLISHED", status=0)["id"]
    partner.initiator.do(f"query {number}")
    # siw shows its queue of outbound Reads here.
    assert partner.initiator.expect("QP", id=number)["max_dest_rd_atomic"] == ord_


def test_t17_a43_read_rtr_without_an_ird(responder, service):
    """The application wants no Reads; the RTR needs one."""
    port = listen(responder, "auto=accept ird=0 ord=0")
    raw = service.dial(port)
    raw.send(mpa.REQUEST_KEY + bytes.fromhex("10020004 80004000"))
    assert raw.receive(24) == mpa.REPLY_KEY + bytes.fromhex("10020004 80014000")
    service.request()
    raw.send(mpa.RTR["D"])
    assert raw.receive(20) == mpa.READ_RESPONSE
    responder.expect("ESTABLISHED", status=0)


@pytest.mark.parametrize("behind", [mpa.RTR["C"], b"\x00", bytes(4000)])
def test_t18_octets_behind_a_request(service, behind):
    raw = service.dial(service.port)
    raw.send(REQUEST_T9 + behind)
    assert raw.ends() == b""
    service.unasked()


def allocations():
    """Objects in use in the caches of kmalloc and of TCP sockets."""
    lines = pathlib.Path("/proc/slabinfo").read_text().splitlines()[2:]
    return sum(int(line.split()[1]) for line in lines
               if line.startswith(("kmalloc-", "TCP", "sock_inode_cache")))


def test_t19_a21_peers_that_say_nothing(service, hostb, set_parameter):
    """Each is gone with its timer, and nothing of it stays."""
    set_parameter(request_timeout_ms=100)
    gauge = pathlib.Path(COUNTERS.format(hostb.device)) / "handshakes_in_progress"

    def visit(number):
        for begun in range(0, number, 50):
            raws = [service.dial(service.port) for _ in range(min(50, number - begun))]
            for index, raw in enumerate(raws):
                if index % 2:
                    raw.sock.shutdown(socket.SHUT_WR)
                assert raw.ends() == b""
                raw.close()
        wait_until(lambda: not int(gauge.read_text()), "no handshake to be left")

    number = 10 * COUNT
    visit(50)
    before = allocations()
    visit(number)
    # What runs beside us, and what caches keep per processor, is far less than
    # one object for each visitor. On the debug kernel kmemleak looks closer.
    wait_until(lambda: allocations() - before < max(number // 2, 1000), "memory to come back")


@pytest.mark.parametrize("text,answer", [
    ("80010000", "20010000"), ("00010200", None), ("00000000", None), ("10020002 0000", None),
    ("10030004 80018001", None)],
    ids=["a54-markers", "a52-pd512", "a59-rev0", "a51-stump", "rev3"])
def test_a51_a52_a54_a59_requests_that_cannot_be(service, text, answer):
    raw = service.dial(service.port)
    tail = bytes(512) if text == "00010200" else b""
    raw.send(mpa.REQUEST_KEY + bytes.fromhex(text) + tail)
    octets = raw.ends()
    service.unasked()
    if text == "00010200":  # more than rdma_cm carries: a reject that says no more
        assert octets == mpa.reply_rev1(flags=mpa.FLAG_R)
    else:
        assert octets == (mpa.REPLY_KEY + bytes.fromhex(answer) if answer else b"")


# ---- what TCP can do to a stream ----

def test_a28_message_and_fin_in_one_segment(service, partner):
    """The message first, then the end; before the fence opens and after."""
    raw = accepted(service)
    raw.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    raw.send(mpa.RTR["C"] + mpa.fpdu(mpa.send(1, b"a28!")))
    raw.sock.shutdown(socket.SHUT_WR)
    number = service.responder.expect("ESTABLISHED", status=0)["id"]
    assert service.responder.expect("WC", id=number)["data"] == b"a28!".hex()
    service.responder.expect(END, id=number)

    raw, number = service.connect()
    raw.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    raw.send(mpa.fpdu(mpa.send(1, b"a28!")))
    raw.sock.shutdown(socket.SHUT_WR)
    assert service.responder.expect("WC", id=number)["data"] == b"a28!".hex()
    service.responder.expect(END, id=number)

    raw, number = partner.connect()
    raw.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    raw.send(mpa.fpdu(mpa.send(1, b"a28!")))
    raw.sock.shutdown(socket.SHUT_WR)
    assert partner.initiator.expect("WC", id=number)["data"] == b"a28!".hex()
    partner.initiator.expect(END, id=number)


def test_a28_reject_and_fin_in_one_segment(partner):
    raw = partner.asks()
    raw.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    raw.send(mpa.reply("AC", 1, 1, b"no", mpa.FLAG_S | mpa.FLAG_R))
    raw.close()
    event = ends_with(partner.initiator, "REJECTED", REFUSED)
    assert event["private_data"] == b"no".hex()


@pytest.mark.parametrize("urgent", [1, 16, 24, 65535])
@pytest.mark.parametrize("when", ["request", "rtr", "message"])
def test_a16_urgent_data_is_not_taken(service, maker, when, urgent):
    """MPA knows no urgent data: a segment that has any is as good as lost, and the same
    octets sent again without it are taken once each.
    """
    raw = maker.initiator(service.port)
    raw.connect()

    def speak(step, octets):
        if step == when:
            raw.send(ACK | PSH | URG, octets, urgent=urgent)
            raw.is_not_acknowledged()
            raw.next -= len(octets)
        raw.send(data=octets)

    speak("request", REQUEST_T9)
    assert raw.receive(24) == mpa.reply("AC", 1, 1)
    number = service.request()
    speak("rtr", mpa.RTR["C"])
    service.responder.expect("ESTABLISHED", status=0, id=number)
    for msn in (1, 2, 3):
        speak("message", mpa.fpdu(mpa.send(msn, b"urgent??")))
        assert service.responder.expect("WC", id=number)["data"] == b"urgent??".hex()
    raw.acknowledged()


@pytest.mark.parametrize("when", ["reply", "message"])
def test_a16_urgent_data_is_not_taken_by_the_initiator(partner, maker, when):
    raw = maker.responder()
    partner.initiator.do(f"connect 10.77.0.2 {raw.own[1]}")
    raw.accept()
    assert raw.receive(24) == mpa.request("ABCD", 1, 1)

    def speak(step, octets):
        if step == when:
            raw.send(ACK | PSH | URG, octets, urgent=3)
            raw.is_not_acknowledged()
            raw.next -= len(octets)
        raw.send(data=octets)

    speak("reply", mpa.reply("AC", 1, 1))
    assert raw.receive(20) == mpa.RTR["C"]
    number = partner.initiator.expect("ESTABLISHED", status=0)["id"]
    for msn in (1, 2, 3):
        speak("message", mpa.fpdu(mpa.send(msn, b"urgent??")))
        assert partner.initiator.expect("WC", id=number)["data"] == b"urgent??".hex()


def test_a80_crc_in_a_segment_of_its_own(service):
    """Up to the first message inclusive it does not matter how a CRC is cut."""
    raw = service.dial(service.port)
    raw.send(mpa.request("AC", 1, 1, flags=mpa.FLAG_S | mpa.FLAG_C))
    assert raw.receive(24) == mpa.reply("AC", 1, 1, flags=mpa.FLAG_S | mpa.FLAG_C)
    number = service.request()
    rtr = mpa.RTR_CRC["C"]
    for octet in (rtr[:-3], rtr[-3:-1], rtr[-1:]):
        raw.send(octet)
    service.responder.expect("ESTABLISHED", status=0, id=number)
    talk(service.responder, raw, number, 1, crc=True)


def test_a82_send_of_length_zero_as_rtr_takes_no_receive(responder, service):
    port = listen(responder, "auto=accept recvs=0")
    raw = service.dial(port)
    raw.send(mpa.request("AB", 1, 1))
    assert raw.receive(24) == mpa.reply("AB", 1, 1)
    number = service.request()
    raw.send(mpa.RTR["B"])
    responder.expect("ESTABLISHED", status=0, id=number)
    responder.do(f"recv {number}")
    raw.send(mpa.fpdu(mpa.send(2, b"a82!")))
    assert responder.expect("WC", id=number)["data"] == b"a82!".hex()


def test_a25_burst_above_the_backlog(responder, dial, service):
    """Whoever waits in TCP's backlog has an answer without a further visitor."""
    port = listen(responder, "auto=accept backlog=2")
    raws = [dial(port) for _ in range(6)]
    for raw in raws:
        raw.send(REQUEST_T9)
    up = 0
    for raw in raws:
        # An application that is slow to fetch its events makes rdma_cm reject.
        if raw.receive(24) == mpa.reply("AC", 1, 1):
            raw.send(mpa.RTR["C"])
            number = responder.expect("ESTABLISHED", status=0)["id"]
            service.responder.expect(REQUEST_EVENT, id=number)
            up += 1
        else:
            assert raw.rest() == b""
    assert up >= 2
