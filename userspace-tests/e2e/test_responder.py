# SPDX-License-Identifier: GPL-2.0
"""The responder against a raw initiator: octets and events."""

import itertools
import pathlib
import socket

import pytest

import mpa
from conftest import seconds, wait_until

LISTEN = "listen 10.77.0.2 0"
REQUEST_EVENT, END = "CONNECT_REQUEST", "DISCONNECTED"


def listen(responder, options="", family=socket.AF_INET):
    address = "10.77.0.2" if family == socket.AF_INET else "fd77::2"
    responder.do(f"listen {address} 0 {options}")
    return responder.expect("LISTENING")["port"]


def established(responder, raw, kinds="ABCD", kind="C"):
    """A p2p connection up to ESTABLISHED, with auto=accept."""
    raw.send(mpa.request(kinds, 1, 1))
    raw.receive(24)
    raw.send(mpa.RTR[kind])
    return responder.expect("ESTABLISHED", status=0)["id"]


SETS = ["".join(s) for n in (1, 2, 3) for s in itertools.combinations("BCD", n)]


@pytest.mark.parametrize("kinds", SETS)
def test_fr03_rtr09_reply_flags_are_the_offered_kinds(responder, dial, kinds):
    """RTR-06, RTR-08 to RTR-10, ENH-08."""
    port = listen(responder, "auto=accept ird=4 ord=4")
    raw = dial(port)
    raw.send(mpa.request("A" + kinds, 4, 4))
    assert raw.receive(24) == mpa.reply("A" + kinds, 4, 4)
    raw.send(mpa.RTR[kinds[0]])
    if kinds[0] == "D":
        assert raw.receive(20) == mpa.READ_RESPONSE
    responder.expect("ESTABLISHED", status=0)
    responder.nothing("WC", 0.05)  # RTR-19, ENH-14: no completion caused by set-up


@pytest.mark.parametrize("crc", [False, True], ids=["no-crc", "crc"])
@pytest.mark.parametrize("kind", "BCD")
def test_rtr18_each_kind_establishes_and_opens_the_fence(responder, dial, kind, crc):
    """MPA-14, RTR-18, A-32: work posted right after accept stays off the wire until the RTR.

    MPA-19 where C=1, MPA-26, MPA-37, RTR-21: the octets behind the Reply.
    """
    port = listen(responder, "auto=accept ird=4 ord=4 sends=3 size=8")
    raw = dial(port)
    flags = mpa.FLAG_S | (mpa.FLAG_C if crc else 0)
    raw.send(mpa.request("ABCD", 4, 4, flags=flags))
    assert raw.receive(24) == mpa.reply("ABCD", 4, 4, flags=flags)
    raw.silent()
    responder.nothing("ESTABLISHED", 0.05)
    raw.send((mpa.RTR_CRC if crc else mpa.RTR)[kind])
    if kind == "D":
        assert raw.receive(20) == (mpa.READ_RESPONSE_CRC if crc else mpa.READ_RESPONSE)
    responder.expect("ESTABLISHED", status=0)
    for msn in (1, 2, 3):
        octets = raw.receive(2 + 18 + 8 + 4)
        assert octets[:14] == bytes.fromhex("001a 4143 00000000 00000000") + \
            msn.to_bytes(4, "big")[:2]
        assert octets == mpa.fpdu(octets[2:28], crc)
        assert int.from_bytes(octets[12:16], "big") == msn


@pytest.mark.parametrize("make", [
    lambda: mpa.request("", 4, 4), lambda: mpa.request_rev1(),
    lambda: mpa.frame(mpa.REQUEST_KEY, 0, 2)], ids=["client-server", "rev1", "rev2-plain"])
def test_mpa14_fence_without_peer_to_peer(responder, dial, make):
    """MPA-14, ENH-03, ENH-09, RTR-07, AMB-24, A-32: ESTABLISHED at the Reply, sends held until
    the first FPDU; MPA-35: and the peer's end is told.
    """
    port = listen(responder, "auto=accept ird=4 ord=4 sends=2 size=8")
    raw = dial(port)
    request = make()
    raw.send(request)
    reply = raw.receive(len(request))
    assert reply[:16] == mpa.REPLY_KEY and reply[16:] == request[16:]
    number = responder.expect("ESTABLISHED", status=0)["id"]
    raw.silent()
    raw.send(mpa.fpdu(mpa.send(1, b"hello!!!")))
    assert raw.receive(32)[2:4] == b"\x41\x43"
    assert raw.receive(32)[2:4] == b"\x41\x43"
    assert responder.expect("WC", opcode="RECV")["data"] == b"hello!!!".hex()
    raw.close()
    responder.expect(END, id=number)


def test_amb02_send_rtr_takes_no_receive(responder, dial):
    """RTR-22: the next Send has MSN 2 and is the first the application sees."""
    port = listen(responder, "auto=accept recvs=1")
    raw = dial(port)
    established(responder, raw, "AB", "B")
    raw.send(mpa.fpdu(mpa.send(2, b"data")))
    assert responder.expect("WC")["data"] == b"data".hex()


def test_t13_rtr_one_octet_at_a_time(responder, dial):
    """MPA-11, MPA-38, RTR-18, RTR-21."""
    port = listen(responder, "auto=accept")
    raw = dial(port)
    raw.send(mpa.request("ACD", 1, 1))
    raw.receive(24)
    for octet in mpa.RTR["D"][:-1]:
        raw.send(bytes([octet]))
    responder.nothing("ESTABLISHED", 0.1)
    raw.send(mpa.RTR["D"][-1:])
    assert raw.receive(20) == mpa.READ_RESPONSE
    responder.expect("ESTABLISHED", status=0)


def test_fr19_request_split_at_every_offset(responder, dial):
    port = listen(responder, "auto=accept")
    request = mpa.request("ACD", 1, 1, b"split")
    for offset in range(1, len(request)):
        raw = dial(port)
        raw.send(request[:offset])
        raw.send(request[offset:])
        assert raw.receive(24)[:16] == mpa.REPLY_KEY
        assert responder.expect(REQUEST_EVENT)["private_data"] == b"split".hex()
        raw.send(mpa.RTR["C"])
        responder.expect("ESTABLISHED", status=0)
        raw.close()
        responder.expect(END)


BAD_REQUESTS = {
    "reply-key": mpa.frame(mpa.REPLY_KEY, mpa.FLAG_S, 2, mpa.enhanced("", 1, 1)),
    "junk": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "rev0": mpa.frame(mpa.REQUEST_KEY, 0, 0),
    "rev3": mpa.frame(mpa.REQUEST_KEY, 0, 3),
    "rev255": mpa.frame(mpa.REQUEST_KEY, 0, 255),
    "pd513": mpa.frame(mpa.REQUEST_KEY, 0, 1, length=513),
    "pd65535": mpa.frame(mpa.REQUEST_KEY, 0, 1, length=65535),
    "short0": mpa.frame(mpa.REQUEST_KEY, mpa.FLAG_S, 2),
    "short3": mpa.frame(mpa.REQUEST_KEY, mpa.FLAG_S, 2, b"abc"),
    "trailing": mpa.request("ACD", 1, 1) + b"x",
    "fpdu-behind": mpa.request("ACD", 1, 1) + mpa.RTR["C"],
}


@pytest.mark.parametrize("name", BAD_REQUESTS)
def test_fr20_malformed_requests_are_closed_without_a_word(responder, dial, name):
    """MPA-03, MPA-08, MPA-15, MPA-25, AMB-09, AMB-19; the listener lives on."""
    port = listen(responder, "auto=accept")
    raw = dial(port)
    raw.send(BAD_REQUESTS[name])
    assert raw.ends() == b""
    responder.nothing(REQUEST_EVENT, 0.05)
    established(responder, dial(port))


@pytest.mark.parametrize("cut", [0, 1, 19, 20, 22])
@pytest.mark.parametrize("how", ["close", "reset"])
def test_t6_a_peer_that_goes_early_leaves_the_listener(responder, dial, cut, how):
    """SEC-10."""
    port = listen(responder, "auto=accept")
    raw = dial(port)
    raw.send(mpa.request("ACD", 1, 1)[:cut] or b"")
    getattr(raw, how)()
    established(responder, dial(port))
    assert len([e for e in responder.seen if e["event"] == REQUEST_EVENT]) == 1


def test_t7_request_timeout(responder, dial, set_parameter):
    """MPA-07, MPA-29, MPA-30: silent or dripping, the step as a whole is bounded."""
    set_parameter(request_timeout_ms=200)
    port = listen(responder, "auto=accept")
    silent, slow = dial(port), dial(port)
    slow.send(b"M")
    slow.send(b"P")
    assert silent.ends() == b""
    assert slow.ends() == b""
    established(responder, dial(port))


@pytest.mark.parametrize("how", ["silence", "fin", "rst", "terminate", "garbage", "t10-zeros",
                                 "bad-crc"])
def test_l5_death_before_the_rtr(responder, dial, set_parameter, how):
    """T9 to T12, AMB-04: ESTABLISHED with a status, then DISCONNECTED; no Terminate.

    MPA-14, MPA-31, SEC-10, TERM-09, TERM-10.
    """
    set_parameter(rtr_timeout_ms=200)
    port = listen(responder, "auto=accept sends=2")
    raw = dial(port)
    crc = how == "bad-crc"
    raw.send(mpa.request("ACD", 1, 1, flags=mpa.FLAG_S | (mpa.FLAG_C if crc else 0)))
    raw.receive(24)
    if how == "fin":
        raw.sock.shutdown(socket.SHUT_WR)
    elif how == "rst":
        raw.reset()
    elif how == "terminate":
        raw.send(mpa.TERMINATE_RTR)
    elif how == "garbage":
        # A valid FPDU with a wrong header is answered, header and all (SEC-07, TERM-12).
        raw.send(mpa.fpdu(bytes(18)))
        assert raw.rest() == mpa.fpdu(mpa.untagged(
            mpa.OP_TERMINATE, 2, 1, bytes.fromhex("1206c000 0012") + bytes(18)))
    elif how == "t10-zeros":
        # A bare FPDU, too short for a header, as B was not in our Reply (AMB-01).
        raw.send(bytes(16))
        assert raw.rest() == mpa.terminate(0, 2, 0xff)
    elif how == "bad-crc":
        raw.send(mpa.RTR["C"])
    if how not in ("rst", "garbage", "t10-zeros"):
        assert raw.ends() == b""
    event = responder.expect("ESTABLISHED")
    assert event["status"] == {"silence": -110, "garbage": -71, "t10-zeros": -71,
                               "bad-crc": -71}.get(how, -104)
    responder.expect(END, id=event["id"])
    for _ in range(2):
        assert responder.expect("WC", opcode="?")["status"] == 5  # flushed, once each


def test_rejects_with_enhanced_data_and_private_data(responder, dial):
    """MPA-09, MPA-10, ENH-08, AMB-05, AMB-20."""
    port = listen(responder, "auto=reject pd=6e6f")
    raw = dial(port)
    raw.send(mpa.request("AC", 4, 8))
    assert raw.rest() == mpa.reply("AC", 8, 4, b"no", mpa.FLAG_S | mpa.FLAG_R)
    raw = dial(port)
    raw.send(mpa.request_rev1())
    assert raw.rest() == mpa.reply_rev1(b"no", mpa.FLAG_R)


def test_markers_are_rejected_by_the_provider(responder, dial):
    """Instead of MPA-17."""
    port = listen(responder, "auto=accept")
    raw = dial(port)
    raw.send(mpa.request("AC", 4, 8, flags=mpa.FLAG_S | mpa.FLAG_M))
    octets = raw.rest()
    assert octets[16] == mpa.FLAG_S | mpa.FLAG_R and len(octets) == 24
    responder.nothing(REQUEST_EVENT, 0.05)


def test_enh11_switched_off(responder, dial, set_parameter):
    """ENH-11, F9: by RST, so that the peer falls back."""
    set_parameter(accept_enhanced="N")
    port = listen(responder, "auto=accept")
    raw = dial(port)
    raw.send(mpa.request("ACD", 1, 1))
    with pytest.raises(ConnectionResetError):
        raw.rest()
    raw = dial(port)
    raw.send(mpa.request_rev1())
    assert raw.receive(20) == mpa.reply_rev1()


@pytest.mark.parametrize("length", [0, 1, 251, 252, 254, 255])
def test_private_data_both_ways(responder, dial, length):
    """T20, MPA-16, ENH-15."""
    data = bytes(n * 7 % 256 for n in range(length))
    port = listen(responder, f"auto=accept pd={data.hex()}" if length else "auto=accept")
    raw = dial(port)
    raw.send(mpa.request("AC", 1, 1, data))
    assert raw.receive(24 + length) == mpa.reply("AC", 1, 1, data)
    event = responder.expect(REQUEST_EVENT)
    assert event["private_data"] == data.hex()
    raw.send(mpa.RTR["C"])
    responder.expect("ESTABLISHED", status=0)


def test_fs03_more_private_data_than_rdma_cm_carries(responder, dial):
    port = listen(responder, "auto=accept")
    raw = dial(port)
    raw.send(mpa.request("AC", 1, 1, bytes(256)))
    assert raw.rest()[16] & mpa.FLAG_R
    responder.nothing(REQUEST_EVENT, 0.05)
    established(responder, dial(port))


def test_n4_read_rtr_raises_ird(responder, dial):
    """NEG-04; T17, FR-05: the application asked for 0."""
    port = listen(responder, "auto=accept ird=0 ord=0")
    raw = dial(port)
    raw.send(mpa.request("AD", 0, 0))
    assert raw.receive(24) == mpa.reply("AD", 1, 0)
    raw.send(mpa.RTR["D"])
    assert raw.receive(20) == mpa.READ_RESPONSE
    responder.expect("ESTABLISHED", status=0)


def test_r_and_reserved_bits_are_not_echoed(responder, dial):
    """T15, T16, MPA-23, MPA-24."""
    port = listen(responder, "auto=accept")
    raw = dial(port)
    raw.send(mpa.request_rev1(flags=mpa.FLAG_R | 0x1f))
    assert raw.receive(20) == mpa.reply_rev1()
    raw = dial(port)
    raw.send(mpa.request("AC", 1, 1, flags=mpa.FLAG_S | 0x0f))
    assert raw.receive(24) == mpa.reply("AC", 1, 1)


def test_a_large_first_message_opens_the_fence(responder, dial):
    """AMB-18: any valid FPDU will do, however long, and it stays in the stream."""
    port = listen(responder, "auto=accept size=60000 sends=1")
    raw = dial(port)
    raw.send(mpa.request("", 1, 1))
    raw.receive(24)
    responder.expect("ESTABLISHED", status=0)
    payload = bytes(n % 251 for n in range(50000))
    octets = mpa.fpdu(mpa.send(1, payload))
    raw.send(octets[:30000])
    raw.silent()
    raw.send(octets[30000:])
    assert responder.expect("WC", opcode="RECV")["data"] == payload.hex()
    assert raw.receive(4)[2:4] in (b"\x41\x43", b"\x01\x43")


def test_ipv6(responder, dial):
    port = listen(responder, "auto=accept", socket.AF_INET6)
    established(responder, dial(port, socket.AF_INET6))


def test_second_of_silence_is_no_end_for_client_server(responder, dial):
    """A fence without a timer costs little and survives."""
    port = listen(responder, "auto=accept sends=1 size=8")
    raw = dial(port)
    raw.send(mpa.request("", 1, 1))
    raw.receive(24)
    raw.silent(1.3)
    raw.send(mpa.RTR["C"])
    assert raw.receive(32)[2:4] == b"\x41\x43"


def test_application_ends_behind_a_closed_fence(responder, dial):
    """rdma_disconnect of a client-server connection that has sent nothing."""
    port = listen(responder, "auto=accept sends=2")
    raw = dial(port)
    raw.send(mpa.request("", 1, 1))
    raw.receive(24)
    number = responder.expect("ESTABLISHED", status=0)["id"]
    responder.do(f"disconnect {number}")
    responder.expect(END, id=number)
    assert raw.ends() == b""


def test_destroy_listener_with_requests_in_flight(responder, dial):
    port = listen(responder, "")
    raws = [dial(port) for _ in range(4)]
    for raw in raws[:2]:
        raw.send(mpa.request("AC", 1, 1))
        responder.expect(REQUEST_EVENT)
    raws[2].send(b"MPA")
    responder.do("destroy 0")
    assert raws[2].ends() == b"" and raws[3].ends() == b""
    responder.do("reject 1")
    assert raws[0].receive(24)[16] & mpa.FLAG_R
    responder.do("accept 2")
    raws[1].receive(24)
    raws[1].send(mpa.RTR["C"])
    responder.expect("ESTABLISHED", status=0, timeout=seconds(10))


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_sec10_request_of_a_peer_that_has_gone_is_not_raised(responder, hostb, dial,
                                                             set_parameter, family):
    """One that was reset in TCP's backlog, where TCP forgets by whom: an application would
    be told of a request from nowhere.
    """
    in_progress = pathlib.Path(f"/sys/class/infiniband/{hostb.device}/ports/1/hw_counters"
                               "/handshakes_in_progress")
    wait_until(lambda: int(in_progress.read_text()) == 0, "no handshake to be left")
    set_parameter(max_pending=1)
    port = listen(responder, "auto=accept", family)
    first = dial(port, family)
    wait_until(lambda: int(in_progress.read_text()) == 1, "the listener to be busy")
    gone = dial(port, family)
    gone.send(mpa.request("AC", 1, 1, b"gone"))
    gone.reset()
    first.close()
    established(responder, dial(port, family))
    assert responder.expect(REQUEST_EVENT)["private_data"] == ""
    responder.nothing(REQUEST_EVENT)
