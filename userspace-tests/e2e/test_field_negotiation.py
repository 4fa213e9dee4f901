# SPDX-License-Identifier: GPL-2.0
"""Cases from the field: Rev 2, depths, frames that are wrong, and the first message."""

import pytest

import mpa
from field import both_up, often, take
from test_initiator import REFUSED, RESET, connect, ends_with, the_request
from test_responder import listen
from test_visibility import counters_at_rest

pytestmark = pytest.mark.slow

SENDS = 64
READ_LEN = 2 + 46 + 4
PROTOCOL = -71
# The most that the tests' devices take and give.
MOST = 128


# ---- depths and kinds ----

def test_fr02_a_depth_beyond_ours_is_terminated(hosta, initiator, answer):
    """In the work that has the endpoint's lock, time and again: one event, nothing left."""
    rounds = often(10, 1000, 5)
    counters = counters_at_rest(hosta.device)
    for _ in range(rounds):
        raw = connect(initiator, answer)
        the_request(raw)
        raw.send(mpa.reply("AC", 1, MOST + 1))
        assert raw.rest() == mpa.TERMINATE_IRD
        raw.close()
        ends_with(initiator, "CONNECT_ERROR", PROTOCOL)
        initiator.nothing("CONNECT_ERROR", 0)
        initiator.reset()
    assert counters.ended("initiator") == {"failed_negotiation": rounds}


@pytest.mark.parametrize("bit", range(4))
def test_fr02_reserved_bits_are_neither_read_nor_echoed(responder, initiator, dial, answer, bit):
    """In a Request and in a Reply."""
    port = listen(responder, "auto=accept")
    raw = dial(port)
    raw.send(mpa.request("AC", 1, 1, flags=mpa.FLAG_S | 1 << bit))
    assert raw.receive(24) == mpa.reply("AC", 1, 1)
    raw.send(mpa.RTR["C"])
    responder.expect("ESTABLISHED", status=0)
    raw = connect(initiator, answer)
    the_request(raw)
    raw.send(mpa.reply("AC", 1, 1, flags=mpa.FLAG_S | 1 << bit))
    assert raw.receive(20) == mpa.RTR["C"]
    initiator.expect("ESTABLISHED", status=0)


def test_fr12_each_end_sees_the_depths_of_the_other(initiator, responder):
    """Not those that the device could have."""
    port = listen(responder, "auto=accept ird=2 ord=4")
    initiator.do(f"connect 10.77.0.2 {port} ird=4 ord=2")
    request = responder.expect("CONNECT_REQUEST")
    assert (request["initiator_depth"], request["responder_resources"]) == (4, 2)
    event = initiator.expect("ESTABLISHED", status=0)
    assert (event["initiator_depth"], event["responder_resources"]) == (2, 4)


# NVMe's: 32 octets of its own; IRD 32, ORD 1, a Read as RTR.
NVME_REQUEST = b"MPA ID Req Frame" + bytes.fromhex("10020024 8020 4001") + bytes(range(32))
# The responder serves the one Read that is asked for, and may ask for 32.
NVME_REPLY = b"MPA ID Rep Frame" + bytes.fromhex("10020004 8001 4020")


def test_fr04_peer_to_peer_is_answered_with_peer_to_peer(responder, dial):
    """A=1 and D=1 come back; each depth is in the other's place."""
    port = listen(responder, "auto=accept ird=1 ord=32")
    raw = dial(port)
    raw.send(NVME_REQUEST)
    assert raw.receive(24) == NVME_REPLY
    assert responder.expect("CONNECT_REQUEST")["private_data"] == bytes(range(32)).hex()
    raw.send(mpa.RTR["D"])
    assert raw.receive(20) == mpa.READ_RESPONSE
    responder.expect("ESTABLISHED", status=0)


def test_fr05_the_only_kind_offered_is_in_the_reply(responder, dial):
    """D; the Read is answered without data, and then the QP sends and receives."""
    port = listen(responder, "auto=accept recvs=1 size=8")
    raw = dial(port)
    raw.send(mpa.request("AD", 1, 1))
    assert raw.receive(24) == mpa.reply("AD", 1, 1)
    raw.send(mpa.RTR["D"])
    assert raw.receive(20) == mpa.READ_RESPONSE
    number = responder.expect("ESTABLISHED", status=0)["id"]
    raw.send(mpa.fpdu(mpa.send(1, b"received")))
    assert take(responder, "RECV", 1)[0]["data"] == b"received".hex()
    responder.do(f"send {number} size=8")
    assert raw.receive(32) == mpa.fpdu(mpa.send(1, bytes([1] * 8)))
    take(responder, "SEND", 1)


@pytest.mark.parametrize("offer,granted", [("write,read", "D"), ("write,read", "C"),
                                           ("write,read,send", "B"), ("write,read", "")])
def test_fr06_the_reply_decides_and_not_the_offer(initiator, answer, set_parameter, offer,
                                                  granted):
    """The first FPDU is of the kind that was granted; with none, a Terminate."""
    set_parameter(rtr=offer)
    raw = connect(initiator, answer)
    assert the_request(raw) == mpa.request("ABCD" if "send" in offer else "ACD", 1, 1)
    raw.send(mpa.reply("A" + granted, 1, 1))
    if granted:
        assert raw.receive(len(mpa.RTR[granted])) == mpa.RTR[granted]
        initiator.expect("ESTABLISHED", status=0)
    else:
        assert raw.rest() == mpa.TERMINATE_RTR
        ends_with(initiator, "CONNECT_ERROR", PROTOCOL)


@pytest.mark.parametrize("kind,at", [("C", (4,)), ("D", (20, 36))])
def test_fr07_the_rtr_names_no_stag_zero(initiator, answer, kind, at):
    """There are peers whose hardware looks it up."""
    raw = connect(initiator, answer)
    the_request(raw)
    raw.send(mpa.reply("A" + kind, 1, 1))
    rtr = raw.receive(len(mpa.RTR[kind]))
    for offset in at:  # a Read has two, of its sink and of its source
        assert rtr[offset:offset + 4] != bytes(4)
    initiator.expect("ESTABLISHED", status=0)


@pytest.mark.parametrize("stag", [0, 1, 0xffffffff])
@pytest.mark.parametrize("kind", "CD")
def test_fr07_any_stag_is_taken(responder, dial, kind, stag):
    """Of an RTR without data, which reads and writes no memory."""
    port = listen(responder, "auto=accept")
    raw = dial(port)
    raw.send(mpa.request("A" + kind, 1, 1))
    raw.receive(24)
    if kind == "C":
        raw.send(mpa.fpdu(mpa.tagged(mpa.OP_WRITE, stag)))
    else:
        raw.send(mpa.fpdu(mpa.read_request(1, sink_stag=stag, source_stag=stag)))
        assert raw.receive(20) == mpa.fpdu(mpa.tagged(mpa.OP_READ_RESPONSE, stag))
    responder.expect("ESTABLISHED", status=0)
    responder.nothing("WC", 0.05)


# ---- frames that are wrong, or odd ----

@pytest.mark.parametrize("length", range(4))
def test_fs01_a_reply_without_its_enhanced_data(initiator, answer, length):
    """S=1, and fewer than its four octets: closed, and no octet of something else is read."""
    raw = connect(initiator, answer)
    the_request(raw)
    raw.send(mpa.frame(mpa.REPLY_KEY, mpa.FLAG_S, 2, bytes([0xaa] * length)))
    assert raw.ends() == b""
    assert ends_with(initiator, "CONNECT_ERROR", PROTOCOL)["private_data"] == ""


@pytest.mark.parametrize("length", range(4))
def test_fs02_a_reject_without_its_enhanced_data(initiator, answer, length):
    """It is a reject, with no octet for the application."""
    raw = connect(initiator, answer)
    the_request(raw)
    raw.send(mpa.frame(mpa.REPLY_KEY, mpa.FLAG_S | mpa.FLAG_R, 2, bytes([0xaa] * length)))
    event = ends_with(initiator, "REJECTED", REFUSED)
    assert (event["private_data_len"], event["private_data"]) == (0, "")


@pytest.mark.parametrize("ird,ord_,shown", [
    (255, 255, (255, 255)), (256, 256, (255, 255)), (0x3ffe, 1, (255, 1)),
    (1, 0x3ffe, (1, 255)), (0x1ff, 0x100, (255, 255))])
def test_fs03_depths_that_an_event_has_no_room_for(responder, dial, ird, ord_, shown):
    """It has 8 bits for 14: what is too much is the most, and never wraps."""
    port = listen(responder, "auto=accept")
    raw = dial(port)
    raw.send(mpa.request("AC", ird, ord_))
    raw.receive(24)
    event = responder.expect("CONNECT_REQUEST")
    assert (event["initiator_depth"], event["responder_resources"]) == shown


@pytest.mark.parametrize("ird,ord_,reply,shown", [
    (mpa.NO_NEGOTIATION, mpa.NO_NEGOTIATION, (mpa.NO_NEGOTIATION, mpa.NO_NEGOTIATION),
     (MOST, MOST)),
    (mpa.NO_NEGOTIATION, 5, (5, mpa.NO_NEGOTIATION), (MOST, 5)),
    (5, mpa.NO_NEGOTIATION, (mpa.NO_NEGOTIATION, 4), (5, MOST))])
def test_fs05_depths_that_are_left_open(responder, dial, ird, ord_, reply, shown):
    """0x3fff is no number: it is answered in kind, and the application sees what this end has
    by itself.
    """
    port = listen(responder, "auto=accept ird=4 ord=4")
    raw = dial(port)
    raw.send(mpa.request("AC", ird, ord_))
    assert raw.receive(24) == mpa.reply("AC", *reply)
    event = responder.expect("CONNECT_REQUEST")
    assert (event["initiator_depth"], event["responder_resources"]) == shown
    raw.send(mpa.RTR["C"])
    responder.expect("ESTABLISHED", status=0)


@pytest.mark.parametrize("fallback", "NY")
def test_fs06_answers_of_a_peer_that_has_rev1_only(initiator, answer, set_parameter, fallback):
    """A Rev 1 accept of a Rev 2 Request is an error, a Rev 1 reject is a reject. What such a
    peer should do, and does, is to close: then there is one more try with Rev 1, if the
    administrator wants it, and no third one.
    """
    set_parameter(fallback=fallback)
    raw = connect(initiator, answer)
    the_request(raw)
    raw.send(mpa.reply_rev1())
    assert raw.ends() == b""
    ends_with(initiator, "CONNECT_ERROR", PROTOCOL)
    raw = connect(initiator, answer)
    the_request(raw)
    raw.send(mpa.reply_rev1(b"no", mpa.FLAG_R))
    assert ends_with(initiator, "REJECTED", REFUSED)["private_data"] == b"no".hex()
    raw = connect(initiator, answer)
    the_request(raw)
    raw.reset()
    if fallback == "Y":
        raw = answer()
        assert raw.receive(20) == mpa.request_rev1()
        raw.reset()
    ends_with(initiator, "REJECTED", RESET)
    initiator.reset()
    # None of these comes again.
    answer.listener.settimeout(0.1)
    with pytest.raises(TimeoutError):
        answer()


def test_fs07_an_offer_of_no_kind_is_answered_with_ours(responder, dial, set_parameter):
    """A responder says which kinds it takes (RFC 6581, section 9.2), so an initiator that has
    offered none may still use one of them.
    """
    set_parameter(rtr="read,send")
    port = listen(responder, "auto=accept")
    raw = dial(port)
    raw.send(mpa.request("A", 1, 1))
    assert raw.receive(24) == mpa.reply("ABD", 1, 1)
    raw.send(mpa.RTR["D"])
    assert raw.receive(20) == mpa.READ_RESPONSE
    responder.expect("ESTABLISHED", status=0)


def splits(octets):
    """Both parts, for every place in between."""
    return [(octets[:at], octets[at:]) for at in range(1, len(octets))]


def test_fs10_rev1_frames_split_at_every_offset(responder, initiator, dial, answer,
                                                set_parameter):
    """As FR-18 and FR-19, with the shorter header of that revision."""
    port = listen(responder, "auto=accept")
    for first, second in splits(mpa.request_rev1(b"ab")):
        raw = dial(port)
        raw.send(first)
        raw.send(second)
        assert raw.receive(20) == mpa.reply_rev1()
        assert responder.expect("CONNECT_REQUEST")["private_data"] == b"ab".hex()
        responder.expect("ESTABLISHED", status=0)
        raw.close()
    set_parameter(rev=1)
    for first, second in splits(mpa.reply_rev1(b"ab")):
        raw = connect(initiator, answer)
        the_request(raw, 20)
        raw.send(first)
        raw.send(second)
        assert initiator.expect("ESTABLISHED", status=0)["private_data"] == b"ab".hex()
        raw.close()
    assert len([event for event in responder.seen if event["event"] == "CONNECT_REQUEST"]) == 0


@pytest.mark.parametrize("crc", [False, True], ids=["no-crc", "crc"])
@pytest.mark.parametrize("ord_,kinds,code", [(MOST + 1, "AC", 6), (1, "A", 7), (1, "", 7)],
                         ids=["ird", "no-kind", "model"])
def test_fs12_a_terminate_is_on_the_wire(initiator, answer, ord_, kinds, code, crc):
    """Layer 2, type 0, and the code, behind headers that a receiver can check: written out
    here, so that no helper of the tests can be wrong in the same way. Then a FIN.
    """
    raw = connect(initiator, answer)
    the_request(raw)
    raw.send(mpa.reply(kinds, 1, ord_, flags=mpa.FLAG_S | (mpa.FLAG_C if crc else 0)))
    octets = raw.rest()
    assert octets[:24] == bytes.fromhex("0016 4147 00000000 00000002 00000001 00000000 20") + \
        bytes([code, 0, 0])
    assert octets[24:] == (mpa.crc32c(octets[:24]).to_bytes(4, "little") if crc else bytes(4))
    ends_with(initiator, "CONNECT_ERROR", PROTOCOL)


# ---- the first message, and the depths of use ----

def expect_in_order(agent, number):
    """SENDS messages arrived as they were posted, and those of its own have left."""
    for opcode in ("RECV", "SEND"):
        completions = take(agent, opcode, SENDS)
        assert {completion["id"] for completion in completions} == {number}
        if opcode == "RECV":
            # Every octet of a message tells its place.
            assert [completion["data"] for completion in completions] == [
                bytes([place] * 8).hex() for place in range(1, SENDS + 1)]


def test_fr11_both_sides_send_at_once(initiator, responder):
    """Each posts all it has in the handler of ESTABLISHED, as MPI libraries do; nothing is
    lost, overtaken or refused.
    """
    options = f"recvs={SENDS} depth=128 established={SENDS} size=8"
    port = listen(responder, f"auto=accept {options}")
    for done in range(often(5, 10000, 2)):
        initiator.tell(f"connect 10.77.0.2 {port} {options}")
        ours, theirs = both_up(initiator, responder)
        expect_in_order(initiator, ours)
        expect_in_order(responder, theirs)
        initiator.do(f"disconnect {ours}")
        initiator.expect("DISCONNECTED", id=ours)
        responder.expect("DISCONNECTED", id=theirs)
        initiator.do(f"destroy {ours}")
        responder.do(f"destroy {theirs}")
        if done % 1000 == 999:  # both count their ids
            initiator.reset()
            responder.reset()
            port = listen(responder, f"auto=accept {options}")


def test_fr14_no_more_reads_than_were_agreed(responder, dial):
    """17 Reads over a depth of 16: on the wire 16, and the last when the first is answered."""
    port = listen(responder, "auto=accept ird=16 ord=16")
    raw = dial(port)
    raw.send(mpa.request("AC", 16, 0))
    assert raw.receive(24) == mpa.reply("AC", 16, 16)
    raw.send(mpa.RTR["C"])
    number = responder.expect("ESTABLISHED", status=0)["id"]
    responder.do(f"query {number}")
    assert responder.expect("QP", id=number)["max_dest_rd_atomic"] == 16
    responder.do(f"read {number} n=17 size=8 addr=0 rkey=1")
    reads = [raw.receive(READ_LEN) for _ in range(16)]
    assert [int.from_bytes(read[12:16], "big") for read in reads] == list(range(1, 17))
    raw.silent()
    for read in reads:
        stag, offset = int.from_bytes(read[20:24], "big"), int.from_bytes(read[24:32], "big")
        raw.send(mpa.fpdu(mpa.tagged(mpa.OP_READ_RESPONSE, stag, offset, bytes(8))))
    last = raw.receive(READ_LEN)
    assert int.from_bytes(last[12:16], "big") == 17
    raw.send(mpa.fpdu(mpa.tagged(mpa.OP_READ_RESPONSE, int.from_bytes(last[20:24], "big"),
                                 int.from_bytes(last[24:32], "big"), bytes(8))))
    take(responder, "READ", 17)


def test_fr14_events_and_queries_agree(initiator, responder):
    """Target with 16 Reads, initiator with a QP for as many: what the events say is what the
    QPs have. siw's query_qp has its two numbers the other way about.
    """
    port = listen(responder, "auto=accept ird=16 ord=16")
    initiator.do(f"connect 10.77.0.2 {port} ird=16 ord=0")
    request = responder.expect("CONNECT_REQUEST")
    assert (request["initiator_depth"], request["responder_resources"]) == (16, 0)
    ours, theirs = both_up(initiator, responder)
    for agent, number, inbound, outbound in ((initiator, ours, 16, 0), (responder, theirs, 16, 16)):
        agent.do(f"query {number}")
        depths = agent.expect("QP", id=number)
        assert (depths["max_rd_atomic"], depths["max_dest_rd_atomic"]) == (inbound, outbound)


@pytest.mark.parametrize("ird,ord_", [(3, 7), (7, 3), (255, 1), (1, 255), (0, 0)])
def test_fr16_depths_are_in_their_own_fields(initiator, answer, ird, ord_):
    """And the 8 octets that SMB Direct puts into its private data, its own depths, follow
    the enhanced data unchanged. What the device has caps each.
    """
    smb_direct = bytes.fromhex("0000000700000003")
    raw = connect(initiator, answer, f"ird={ird} ord={ord_} pd={smb_direct.hex()}")
    assert the_request(raw, 32) == mpa.request("ABCD", min(ird, 128), min(ord_, 128),
                                               smb_direct)
