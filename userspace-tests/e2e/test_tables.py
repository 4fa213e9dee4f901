# SPDX-License-Identifier: GPL-2.0
"""The truth tables of requirements 3.1 to 3.3 on the wire, row by row, both roles."""

import itertools
import os

import pytest

import mpa
from test_initiator import connect, the_request
from test_responder import listen
from test_visibility import details

SETS = ["".join(kinds) for size in (1, 2, 3) for kinds in itertools.combinations("BCD", size)]
PAIRS = list(itertools.product(SETS, SETS))
if int(os.environ.get("IW_COUNT", "200")) < 200:
    PAIRS = PAIRS[::8]  # each set on either side once
WORDS = {"B": "send", "C": "write", "D": "read"}


def rtr_parameter(kinds):
    """The module's parameter for a set, in the order of preference of 3.1."""
    return ",".join(WORDS[kind] for kind in "CDB" if kind in kinds)


def goes_on(initiator, raw, kind):
    """The initiator sends that RTR and is up, or, for None, Terminate 2/0/7."""
    if kind:
        assert raw.receive(len(mpa.RTR[kind])) == mpa.RTR[kind]
        initiator.expect("ESTABLISHED", status=0)
    else:
        assert raw.rest() == mpa.TERMINATE_RTR
        initiator.expect("CONNECT_ERROR", status=-71)


def replied(offered, supported):
    """P of table 3.1."""
    shared = set(offered) & set(supported)
    return "".join(sorted(shared or supported))


def chosen(offered, replied_kinds):
    """The RTR that is sent, None for a Terminate 2/0/7."""
    shared = set(offered) & set(replied_kinds)
    return next((kind for kind in "CDB" if kind in shared), None)


@pytest.mark.parametrize("offered,supported", PAIRS)
def test_rtr_pairs_as_responder(responder, dial, set_parameter, offered, supported):
    """F6, F7, RTR-06, RTR-08, RTR-09, RTR-10, RTR-12, A-35: the Reply's flags; then the RTR or
    the peer's Terminate."""
    set_parameter(rtr=rtr_parameter(supported))
    port = listen(responder, "auto=accept")
    raw = dial(port)
    raw.send(mpa.request("A" + offered, 1, 1))
    kinds = replied(offered, supported)
    assert raw.receive(24) == mpa.reply("A" + kinds, 1, 1)
    kind = chosen(offered, kinds)
    if kind:
        raw.send(mpa.RTR[kind])
        responder.expect("ESTABLISHED", status=0)
        return
    raw.send(mpa.TERMINATE_RTR)
    raw.sock.shutdown(1)
    event = responder.expect("ESTABLISHED", status=-104)
    responder.expect("DISCONNECTED", id=event["id"])
    assert raw.ends() == b""


@pytest.mark.parametrize("offered,supported", PAIRS)
def test_rtr_pairs_as_initiator(initiator, answer, set_parameter, offered, supported):
    """F6, F7, RTR-02, RTR-13, RTR-14, TERM-04, A-37: the offer, and the RTR or Terminate
    2/0/7.
    """
    set_parameter(rtr=rtr_parameter(offered))
    raw = connect(initiator, answer)
    assert the_request(raw) == mpa.request("A" + offered, 1, 1)
    kinds = replied(offered, supported)
    raw.send(mpa.reply("A" + kinds, 1, 1))
    goes_on(initiator, raw, chosen(offered, kinds))


@pytest.mark.parametrize("extra", ["B", "BD", "BCD"])
def test_rtr11_kinds_that_were_not_offered_are_not_sent(initiator, answer, set_parameter, extra):
    """RTR-11, A-37: the peer lists more than was offered; what is sent is in both."""
    set_parameter(rtr="write")
    raw = connect(initiator, answer)
    the_request(raw)
    raw.send(mpa.reply("A" + "".join(sorted(set(extra) | {"C"})), 1, 1))
    assert raw.receive(20) == mpa.RTR["C"]
    initiator.expect("ESTABLISHED", status=0)


def test_f8_nothing_offered(responder, dial):
    """F8: A=1 without a kind gets A=1 and all kinds that we have."""
    raw = dial(listen(responder, "auto=accept"))
    raw.send(mpa.request("A", 1, 1))
    assert raw.receive(24) == mpa.reply("ABCD", 1, 1)


@pytest.mark.parametrize("kinds,kind", [("C", "C"), ("D", "D"), ("BCD", "C"), ("B", None), ("", None)])
def test_amb12_peer_to_peer_reply_to_client_server_request(initiator, answer, set_parameter,
                                                           kinds, kind):
    """A=1 after A=0: a flagged Write or Read is sent, else Terminate 2/0/7."""
    set_parameter(peer_to_peer="N")
    raw = connect(initiator, answer)
    assert the_request(raw) == mpa.request("", 1, 1)
    raw.send(mpa.reply("A" + kinds, 1, 1))
    goes_on(initiator, raw, kind)


NONE = mpa.NO_NEGOTIATION

# kinds, the Request's IRD and ORD, the responder's own, the Reply's, what the
# responder's QP has. siw takes powers of two as ORD, rounded down: 6 becomes 4.
RESPONDER_ROWS = {
    "n1": ("", 32, 16, 8, 64, 16, 32, 16, 32),
    "n2": ("", 0, 0, 8, 8, 8, 0, 8, 0),
    "n3": ("", 1, 1, 1, 1, 1, 1, 1, 1),
    "n4": ("AD", 0, 0, 0, 0, 1, 0, 1, 0),
    "n5": ("ACD", 0, 0, 0, 0, 1, 0, 1, 0),
    "n6": ("", 16382, 16382, 128, 128, 128, 128, 128, 128),
    "n7": ("", NONE, NONE, 4, 6, NONE, NONE, 4, 4),
    "n8": ("", NONE, 5, 2, 6, 5, NONE, 5, 4),
    "n9": ("", 5, NONE, 2, 6, NONE, 4, 2, 4),
    "n10-cap-128": ("", 4, 200, 16, 4, 128, 4, 128, 4),
    "n11": ("", 4, 8, 2, 4, 8, 4, 8, 4),
    "n12": ("AD", 8, 4, 0, 2, 4, 2, 4, 2),
    "ird-3": ("", 3, 1, 1, 16, 1, 2, 1, 2),
}


@pytest.mark.parametrize("row", RESPONDER_ROWS)
def test_depths_as_responder(responder, dial, hostb, row):
    """NEG-02 to NEG-04, NEG-12, NEG-13, NEG-16; the Reply, and what the QP has."""
    kinds, ird, ord_, own_ird, own_ord, reply_ird, reply_ord, local_ird, local_ord = \
        RESPONDER_ROWS[row]
    port = listen(responder, f"auto=accept ird={own_ird} ord={own_ord}")
    raw = dial(port)
    raw.send(mpa.request(kinds, ird, ord_))
    assert raw.receive(24) == mpa.reply(kinds, reply_ird, reply_ord)
    shown = details(hostb.device, port, "wait-first-fpdu")
    assert (shown["ird"], shown["ord"]) == (local_ird, local_ord)
    raw.send(mpa.RTR["D" if "D" in kinds else "C"])
    responder.expect("ESTABLISHED", status=0)


# kinds, own IRD and ORD, the Reply's kinds and depths, what the QP has then.
INITIATOR_ROWS = {
    "n1": ("", 32, 16, 16, 32, 32, 16),
    "n2": ("", 0, 0, 8, 0, 0, 0),
    "n3": ("", 1, 1, 1, 1, 1, 1),
    "n4": ("AD", 0, 0, 1, 0, 0, 1),
    "n5": ("AC", 0, 0, 1, 0, 0, 0),
    "n6-cap-128": ("", 128, 128, 128, 128, 128, 128),
    "n10": ("", 4, 64, 16, 4, 4, 16),
    "n11": ("", 4, 8, 8, 4, 4, 8),
    "n12": ("AD", 8, 4, 4, 2, 8, 4),
    "n13": ("", 4, 4, 4, 64, 64, 4),
    "n16": ("", 8, 8, NONE, 8, 8, 8),
    "n17": ("", 8, 8, 8, NONE, 8, 8),
    "exactly-3": ("", 4, 8, 3, 4, 4, 2),
}


@pytest.mark.parametrize("row", INITIATOR_ROWS)
def test_depths_as_initiator(initiator, answer, hosta, set_parameter, row):
    """NEG-01, NEG-06, NEG-07, NEG-14, NEG-15, RTR-17; an ORD of 3 becomes 2, see above."""
    kinds, ird, ord_, reply_ird, reply_ord, local_ird, local_ord = INITIATOR_ROWS[row]
    if not kinds:
        set_parameter(peer_to_peer="N")
    raw = connect(initiator, answer, f"ird={ird} ord={ord_}")
    assert the_request(raw) == mpa.request("ABCD" if kinds else "", ird, ord_)
    raw.send(mpa.reply(kinds, reply_ird, reply_ord))
    initiator.expect("ESTABLISHED", status=0)
    shown = details(hosta.device, answer.port, "established")
    assert (shown["ird"], shown["ord"]) == (local_ird, local_ord)


@pytest.mark.parametrize("own,reply,local", [
    ((4, 4), (NONE, NONE), (4, 4)), ((2, 4), (5, NONE), (2, 4)), ((8, 8), (4, 8), (8, 4))],
                         ids=["n7", "n8", "n18"])
def test_depths_left_to_the_ulp(initiator, answer, hosta, rule, own, reply, local):
    """N7, N8, N18, AMB-14: 0x3FFF is sent, and a number in the Reply still binds the ORD."""
    rule("own", depths="ulp", model="client-server")
    raw = connect(initiator, answer, f"ird={own[0]} ord={own[1]}")
    assert the_request(raw) == mpa.request("", NONE, NONE)
    raw.send(mpa.reply("", *reply))
    initiator.expect("ESTABLISHED", status=0)
    shown = details(hosta.device, answer.port, "established")
    assert (shown["ird"], shown["ord"]) == local


def test_neg07_reads_outstanding_stay_within_the_peers_ird(initiator, answer):
    """NEG-07, NEG-17: never more Read Requests unanswered than the Reply's IRD."""
    raw = connect(initiator, answer, "ird=4 ord=8 size=8")
    the_request(raw)
    raw.send(mpa.reply("AC", 2, 4))
    assert raw.receive(20) == mpa.RTR["C"]
    number = initiator.expect("ESTABLISHED", status=0)["id"]
    for _ in range(4):
        initiator.do(f"read {number} size=8 addr=0 rkey=1")
    reads = [raw.receive(52) for _ in range(2)]
    raw.silent()
    for index, read in enumerate(reads):
        assert read[3] == 0x41 and int.from_bytes(read[12:16], "big") == index + 1
        raw.send(mpa.fpdu(b"\xc1\x42" + read[20:32] + bytes(8)))
        assert raw.receive(52)[3] == 0x41
    for _ in range(2):
        assert initiator.expect("WC", opcode="READ")["status"] == 0


def test_neg18_as_many_reads_at_once_as_replied(responder, dial):
    """NEG-18: an IRD of 8 was replied, and 8 Reads at once are all answered, in order."""
    port = listen(responder, "auto=accept ird=8 ord=4")
    raw = dial(port)
    raw.send(mpa.request("ACD", 4, 8))
    assert raw.receive(24) == mpa.reply("ACD", 8, 4)
    raw.send(mpa.RTR["C"])
    responder.expect("ESTABLISHED", status=0)
    raw.send(b"".join(mpa.fpdu(mpa.read_request(msn, sink_stag=100 + msn))
                      for msn in range(1, 9)))
    for msn in range(1, 9):
        octets = raw.receive(20)
        assert octets[:8] == bytes.fromhex("000ec142") + (100 + msn).to_bytes(4, "big")


@pytest.mark.parametrize("reply", [mpa.reply("AC", 1, 1, b"no thanks"), mpa.reply("AC", 0, 0)],
                         ids=["private-data", "depths"])
def test_initiator_may_leave_after_reading_the_reply(initiator, answer, reply):
    """MPA-32, NEG-11: the ULP sees data or numbers that it does not like: FIN, no Terminate."""
    raw = connect(initiator, answer, "ird=4 ord=4")
    the_request(raw)
    raw.send(reply)
    assert raw.receive(20) == mpa.RTR["C"]
    event = initiator.expect("ESTABLISHED", status=0)
    assert event["private_data"] == reply[24:].hex()
    initiator.do(f"disconnect {event['id']}")
    assert raw.rest() == b""
    initiator.expect("DISCONNECTED")


def test_rtr25_application_speaks_first_by_itself(initiator, answer, set_parameter):
    """RTR-25: no RTR kind fits, so the ULP connects again without and sends first."""
    set_parameter(rtr="read")
    raw = connect(initiator, answer)
    the_request(raw)
    raw.send(mpa.reply("AC", 1, 1))
    assert raw.rest() == mpa.TERMINATE_RTR
    initiator.expect("CONNECT_ERROR")
    set_parameter(peer_to_peer="N")
    raw = connect(initiator, answer, "established=1 size=8")
    assert the_request(raw) == mpa.request("", 1, 1)
    raw.send(mpa.reply("", 1, 1))
    initiator.expect("ESTABLISHED", status=0)
    octets = raw.receive(32)
    assert octets[2:4] == b"\x41\x43" and int.from_bytes(octets[12:16], "big") == 1


@pytest.mark.parametrize("ird,ord_,shown_resources,shown_depth", [
    (3, 5, 5, 3), (16382, 16382, 255, 255), (256, 255, 255, 255), (NONE, 7, 7, 128),
    (9, NONE, 128, 9), (0, 0, 0, 0)])
def test_neg09_request_depths_as_the_man_page_words_them(responder, dial, ird, ord_,
                                                         shown_resources, shown_depth):
    """NEG-09, A-41: initiator_depth is the peer's IRD, responder_resources its ORD; more than 255
    stays 255, and what is not negotiated shows the local value: the device's limit, as the
    ULP has not spoken yet.
    """
    raw = dial(listen(responder, "ird=4 ord=6"))
    raw.send(mpa.request("", ird, ord_))
    event = responder.expect("CONNECT_REQUEST")
    assert (event["responder_resources"], event["initiator_depth"]) == \
        (shown_resources, shown_depth)


@pytest.mark.parametrize("ird,ord_", [(16382, 100), (300, 0)])
def test_neg09_reply_depths_saturate(initiator, answer, ird, ord_):
    """NEG-09, A-39: an event carries 8 bits; a depth above is 255 and not its low octet."""
    raw = connect(initiator, answer, "ird=100 ord=100")
    the_request(raw)
    raw.send(mpa.reply("AC", ird, ord_))
    event = initiator.expect("ESTABLISHED", status=0)
    assert event["initiator_depth"] == 255 and event["responder_resources"] == ord_
