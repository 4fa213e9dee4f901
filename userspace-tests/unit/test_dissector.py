# SPDX-License-Identifier: GPL-2.0
"""The Wireshark dissector: what tshark shows of exchanges that are written here."""

import collections
import json
import os
import random
import re
import struct
import subprocess

import chunks
import mpa
import pytest
import wire

SCRIPT = os.path.join(os.path.dirname(__file__), "..", "..", "scripts", "wireshark", "mpa2.lua")

C, M, R, S = mpa.FLAG_C, mpa.FLAG_M, mpa.FLAG_R, mpa.FLAG_S
BAD, GOOD, OFF, UNKNOWN = "0", "1", "2", "3"

# A packet in which the dissector failed need not be one of mpa2.
SHOWN = ["-Y", "mpa2 || _ws.lua.error || _ws.malformed"]
FIELDS = """
    tcp.stream frame.protocols _ws.col.Info _ws.expert.message
    mpa2.request mpa2.reply mpa2.key mpa2.flags mpa2.flags.m mpa2.flags.c mpa2.flags.r
    mpa2.flags.s mpa2.flags.res mpa2.rev mpa2.pd_length mpa2.enhanced
    mpa2.a mpa2.b mpa2.c mpa2.d mpa2.ird mpa2.ord mpa2.private_data
    mpa2.fpdu mpa2.rtr mpa2.ulpdu_length mpa2.ddp.t mpa2.ddp.l mpa2.ddp.rsvd mpa2.ddp.dv
    mpa2.rdmap.rv mpa2.rdmap.rsvd mpa2.rdmap.opcode mpa2.ddp.stag mpa2.ddp.to
    mpa2.ddp.inv_stag mpa2.ddp.qn mpa2.ddp.msn mpa2.ddp.mo
    mpa2.read.sink_stag mpa2.read.sink_to mpa2.read.size mpa2.read.source_stag
    mpa2.read.source_to mpa2.payload mpa2.pad mpa2.crc mpa2.crc.calculated mpa2.crc.status
    mpa2.terminate.layer mpa2.terminate.type mpa2.terminate.code mpa2.terminate.error
    mpa2.terminate.m mpa2.terminate.d mpa2.terminate.r mpa2.terminate.ddp_length
    mpa2.terminate.ddp_header mpa2.terminate.rdmap_header mpa2.other
    mpa2.control mpa2.segment mpa2.ssn mpa2.function
""".split()


def tshark(path, *options):
    """What tshark with the dissector prints; it may not complain."""
    run = subprocess.run(
        ["tshark", "-X", f"lua_script:{SCRIPT}", "-r", str(path), *options],
        capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "HOME": str(path.parent), "XDG_CONFIG_HOME": str(path.parent)})
    complaints = [line for line in run.stderr.splitlines() if "Running as user" not in line]
    assert (run.returncode, complaints) == (0, [])
    assert "Lua Error" not in run.stdout and "Malformed Packet" not in run.stdout
    return run.stdout


@pytest.fixture(name="decode")
def fixture_decode(tmp_path):
    """A function: packets of a capture that are MPA, as {field: [value...]}."""
    def decode(capture, *options):
        path = capture.write(tmp_path / "capture.pcap")
        arguments = [part for name in FIELDS for part in ("-e", name)]
        text = tshark(path, *SHOWN, "-T", "json", *arguments, *options)
        return [collections.defaultdict(list, packet["_source"]["layers"])
                for packet in json.loads(text)]
    return decode


def connection(request, reply, fpdus=(), answers=(), **sizes):
    """A capture of one connection."""
    capture = wire.Capture()
    exchange(capture, request, reply, fpdus, answers, **sizes)
    return capture


def exchange(capture, request, reply, fpdus=(), answers=(), **sizes):
    """One more connection in a capture."""
    one = capture.connect()
    one.initiator(request, **sizes).responder(reply, **sizes)
    one.initiator(*fpdus, **sizes).responder(*answers, **sizes).close()


def values(packets, *names):
    """All values of each field, over all packets."""
    found = [[value for packet in packets for value in packet[name]] for name in names]
    return found[0] if len(found) == 1 else found


def infos(packets):
    """The Info column of each packet."""
    return [packet["_ws.col.Info"][0] for packet in packets]


def by_stream(packets):
    """Packets by the number of their connection."""
    streams = collections.defaultdict(list)
    for packet in packets:
        streams[int(packet["tcp.stream"][0])].append(packet)
    return streams


# ---- startup frames ----

def test_enhanced_request_and_reply(decode):
    request, reply = decode(connection(
        mpa.request("ABCD", 32, 16, b"hi", flags=C | S), mpa.reply("AC", 16, 8)))
    assert request["mpa2.request"] and not request["mpa2.reply"]
    assert reply["mpa2.reply"] and not reply["mpa2.request"]
    assert values([request, reply], "mpa2.key") == ["MPA ID Req Frame", "MPA ID Rep Frame"]
    assert values([request, reply], "mpa2.rev", "mpa2.flags", "mpa2.pd_length") == [
        ["2", "2"], ["0x50", "0x10"], ["6", "4"]]
    assert values([request], *(f"mpa2.flags.{bit}" for bit in "mcrs")) == [
        ["0"], ["1"], ["0"], ["1"]]
    assert values([reply], *(f"mpa2.flags.{bit}" for bit in "mcrs")) == [
        ["0"], ["0"], ["0"], ["1"]]
    assert values([request], *(f"mpa2.{flag}" for flag in "abcd")) == [["1"]] * 4
    assert values([reply], *(f"mpa2.{flag}" for flag in "abcd")) == [["1"], ["0"], ["1"], ["0"]]
    assert values([request, reply], "mpa2.ird", "mpa2.ord") == [["32", "16"], ["16", "8"]]
    assert values([request, reply], "mpa2.private_data") == ["6869"]
    assert infos([request, reply]) == [
        "MPA Request, Rev 2, flags C S, A B C D, IRD 32, ORD 16, 2 octets of private data",
        "MPA Reply, accept, Rev 2, flags S, A C, IRD 16, ORD 8"]


def test_each_flag_and_depth_is_at_its_bit(decode):
    capture = wire.Capture()
    table = [(kind, 0, 0) for kind in "ABCD"] + [("", 1, 0), ("", 0, 1), ("", 16382, 0),
                                                 ("", 0, 16382), ("ABCD", 8192, 8192)]
    for kinds, ird, ord_ in table:
        exchange(capture, mpa.request(kinds, ird, ord_), b"")
    for (kinds, ird, ord_), packet in zip(table, decode(capture), strict=True):
        assert values([packet], *(f"mpa2.{flag}" for flag in "abcd")) == [
            [str(int(flag in kinds))] for flag in "ABCD"]
        assert values([packet], "mpa2.ird", "mpa2.ord") == [[str(ird)], [str(ord_)]]


def test_depth_3fff_is_shown_as_not_negotiated(decode, tmp_path):
    capture = connection(mpa.request("", 0x3FFF, 5), mpa.reply("", 5, 0x3FFF))
    request, reply = decode(capture)
    assert "client-server, IRD not negotiated, ORD 5" in infos([request])[0]
    assert "client-server, IRD 5, ORD not negotiated" in infos([reply])[0]
    assert values([request, reply], "mpa2.ird", "mpa2.ord") == [["16383", "5"], ["5", "16383"]]
    text = tshark(tmp_path / "capture.pcap", "-O", "mpa2")
    assert "IRD: 16383 (not negotiated)" in text and "ORD: 16383 (not negotiated)" in text
    assert text.count("(not negotiated)") == 2


def test_rev_1_has_no_enhanced_data_and_s_is_reserved(decode):
    data = b"\xc0\x20\xc0\x10hello"
    packets = decode(connection(
        mpa.request_rev1(data, flags=C | S | 0x05), mpa.reply_rev1(flags=C),
        [mpa.fpdu(mpa.send(1), crc=True)]))
    request, reply, send = packets
    assert values([request, reply], "mpa2.rev", "mpa2.flags.res") == [
        ["1", "1"], ["0x15", "0x00"]]
    assert values([request], "mpa2.private_data", "mpa2.pd_length") == [[data.hex()], ["9"]]
    assert values(packets, "mpa2.flags.s", "mpa2.enhanced", "mpa2.ird", "mpa2.a") == [[]] * 4
    assert infos([request]) == ["MPA Request, Rev 1, flags C, 9 octets of private data"]
    assert infos([send]) == ["Send, MSN 1, 0 octets"]
    assert values(packets, "mpa2.rtr", "_ws.expert.message") == [[], []]


def test_rev_2_without_s_has_no_enhanced_data(decode):
    request, _ = decode(connection(
        mpa.frame(mpa.REQUEST_KEY, C, 2, b"abcdef"), mpa.frame(mpa.REPLY_KEY, C, 2)))
    assert values([request], "mpa2.flags.s", "mpa2.enhanced") == [["0"], []]
    assert values([request], "mpa2.private_data") == [b"abcdef".hex()]


def test_rejects(decode):
    capture = wire.Capture()
    exchange(capture, mpa.request_rev1(flags=C), mpa.reply_rev1(b"no", flags=C | R))
    exchange(capture, mpa.request(flags=C | S), mpa.reply("AC", 16, 64, flags=C | R | S))
    exchange(capture, mpa.request(flags=C | S | R), mpa.reply("AC"), [mpa.RTR_CRC["C"]])
    rev1, rev2, r_in_request = by_stream(decode(capture)).values()
    assert infos(rev1[1:]) == ["MPA Reply, reject, Rev 1, flags C R, 2 octets of private data"]
    assert infos(rev2[1:]) == ["MPA Reply, reject, Rev 2, flags C R S, A C, IRD 16, ORD 64"]
    for packets in rev1, rev2:
        assert values(packets[1:], "mpa2.flags.r", "_ws.expert.message") == [
            ["1"], [packets[1]["_ws.expert.message"][0]]]
    # R of a Request says nothing.
    assert infos(r_in_request)[1:] == ["MPA Reply, accept, Rev 2, flags S, A C, IRD 1, ORD 1",
                                       "RTR (zero-length RDMA Write)"]


# ---- RTR ----

RTR_NAMES = {"B": "zero-length Send", "C": "zero-length RDMA Write", "D": "zero-length RDMA Read"}
ONE_BY_ONE = pytest.mark.parametrize("size", [1400, 1], ids=["whole", "octet by octet"])


@ONE_BY_ONE
@pytest.mark.parametrize("crc", [False, True], ids=["CRC off", "CRC on"])
@pytest.mark.parametrize("kind", "BCD")
def test_rtr(decode, kind, crc, size):
    flags = S | (C if crc else 0)
    vector = (mpa.RTR_CRC if crc else mpa.RTR)[kind]
    packets = decode(connection(mpa.request("ABCD", flags=flags), mpa.reply("A" + kind),
                                [vector], size=size))
    assert len(packets) == 3
    assert values(packets, "mpa2.rtr") == [RTR_NAMES[kind]]
    assert infos(packets)[2] == f"RTR ({RTR_NAMES[kind]})"
    assert values(packets, "mpa2.crc.status") == [GOOD if crc else OFF]
    assert values(packets, "mpa2.ddp.dv", "mpa2.rdmap.rv", "mpa2.ddp.l") == [["1"]] * 3
    opcode, tagged, length = {"B": (3, 0, 18), "C": (0, 1, 14), "D": (1, 0, 46)}[kind]
    assert values(packets, "mpa2.rdmap.opcode", "mpa2.ddp.t", "mpa2.ulpdu_length") == [
        [f"0x{opcode:02x}"], [str(tagged)], [str(length)]]
    assert values(packets, "_ws.expert.message") == []


@pytest.mark.parametrize("options", [[], ["-2"]], ids=["one pass", "two passes"])
def test_only_the_first_fpdu_of_the_initiator_is_the_rtr(decode, options):
    empty = mpa.fpdu(mpa.tagged(mpa.OP_WRITE, stag=7))
    capture = connection(mpa.request("AC"), mpa.reply("AC"), [mpa.RTR["C"], empty], [empty])
    exchange(capture, mpa.request("AC"), mpa.reply("AC"), [mpa.RTR["C"]])
    packets = decode(capture, *options)
    assert values(packets, "mpa2.rtr") == [RTR_NAMES["C"]] * 2
    assert infos(packets)[2:4] == ["RTR (zero-length RDMA Write); RDMA Write, 0 octets",
                                   "RDMA Write, 0 octets"]


def test_without_a_in_the_request_there_is_no_rtr(decode):
    packets = decode(connection(mpa.request("BCD"), mpa.reply(""), [mpa.RTR["B"]]))
    assert infos(packets)[2] == "Send, MSN 1, 0 octets"
    assert values(packets, "mpa2.rtr", "_ws.expert.message") == [[], []]


NOT_RTR = {
    "Send with data": mpa.send(1, b"data"), "Write with data": mpa.tagged(0, payload=b"data"),
    "Read of 4 octets": mpa.read_request(1, size=4), "Read Response": mpa.tagged(2),
    "Send that goes on": mpa.untagged(3, 0, 1, last=False), "tagged Send": mpa.tagged(3),
    "untagged Write": mpa.untagged(0, 0, 1), "Send with SE": mpa.untagged(5, 0, 1),
}


def test_what_is_no_rtr_is_reported_when_one_is_due(decode):
    capture = wire.Capture()
    for ulpdu in NOT_RTR.values():
        exchange(capture, mpa.request("ABCD"), mpa.reply("ABCD"), [mpa.fpdu(ulpdu), mpa.RTR["C"]])
    streams = by_stream(decode(capture))
    assert len(streams) == len(NOT_RTR)
    for name, packets in zip(NOT_RTR, streams.values()):
        assert values(packets, "mpa2.rtr") == [], name
        assert values(packets, "_ws.expert.message") == [
            "The initiator's first FPDU is not an RTR"], name


def test_empty_fpdu_in_place_of_a_send_is_named(decode):
    packets = decode(connection(mpa.request("AB"), mpa.reply("AB"), [mpa.EMPTY_FPDU]))
    assert infos(packets)[2] == "RTR (FPDU without ULPDU)"


def test_terminate_in_place_of_the_rtr_is_only_a_terminate(decode):
    packets = decode(connection(mpa.request("AB"), mpa.reply("AC"), [mpa.TERMINATE_RTR]))
    assert values(packets, "mpa2.rtr") == []
    assert values(packets, "_ws.expert.message") == ["Terminate 2/0/07, MPA: no matching RTR"]


# ---- FPDUs ----

def test_headers_of_read_request_write_and_send(decode):
    packets = decode(connection(
        mpa.request_rev1(), mpa.reply_rev1(),
        [mpa.fpdu(mpa.read_request(3, 0x11, 0x2200000001, 4096, 0x33, 0x4400000002))],
        [mpa.fpdu(mpa.tagged(2, 0x11, 0x2200000001, b"abc", last=False)),
         mpa.fpdu(mpa.untagged(4, 0, 9, b"xy", offset=5, stag=0x77))]))[2:]
    assert infos(packets) == ["RDMA Read Request, MSN 3, 4096 octets",
                              "RDMA Read Response, 3 octets; Send with Invalidate, MSN 9, 2 octets"]
    read, answers = packets
    assert values([read], "mpa2.ddp.qn", "mpa2.ddp.msn", "mpa2.ddp.mo") == [["1"], ["3"], ["0"]]
    assert values([read], "mpa2.read.sink_stag", "mpa2.read.sink_to", "mpa2.read.size",
                  "mpa2.read.source_stag", "mpa2.read.source_to") == [
        ["0x00000011"], ["0x0000002200000001"], ["4096"], ["0x00000033"], ["0x0000004400000002"]]
    assert values([answers], "mpa2.ddp.stag", "mpa2.ddp.to", "mpa2.ddp.l") == [
        ["0x00000011"], ["0x0000002200000001"], ["0", "1"]]
    assert values([answers], "mpa2.ddp.inv_stag", "mpa2.ddp.msn", "mpa2.ddp.mo") == [
        ["0x00000077"], ["9"], ["5"]]
    assert values([answers], "mpa2.payload", "mpa2.pad") == [
        [b"abc".hex(), b"xy".hex()], ["00", "0000"]]


def test_padding_of_every_size(decode):
    payloads = [bytes(range(1, size + 1)) for size in range(9)]
    packets = decode(connection(
        mpa.request_rev1(flags=C), mpa.reply_rev1(),
        [mpa.fpdu(mpa.send(n + 1, data), crc=True) for n, data in enumerate(payloads)]))
    assert values(packets, "mpa2.ddp.msn") == [str(n + 1) for n in range(9)]
    assert values(packets, "mpa2.payload") == [data.hex() for data in payloads if data]
    assert values(packets, "mpa2.crc.status") == [GOOD] * 9


CRC_CASES = {
    "asked for by the Request": (C, 0, True), "asked for by the Reply": (0, C, True),
    "asked for by both": (C, C, True), "by none": (0, 0, False),
}


@pytest.mark.parametrize("asked", CRC_CASES.values(), ids=CRC_CASES)
def test_crc_is_looked_at_when_either_end_asked(decode, asked):
    by_request, by_reply, in_force = asked
    good = mpa.fpdu(mpa.send(1, b"some"), crc=True)
    bad = good[:-1] + bytes([good[-1] ^ 1])
    packets = decode(connection(mpa.request_rev1(flags=by_request), mpa.reply_rev1(flags=by_reply),
                                [good, bad]))
    assert values(packets, "mpa2.crc.status") == ([GOOD, BAD] if in_force else [OFF, OFF])
    assert values(packets, "_ws.expert.message") == (["Bad CRC"] if in_force else [])
    right, wrong = (struct.unpack("<I", one[-4:])[0] for one in (good, bad))
    assert values(packets, "mpa2.crc") == [f"0x{right:08x}", f"0x{wrong:08x}"]
    assert values(packets, "mpa2.crc.calculated") == [f"0x{right:08x}"] * 2 * in_force
    assert infos(packets)[2].endswith("4 octets, bad CRC") == in_force


def test_crc_of_a_large_fpdu_in_many_segments(decode):
    payload = random.Random(1).randbytes(60000)
    packets = decode(connection(mpa.request_rev1(flags=C), mpa.reply_rev1(),
                                [mpa.fpdu(mpa.send(1, payload), crc=True)]))
    assert values(packets, "mpa2.crc.status", "mpa2.payload") == [[GOOD], [payload.hex()]]


def test_markers_stop_one_direction_only(decode):
    packets = decode(connection(
        mpa.request("AC", flags=S | M), mpa.reply("AC"),
        [mpa.RTR["C"]], [bytes(4) + mpa.READ_RESPONSE]))
    assert infos(packets)[2:] == ["RTR (zero-length RDMA Write)", "Markers: not dissected"]
    packets = decode(connection(
        mpa.request("AC", flags=S), mpa.reply("AC", flags=S | M),
        [mpa.RTR_MARKER_CRC["C"]], [mpa.READ_RESPONSE]))
    assert infos(packets)[2:] == ["Markers: not dissected", "RDMA Read Response, 0 octets"]


# ---- Terminate ----

REGISTRY = {
    1: "TCP connection lost or closed", 2: "CRC mismatch",
    3: "Marker and ULPDU_Length disagree", 4: "invalid Request or Reply frame",
    5: "local catastrophic error", 6: "insufficient IRD", 7: "no matching RTR",
}
OTHER_ERRORS = {
    (1, 2, 1): "DDP: invalid QN", (1, 2, 2): "DDP: no buffer for this MSN",
    (1, 2, 3): "DDP: MSN out of range", (1, 2, 4): "DDP: invalid MO",
    (1, 2, 6): "DDP: invalid DDP version", (1, 1, 4): "DDP: invalid DDP version",
    (0, 2, 5): "RDMAP: invalid RDMAP version", (0, 2, 6): "RDMAP: unexpected opcode",
    (0, 2, 7): "RDMAP: stream catastrophic", (0, 0, 0): "RDMAP: local catastrophic error",
    (2, 0, 8): "MPA: MPA error", (7, 9, 255): "unknown layer: unknown error",
}


@pytest.mark.parametrize("crc", [False, True], ids=["CRC off", "CRC on"])
def test_terminate_codes_of_the_registry(decode, crc):
    capture = wire.Capture()
    for code in REGISTRY:
        exchange(capture, mpa.request(flags=S | (C if crc else 0)), mpa.reply(),
                 answers=[mpa.terminate(2, 0, code, crc)])
    streams = by_stream(decode(capture))
    for (code, name), packets in zip(REGISTRY.items(), streams.values(), strict=True):
        assert infos(packets)[2] == f"Terminate 2/0/{code:02x}, MPA: {name}"
        assert values(packets, "mpa2.terminate.layer", "mpa2.terminate.type",
                      "mpa2.terminate.code", "mpa2.terminate.error") == [
            ["2"], ["0"], [f"0x{code:02x}"], [name]]
        assert values(packets, *(f"mpa2.terminate.{bit}" for bit in "mdr")) == [["0"]] * 3
        assert values(packets, "mpa2.crc.status") == [GOOD if crc else OFF]
        assert values(packets, "mpa2.ddp.qn", "mpa2.payload") == [["2"], []]


def test_terminate_of_other_layers(decode):
    capture = wire.Capture()
    for error in OTHER_ERRORS:
        exchange(capture, mpa.request(), mpa.reply(), answers=[mpa.terminate(*error)])
    streams = by_stream(decode(capture))
    for ((layer, etype, code), name), packets in zip(
            OTHER_ERRORS.items(), streams.values(), strict=True):
        assert infos(packets)[2] == f"Terminate {layer}/{etype}/{code:02x}, {name}"


def test_terminate_with_the_headers_it_complains_about(decode):
    no_buffer = bytes.fromhex(
        "002a 4147 00000000 00000002 00000001 00000000 1202c000 0012"
        "4143 00000000 00000000 00000001 00000000 02b52b3a")
    read = mpa.read_request(1)
    protection = mpa.fpdu(mpa.untagged(7, 2, 1, bytes.fromhex("0101e000 002e") + read), crc=True)
    write = mpa.tagged(0)
    bounds = mpa.fpdu(mpa.untagged(7, 2, 1, bytes.fromhex("1101c000 000e") + write), crc=True)
    packets = decode(connection(mpa.request(flags=S | C), mpa.reply(),
                                answers=[no_buffer, protection, bounds]))
    assert infos(packets)[2] == (
        "Terminate 1/2/02, DDP: no buffer for this MSN; "
        "Terminate 0/1/01, RDMAP: base or bounds violation; "
        "Terminate 1/1/01, DDP: base or bounds violation")
    assert values(packets, "mpa2.terminate.m", "mpa2.terminate.d", "mpa2.terminate.r") == [
        ["1", "1", "1"], ["1", "1", "1"], ["0", "1", "0"]]
    assert values(packets, "mpa2.terminate.ddp_length") == ["18", "46", "14"]
    assert values(packets, "mpa2.terminate.ddp_header") == [
        mpa.send(1).hex(), read[:18].hex(), write.hex()]
    assert values(packets, "mpa2.terminate.rdmap_header") == [read[18:].hex()]
    assert values(packets, "mpa2.crc.status") == [GOOD] * 3


# ---- segments ----

def test_every_cut_into_two_segments_gives_the_same(decode):
    sent = [mpa.request("ACD", 4, 2, b"hi", flags=C | S), mpa.RTR_CRC["D"],
            mpa.fpdu(mpa.send(1, b"abc"), crc=True)]
    reply = mpa.reply("ACD", 2, 4, b"ho")
    whole = decode(connection(sent[0], reply, sent[1:]))
    expected = values(whole, *FIELDS[4:])
    capture, cuts = wire.Capture(), range(1, len(sent[1] + sent[2]))
    for cut in cuts:
        exchange(capture, sent[0], reply, sent[1:], size=cut)
    streams = by_stream(decode(capture))
    assert len(streams) == len(cuts)
    for cut, packets in zip(cuts, streams.values()):
        assert values(packets, *FIELDS[4:]) == expected, f"segments of {cut}"


def test_more_than_one_thing_in_a_segment(decode):
    capture = wire.Capture()
    stream = mpa.reply("AC") + mpa.fpdu(mpa.send(1, b"x")) + mpa.fpdu(mpa.send(2, b"y"))
    for size in 21, 30, 60, 1400:
        one = capture.connect()
        one.initiator(mpa.request("AC")).responder(stream, size=size)
    for packets in by_stream(decode(capture)).values():
        assert "; ".join(infos(packets)[1:]) == (
            "MPA Reply, accept, Rev 2, flags S, A C, IRD 1, ORD 1; "
            "Send, MSN 1, 1 octets; Send, MSN 2, 1 octets")


def test_capture_that_begins_with_the_reply(decode):
    capture = wire.Capture()
    one = capture.connect()
    one.lose(0, 24).responder(mpa.reply("AC")).initiator(mpa.RTR["C"])
    reply, first = decode(capture)
    assert reply["mpa2.reply"] and infos([first])[0].endswith(" RDMA Write, 0 octets")
    assert first["mpa2.crc.status"] == [UNKNOWN]


def test_after_a_gap_fpdus_are_found_at_the_next_segment_with_one(decode):
    capture = connection(mpa.request_rev1(), mpa.reply_rev1())
    one = capture.connect().initiator(mpa.request_rev1()).responder(mpa.reply_rev1())
    one.lose(0, 1000).initiator(b"\xff" * 100)
    one.initiator(b"\x7f" * 100).initiator(bytes(101))
    one.initiator(mpa.fpdu(mpa.send(5, b"abc")))
    texts = infos(decode(capture))
    assert texts[-4].endswith("Not an FPDU")
    assert texts[-3:] == ["Not an FPDU"] * 2 + ["Send, MSN 5, 3 octets"]


def test_disorder_and_repeats(decode):
    capture = wire.Capture()
    one = capture.connect().initiator(mpa.request("AD")).responder(mpa.reply("AD"))
    one.initiator(mpa.RTR["D"], size=26)
    capture.packets[-2:] = reversed(capture.packets[-2:])
    first = mpa.fpdu(mpa.send(1))
    one.initiator(first).lose(0, -len(first)).initiator(first).initiator(mpa.fpdu(mpa.send(2)))
    texts = infos(decode(capture, "-o", "tcp.reassemble_out_of_order:TRUE"))
    assert texts[2].endswith(" RTR (zero-length RDMA Read)")
    assert texts[3:] == ["Send, MSN 1, 0 octets", "Send, MSN 2, 0 octets"]


# ---- who gets a connection ----

def test_the_dissector_is_asked_before_the_one_that_comes_with_wireshark(decode):
    packets = decode(connection(mpa.request_rev1(), mpa.reply_rev1(), [mpa.fpdu(mpa.send(1))]))
    assert [packet["frame.protocols"][0].split(":")[-1] for packet in packets] == ["mpa2"] * 3


NOT_MPA = [
    b"MPA ID Req Framf" + bytes(8), b"MPA", b"M", b"MPA ID Red Frame" + bytes(8), b"hello",
    bytes(40), mpa.RTR["C"],
]


def test_other_connections_are_left_alone(decode):
    capture = wire.Capture()
    for text in NOT_MPA:
        for size in 1, 1400:
            one = capture.connect()
            one.initiator(text, b" and more of it", size=size).responder(text, size=size).close()
    one.initiator(b"x" + mpa.request())
    assert decode(capture) == []


@pytest.mark.parametrize("options", [[], ["-2"]], ids=["one pass", "two passes"])
def test_mpa_may_begin_after_other_data(decode, options):
    capture = wire.Capture()
    one = capture.connect().initiator(b"hello").responder(b"MPA?").initiator(mpa.request("AC"))
    one.responder(mpa.reply("AC")).initiator(mpa.RTR["C"])
    texts = infos(decode(capture, *options))
    assert len(texts) == 3 and texts[2] == "RTR (zero-length RDMA Write)"


def test_port_of_another_protocol_needs_the_preference(decode):
    capture = wire.Capture()
    one = capture.connect(port=22)
    one.initiator(mpa.request("AC")).responder(mpa.reply("AC")).initiator(mpa.RTR["C"])
    assert decode(capture) == []
    for options in (["-o", "mpa2.ports:22"], ["-o", "mpa2.ports:20-30,99"],
                    ["-d", "tcp.port==22,mpa2"], ["-o", "tcp.try_heuristic_first:TRUE"]):
        assert infos(decode(capture, *options))[2] == "RTR (zero-length RDMA Write)", options


# ---- what is wrong or not there ----

def test_false_pd_length_ends_the_direction(decode):
    wrong = mpa.frame(mpa.REQUEST_KEY, S, 2, mpa.enhanced("A", 1, 1) + bytes(600))
    packets = decode(connection(wrong, mpa.reply(), [mpa.RTR["C"]]))
    assert infos(packets)[0] == ("MPA Request, Rev 2, flags S, PD_Length 604 is too large; "
                                 "Data after a wrong PD_Length")
    assert "PD_Length is above 512" in values(packets, "_ws.expert.message")
    assert infos(packets)[-1] == "Data after a wrong PD_Length"


def test_s_without_room_for_enhanced_data(decode):
    capture = wire.Capture()
    for length in range(4):
        exchange(capture, mpa.frame(mpa.REQUEST_KEY, S, 2, b"abc"[:length]), b"")
    packets = decode(capture)
    assert values(packets, "mpa2.pd_length") == ["0", "1", "2", "3"]
    assert values(packets, "_ws.expert.message") == [
        "S is set, but there is no room for enhanced data"] * 4
    assert values(packets, "mpa2.enhanced", "mpa2.ird") == [[], []]


def test_other_revisions_are_reported(decode):
    capture = wire.Capture()
    for rev in 0, 3, 255:
        exchange(capture, mpa.request(rev=rev), b"")
    packets = decode(capture)
    assert values(packets, "mpa2.rev") == ["0", "3", "255"]
    assert values(packets, "_ws.expert.message") == ["Rev is neither 1 nor 2"] * 3


def test_data_after_a_reject_and_before_the_reply(decode):
    packets = decode(connection(mpa.request(), mpa.reply(flags=S | R), [mpa.RTR["C"]]))
    assert infos(packets)[2] == "Data after a reject"
    packets = decode(connection(mpa.request(), mpa.fpdu(mpa.send(1))))
    assert infos(packets)[1] == "Data before the Reply"


def test_ulpdu_too_short_for_its_header(decode):
    capture = wire.Capture()
    whole = {"Read": mpa.read_request(1), "Send": mpa.send(1), "Write": mpa.tagged(0),
             "Terminate": mpa.untagged(7, 2, 1, bytes.fromhex("1202c000 0012") + mpa.send(1))}
    cases = [(name, cut) for name, ulpdu in whole.items() for cut in range(1, len(ulpdu))]
    for name, cut in cases:
        exchange(capture, mpa.request_rev1(flags=C), mpa.reply_rev1(),
                 [mpa.fpdu(whole[name][:cut], crc=True), mpa.fpdu(mpa.send(1), crc=True)])
    streams = by_stream(decode(capture))
    assert len(streams) == len(cases)
    for case, packets in zip(cases, streams.values()):
        assert "Too short for its header" in values(packets, "_ws.expert.message"), case
        assert "too short; " in infos(packets)[2], case
        assert values(packets, "mpa2.crc.status") == [GOOD, GOOD], case
        assert infos(packets)[2].endswith("; Send, MSN 1, 0 octets"), case


WRONG_CONTROLS = [(0x40, 0x43), (0x42, 0x43), (0x41, 0x03), (0x41, 0x83), (0x41, 0x48),
                  (0x41, 0x4F)]


def test_wrong_version_or_opcode(decode):
    capture = wire.Capture()
    for control in WRONG_CONTROLS:
        ulpdu = bytes(control) + mpa.send(1, b"data")[2:]
        exchange(capture, mpa.request_rev1(flags=C), mpa.reply_rev1(),
                 [mpa.fpdu(ulpdu, crc=True), mpa.fpdu(mpa.send(2), crc=True)])
    streams = by_stream(decode(capture))
    for packets in streams.values():
        assert values(packets, "_ws.expert.message") == ["Wrong version or opcode"]
        assert values(packets, "mpa2.ddp.msn", "mpa2.crc.status") == [["1", "2"], [GOOD, GOOD]]
    assert len(streams) == len(WRONG_CONTROLS)


def full_exchange(capture):
    """One connection with everything in it."""
    exchange(capture, mpa.request("ABCD", 4, 4, b"some", flags=C | S),
             mpa.reply("ABCD", 4, 4, b"more", flags=C | S),
             [mpa.RTR_CRC["D"], mpa.fpdu(mpa.send(1, b"abc"), crc=True)],
             [mpa.READ_RESPONSE_CRC, mpa.TERMINATE_IRD_CRC])


def test_packets_cut_by_the_capture(decode, tmp_path):
    capture = wire.Capture()
    for capture.snap in range(54, 150):
        full_exchange(capture)
    found = values(decode(capture), "_ws.expert.message")
    assert "The capture does not have all of this" in found
    assert "The capture does not have all of this" in tshark(tmp_path / "capture.pcap", "-V")


def test_capture_that_ends_anywhere(decode):
    capture, whole = wire.Capture(), wire.Capture()
    full_exchange(whole)
    stream = mpa.request("ABCD", 4, 4, b"some", flags=C | S) + mpa.RTR_CRC["D"]
    for cut in range(1, len(stream)):
        one = capture.connect()
        one.initiator(stream[:24]).responder(mpa.reply()) if cut > 24 else one
        one.initiator(stream[24 if cut > 24 else 0:cut]).close()
    decode(capture)
    decode(whole)


def damaged(dice, octets):
    """The same with a few wrong octets, and perhaps without its end."""
    octets = bytearray(octets)
    for _ in range(dice.randrange(4)):
        octets[dice.randrange(len(octets))] = dice.choice([0, 1, 0x7F, 0xFF, 0x41])
    if dice.random() < 0.3:
        del octets[dice.randrange(len(octets)):]
    return bytes(octets)


@pytest.mark.parametrize("options", [[], ["-2"], ["-o", "tcp.desegment_tcp_streams:FALSE"]],
                         ids=["one pass", "two passes", "no reassembly"])
def test_random_damage_raises_no_lua_error(tmp_path, options):
    dice = random.Random(20)
    capture = wire.Capture()
    for _ in range(200):
        capture.snap = dice.choice([wire.WHOLE, 80, 100])
        size = dice.choice([1, 7, 20, 1400])
        junk = mpa.fpdu(dice.randbytes(dice.randrange(60)), crc=True) + dice.randbytes(9)
        exchange(capture, damaged(dice, mpa.request("ABCD", 4, 4, b"some", flags=C | S)),
                 damaged(dice, mpa.reply("ABCD", 4, 4, flags=C | S)),
                 [damaged(dice, mpa.RTR_CRC["D"] + mpa.terminate(1, 2, 2, True))],
                 [damaged(dice, junk)], size=size)
    text = tshark(capture.write(tmp_path / "capture.pcap"), "-O", "mpa2", *SHOWN, *options)
    assert text.count("MPA Request") > 20 and text.count("FPDU") > 20


# ---- sessions over SCTP ----

CONTROL, SEGMENT = chunks.PPID_CONTROL, chunks.PPID_SEGMENT
FAMILIES = pytest.mark.parametrize("ipv6", [False, True], ids=["IPv4", "IPv6"])
ENHANCED = "Enhanced DDP Stream Session"
PLAIN = "DDP Stream Session"


def control(ssn, code, pd=b""):
    """A control chunk for a packet."""
    return CONTROL, chunks.control(ssn, code, pd)


def segment(ssn, octets):
    """A segment chunk for a packet."""
    return SEGMENT, chunks.segment(ssn, octets)


def texts_of(packets):
    """What the dissector has put into the Info column behind each TSN."""
    return [text.strip() for info in infos(packets)
            for text in re.split(r"DATA \(TSN=\d+\) ", info)[1:]]


# The control chunks of requirements 1.7: DDP-SSN, code, private data, and what is shown.
CONTROLS = [
    (0, 1, b"hi", f"{PLAIN} Initiate, DDP-SSN 0, 2 octets of private data"),
    (0, 2, b"", f"{PLAIN} Accept, DDP-SSN 0"),
    (0, 3, b"", f"{PLAIN} Reject, DDP-SSN 0"),
    (1, 4, b"", f"{PLAIN} Terminate, DDP-SSN 1"),
    (0, 5, mpa.enhanced("ABCD", 32, 16) + b"hi",
     f"{ENHANCED} Initiate, DDP-SSN 0, A B C D, IRD 32, ORD 16, 2 octets of private data"),
    (0, 6, mpa.enhanced("AC", 16, 8), f"{ENHANCED} Accept, DDP-SSN 0, A C, IRD 16, ORD 8"),
    (0, 7, mpa.enhanced("AC", 16, 64), f"{ENHANCED} Reject, DDP-SSN 0, A C, IRD 16, ORD 64"),
    (0, 0xFFFF, b"own", "experimental session control, DDP-SSN 0, 3 octets of private data"),
]


@FAMILIES
def test_control_chunks(decode, ipv6):
    capture = wire.Capture()
    one = capture.associate(ipv6)
    for stream, (ssn, code, pd, _) in enumerate(CONTROLS):
        one.active(control(ssn, code, pd), stream=stream)
    packets = decode(capture)
    assert texts_of(packets) == [text for *_, text in CONTROLS]
    assert values(packets, "mpa2.ssn", "mpa2.function") == [
        [str(ssn) for ssn, *_ in CONTROLS], [f"0x{code:04x}" for _, code, *_ in CONTROLS]]
    assert values(packets, *(f"mpa2.{flag}" for flag in "abcd")) == [
        ["1", "1", "1"], ["1", "0", "0"], ["1", "1", "1"], ["1", "0", "0"]]
    assert values(packets, "mpa2.ird", "mpa2.ord") == [["32", "16", "16"], ["16", "8", "64"]]
    assert values(packets, "mpa2.private_data") == ["6869", "6869", b"own".hex()]
    assert values(packets, "_ws.expert.message") == ["Reject"] * 2
    for packet in packets:
        assert packet["frame.protocols"][0].endswith(":sctp:mpa2")
        assert len(packet["mpa2.control"]) == 1


# The segment chunks of requirements 1.7, by what is shown.
SEGMENTS = {
    "RTR (zero-length Send), DDP-SSN 1": chunks.RTR["B"],
    "RTR (zero-length RDMA Write), DDP-SSN 1": chunks.RTR["C"],
    "RTR (zero-length RDMA Read), DDP-SSN 1": chunks.RTR["D"],
    "Terminate 2/0/07, MPA: no matching RTR, DDP-SSN 1": chunks.TERMINATE_RTR,
}
TWO_PASSES = pytest.mark.parametrize("options", [[], ["-2"]], ids=["one pass", "two passes"])


@TWO_PASSES
@FAMILIES
def test_segment_chunks(decode, ipv6, options):
    capture = wire.Capture()
    one = capture.associate(ipv6)
    for stream, octets in enumerate(SEGMENTS.values()):
        one.active(control(0, 5, mpa.enhanced("ABCD", 1, 1)), stream=stream)
        one.passive(control(0, 6, mpa.enhanced("ABCD", 1, 1)), stream=stream)
        one.active(segment(1, octets), stream=stream)
    packets = decode(capture, *options)[2::3]
    assert texts_of(packets) == list(SEGMENTS)
    assert values(packets, "mpa2.rtr") == list(RTR_NAMES.values())
    assert values(packets, "mpa2.ssn", "mpa2.rdmap.opcode") == [
        ["1"] * 4, ["0x03", "0x00", "0x01", "0x07"]]
    assert values(packets, "mpa2.terminate.layer", "mpa2.terminate.type", "mpa2.terminate.code",
                  "mpa2.terminate.error") == [["2"], ["0"], ["0x07"], ["no matching RTR"]]
    assert values(packets, "_ws.expert.message") == ["Terminate 2/0/07, MPA: no matching RTR"]
    assert values(packets, "mpa2.fpdu", "mpa2.crc", "mpa2.payload", "mpa2.other") == [[]] * 4


WHOLE_CHUNKS = ["0007001a 00000001 0001 0000 00000011 00000005c020c0106869 0000",
                "00070024 00000002 0001 0000 00000010"
                "0001 4143 00000000 00000000 00000001 00000000"]


@FAMILIES
def test_whole_data_chunks_and_the_adaptation_parameter(decode, tmp_path, ipv6):
    """The rest of requirements 1.7, both chunks in one packet."""
    capture = wire.Capture()
    one = capture.associate(ipv6)
    one.active(control(0, 5, mpa.enhanced("ABCD", 32, 16) + b"hi"), segment(1, chunks.RTR["B"]))
    octets, _ = capture.packets[-1]
    assert octets.endswith(bytes.fromhex("".join(WHOLE_CHUNKS)))
    assert texts_of(decode(capture)) == [CONTROLS[4][-1], "RTR (zero-length Send), DDP-SSN 1"]
    shown = tshark(tmp_path / "capture.pcap", "-Y", "sctp.adaptation_layer_indication == 1",
                   "-o", "sctp.checksum:CRC-32C", "-T", "fields", "-e", "sctp.checksum.status",
                   "-e", "sctp.parameter_type")
    assert shown.splitlines() == ["1\t0xc006"] * 2  # the CRC of the packets is right


@TWO_PASSES
def test_rtr_is_the_first_segment_of_the_active_side_only(decode, options):
    capture = wire.Capture()
    one, write = capture.associate(), chunks.RTR["C"]
    offer, take = control(0, 5, mpa.enhanced("AC", 1, 1)), control(0, 6, mpa.enhanced("AC", 1, 1))
    one.active(offer).passive(take)
    one.active(segment(1, write), segment(2, write)).passive(segment(1, write))
    # The stream again, without A; another stream; another association.
    one.active(control(0, 5, mpa.enhanced("", 1, 1))).active(segment(1, write))
    one.active(control(0, 1), stream=2).active(segment(1, write), stream=2)
    one.active(offer).passive(take).active(segment(1, mpa.send(1, b"data")))
    capture.associate().active(segment(1, write))
    packets = decode(capture, *options)
    plain = "RDMA Write, 0 octets, DDP-SSN "
    assert [text for text in texts_of(packets) if PLAIN not in text] == [
        "RTR (zero-length RDMA Write), DDP-SSN 1", plain + "2", plain + "1", plain + "1",
        plain + "1", "Send, MSN 1, 4 octets, DDP-SSN 1", plain + "1"]
    assert values(packets, "_ws.expert.message") == ["The initiator's first FPDU is not an RTR"]


def test_headers_and_payload_of_segments(decode):
    capture = wire.Capture()
    capture.associate().active(
        segment(7, mpa.read_request(3, 0x11, 0x2200000001, 4096, 0x33, 0x4400000002)),
        segment(65535, mpa.untagged(4, 0, 9, b"xyz", offset=5, stag=0x77)),
        segment(0, mpa.tagged(2, 0x11, 0x2200000001, b"abc", last=False)))
    packets = decode(capture)
    assert texts_of(packets) == [
        "RDMA Read Request, MSN 3, 4096 octets, DDP-SSN 7",
        "Send with Invalidate, MSN 9, 3 octets, DDP-SSN 65535",
        "RDMA Read Response, 3 octets, DDP-SSN 0"]
    assert values(packets, "mpa2.read.size", "mpa2.ddp.inv_stag", "mpa2.payload") == [
        ["4096"], ["0x00000000", "0x00000077"], [b"xyz".hex(), b"abc".hex()]]


SHORT = "Too short for its header"
# PPID, user data, flags, the texts of the expert infos
WRONG_CHUNKS = {
    "no DDP-SSN": (CONTROL, b"\0", 7, [SHORT]),
    "no function code": (CONTROL, bytes(3), 7, [SHORT]),
    "no code at all": (CONTROL, bytes(2), 7, [SHORT]),
    "code 0": (*control(0, 0), 7, ["Unknown function code"]),
    "code 8": (*control(0, 8), 7, ["Unknown function code"]),
    "513 octets": (*control(0, 1, bytes(513)), 7, ["More than 512 octets of private data"]),
    "513 octets, enhanced": (*control(0, 6, mpa.enhanced("A", 1, 1) + bytes(509)), 7,
                             ["More than 512 octets of private data"]),
    "512 octets": (*control(0, 2, bytes(512)), 7, []),
    "Initiate with 3 octets": (*control(0, 5, b"abc"), 7, ["No room for enhanced data"]),
    "Accept with nothing": (*control(0, 6), 7, ["No room for enhanced data"]),
    "Reject with 3 octets": (*control(0, 7, b"abc"), 7, ["Reject"]),
    "Terminate with data": (*control(1, 4, b"hi"), 7, ["Private data in a Terminate"]),
    "ordered": (*control(0, 2), 3, ["Ordered DATA"]),
    "segment without DDP-SSN": (SEGMENT, b"\0", 7, [SHORT]),
    "segment of nothing": (SEGMENT, bytes(2), 7, [SHORT]),
    "segment of 13 octets": (*segment(1, mpa.tagged(0)[:13]), 7, [SHORT]),
    "segment of 14 octets": (*segment(1, mpa.tagged(0)), 7, []),
    "untagged of 17 octets": (*segment(1, mpa.send(1)[:17]), 7, [SHORT]),
    "wrong versions": (*segment(1, b"\x40\x03" + mpa.send(1)[2:]), 7, ["Wrong version or opcode"]),
    "ordered segment": (*segment(1, mpa.send(1)), 3, ["Ordered DATA"]),
}


@FAMILIES
def test_wrong_chunks(decode, ipv6):
    capture = wire.Capture()
    one = capture.associate(ipv6)
    for ppid, octets, flags, _ in WRONG_CHUNKS.values():
        one.active((ppid, octets), flags=flags)
    packets = decode(capture)
    assert len(packets) == len(WRONG_CHUNKS)
    for (name, (*_, experts)), packet in zip(WRONG_CHUNKS.items(), packets):
        assert packet["_ws.expert.message"] == experts, name


def test_other_ppids_are_left_alone(decode):
    capture = wire.Capture()
    one = capture.associate()
    for ppid in 0, 15, 70000:
        one.active((ppid, chunks.control(0, 1)))
    assert decode(capture) == []


def test_tcp_beside_sctp(decode):
    """Both on the same ports of the same hosts."""
    capture = wire.Capture()
    exchange(capture, mpa.request("AC"), mpa.reply("AC"), [mpa.RTR["C"]])
    capture.connections -= 1
    capture.associate().active(control(0, 1, b"hi"))
    packets = decode(capture)
    assert infos(packets)[2] == "RTR (zero-length RDMA Write)"
    assert texts_of(packets) == [CONTROLS[0][-1]]


def test_chunks_cut_by_the_capture(decode):
    """SCTP keeps them to itself; nothing is made of the octets that are there."""
    capture = wire.Capture()
    for capture.snap in range(40, 120):
        capture.associate().active(segment(1, chunks.RTR["D"]))
    whole = 14 + 20 + 12 + 16 + 48
    assert texts_of(decode(capture)) == [
        "RDMA Read Request, MSN 1, 0 octets, DDP-SSN 1"] * (120 - whole)


@TWO_PASSES
def test_random_chunks_raise_no_lua_error(tmp_path, options):
    dice = random.Random(21)
    capture = wire.Capture()
    one = capture.associate()
    whole = [control(0, code, bytes(8)) for code in range(9)] + [
        segment(1, octets) for octets in (*SEGMENTS.values(), mpa.terminate_ulpdu(1, 2, 2))]
    for _ in range(300):
        capture.snap = dice.choice([wire.WHOLE, 62, 70, 80])
        ppid, octets = dice.choice(whole)
        one.active((ppid, damaged(dice, octets) + dice.randbytes(dice.randrange(3)) or b"\0"))
    text = tshark(capture.write(tmp_path / "capture.pcap"), "-O", "mpa2", *SHOWN, *options)
    assert text.count("DDP-SSN") > 100
