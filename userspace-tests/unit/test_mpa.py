# SPDX-License-Identifier: GPL-2.0
"""The wire-decoding helper against the standard's own octets."""

import struct

import mpa
import pytest
import tcp_capture


def octets(text):
    """Octets of a hex string."""
    return bytes.fromhex(text)


REQ = "4d504120494420526571204672616d65"
REP = "4d504120494420526570204672616d65"

FRAMES = [
    ("Rev 1 Request", mpa.request_rev1(flags=mpa.FLAG_C), REQ + "40010000"),
    ("Rev 1 accept", mpa.reply_rev1(flags=mpa.FLAG_C), REP + "40010000"),
    ("Rev 1 reject", mpa.reply_rev1(flags=mpa.FLAG_C | mpa.FLAG_R), REP + "60010000"),
    ("Rev 2 Request, client-server",
     mpa.request("", 32, 16, flags=mpa.FLAG_C | mpa.FLAG_S), REQ + "50020004" "00200010"),
    ("Rev 2 Request, all kinds, data",
     mpa.request("ABCD", 32, 16, b"hi", flags=mpa.FLAG_C | mpa.FLAG_S),
     REQ + "50020006" "c020c010" "6869"),
    ("Rev 2 accept",
     mpa.reply("AC", 16, 8, flags=mpa.FLAG_C | mpa.FLAG_S), REP + "50020004" "80108008"),
    ("Rev 2 reject",
     mpa.reply("AC", 16, 64, flags=mpa.FLAG_C | mpa.FLAG_S | mpa.FLAG_R),
     REP + "70020004" "80108040"),
]


@pytest.mark.parametrize("built, text", [f[1:] for f in FRAMES], ids=[f[0] for f in FRAMES])
def test_built_frame_has_the_octets_of_the_standard(built, text):
    assert built == octets(text)


@pytest.mark.parametrize("built", [f[1] for f in FRAMES], ids=[f[0] for f in FRAMES])
def test_frame_is_parsed_whole_at_every_split(built):
    for cut in range(len(built)):
        assert mpa.parse_frame(built[:cut]) is None
    frame, used = mpa.parse_frame(built + b"next")
    assert used == len(built)
    assert frame.key + built[16:20] + frame.private_data == built


ENHANCED = [
    ("", 0, 0, "00000000"), ("", 1, 1, "00010001"), ("", 32, 16, "00200010"),
    ("AB", 0, 0, "c0000000"), ("AC", 0, 0, "80008000"), ("AD", 0, 0, "80004000"),
    ("AD", 1, 0, "80014000"), ("ABCD", 32, 16, "c020c010"), ("AC", 16382, 16382, "bffebffe"),
    ("", 0x3FFF, 0x3FFF, "3fff3fff"), ("", 0x3FFF, 5, "3fff0005"), ("", 5, 0x3FFF, "00053fff"),
    ("ABCD", 0x3FFF, 0x3FFF, "ffffffff"),
]


@pytest.mark.parametrize("kinds, ird, ord_, text", ENHANCED)
def test_enhanced_data_both_ways(kinds, ird, ord_, text):
    assert mpa.enhanced(kinds, ird, ord_) == octets(text)
    frame, _ = mpa.parse_frame(mpa.frame(mpa.REQUEST_KEY, mpa.FLAG_S, 2, octets(text)))
    assert (frame.kinds, frame.ird, frame.ord, frame.ulp_data) == (kinds, ird, ord_, b"")


def test_private_data_of_rev_1_is_all_the_ulps():
    frame, _ = mpa.parse_frame(mpa.request_rev1(b"abcdef", flags=mpa.FLAG_S))
    assert (frame.ulp_data, frame.ird, frame.kinds) == (b"abcdef", None, "")


def test_false_length_or_key_is_refused():
    with pytest.raises(ValueError):
        mpa.parse_frame(mpa.frame(mpa.REQUEST_KEY, 0, 1, length=513))
    with pytest.raises(ValueError):
        mpa.parse_frame(b"SSH-2.0-something else")


BUILT_RTR = {
    "B": mpa.send(1), "C": mpa.tagged(mpa.OP_WRITE), "D": mpa.read_request(1),
}


@pytest.mark.parametrize("kind", "BCD")
def test_rtr_is_built_as_in_the_vectors(kind):
    assert mpa.fpdu(BUILT_RTR[kind]) == mpa.RTR[kind]
    assert mpa.fpdu(BUILT_RTR[kind], crc=True) == mpa.RTR_CRC[kind]
    assert mpa.parse_fpdu(mpa.RTR[kind])[0].rtr_kind == kind


def test_read_response_is_built_as_in_the_vectors():
    built = mpa.tagged(mpa.OP_READ_RESPONSE)
    assert mpa.fpdu(built) == mpa.READ_RESPONSE
    assert mpa.fpdu(built, crc=True) == mpa.READ_RESPONSE_CRC


@pytest.mark.parametrize("kind", "BCD")
def test_marker_in_front_is_covered_by_the_crc(kind):
    vector = mpa.RTR_MARKER_CRC[kind]
    assert vector[4:-4] == mpa.RTR[kind][:-4]
    assert struct.unpack("<I", vector[-4:])[0] == mpa.crc32c(vector[:-4])


@pytest.mark.parametrize("code, plain, with_crc", [
    (5, mpa.TERMINATE_LOCAL, mpa.TERMINATE_LOCAL_CRC),
    (6, mpa.TERMINATE_IRD, mpa.TERMINATE_IRD_CRC),
    (7, mpa.TERMINATE_RTR, mpa.TERMINATE_RTR_CRC),
])
def test_terminate_is_built_as_in_the_vectors(code, plain, with_crc):
    assert mpa.terminate(2, 0, code) == plain
    assert mpa.terminate(2, 0, code, crc=True) == with_crc
    assert f"layer 2 type 0 code {code}" in str(mpa.parse_fpdu(plain)[0])


def test_crc_check_value_and_empty_fpdu():
    assert mpa.crc32c(b"123456789") == 0xE3069283
    assert mpa.fpdu(b"") == mpa.EMPTY_FPDU
    assert mpa.fpdu(b"", crc=True) == octets("00000000c74b6748")


def test_padding_is_a_multiple_of_four():
    for size in range(16):
        one = mpa.fpdu(mpa.send(1, bytes(size)), crc=True)
        assert len(one) % 4 == 0
        fpdu, used = mpa.parse_fpdu(one)
        assert used == len(one) and fpdu.payload == bytes(size) and fpdu.crc_is_right
        damaged = bytearray(one)
        damaged[5] ^= 1
        assert not mpa.parse_fpdu(damaged)[0].crc_is_right


# ---- captures ----

A, B = (b"\x0a\x4d\x00\x01", 4000), (b"\x0a\x4d\x00\x02", 7000)
A6, B6 = (bytes(15) + b"\x01", 4000), (bytes(15) + b"\x02", 7000)


def packet(source, target, seq, flags, data=b""):
    """An Ethernet frame with a TCP segment."""
    tcp = struct.pack(">HHIIBBHHH", source[1], target[1], seq % 2**32, 0, 5 << 4, flags, 0, 0, 0)
    if len(source[0]) == 4:
        size = 20 + len(tcp) + len(data)
        return bytes(12) + b"\x08\x00" + struct.pack(
            ">BBHHHBBH", 0x45, 0, size, 0, 0, 64, 6, 0) + source[0] + target[0] + tcp + data
    return bytes(12) + b"\x86\xdd" + struct.pack(
        ">IHBB", 6 << 28, len(tcp) + len(data), 6, 64) + source[0] + target[0] + tcp + data


def capture(*packets):
    """A capture file, one millisecond between packets."""
    octets_ = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    for number, one in enumerate(packets):
        # Short Ethernet frames are padded on the wire.
        one = one.ljust(60, b"\0")
        octets_ += struct.pack("<IIII", 100, number * 1000, len(one), len(one)) + one
    return octets_


def connections(*packets):
    """The connections of such a file."""
    return tcp_capture.connections_of(tcp_capture.parse_segments(capture(*packets)))


@pytest.mark.parametrize("a, b", [(A, B), (A6, B6)], ids=["IPv4", "IPv6"])
def test_exchange_is_shown_line_by_line(a, b):
    req, rep = mpa.request("ACD", 4, 2, b"hi"), mpa.reply("ACD", 2, 4)
    syn, ack, fin = tcp_capture.SYN, tcp_capture.ACK, tcp_capture.FIN
    (connection,) = connections(
        packet(a, b, 99, syn), packet(b, a, 499, syn | ack), packet(a, b, 100, ack),
        packet(a, b, 100, ack, req),
        packet(b, a, 500, ack, rep),
        packet(a, b, 100 + len(req), ack, mpa.RTR["C"]),
        packet(b, a, 500 + len(rep), ack | fin, mpa.fpdu(mpa.send(1, b"data"))),
    )
    lines = [str(line) for line in mpa.decode(connection)]
    assert len(lines) == 5
    assert "MPA Request: Rev 2 M=0 C=0 R=0 S=1 | A=1 B=0 C=1 D=1 IRD 4 ORD 2" in lines[0]
    assert "2 octets: 68 69" in lines[0] and "3.000 ms  initiator -> responder" in lines[0]
    assert "MPA Reply, accept" in lines[1] and "responder -> initiator" in lines[1]
    assert "RTR (C): RDMA Write: STag 0x1 TO 0x0, 0 octets" in lines[2]
    assert "Send: MSN 1 MO 0, 4 octets" in lines[3]
    assert lines[4].endswith("FIN")


def test_disorder_repeats_and_wrapped_sequence_numbers_are_undone():
    data = bytes(range(200))
    base = 2**32 - 50
    syn, ack = tcp_capture.SYN, tcp_capture.ACK
    (connection,) = connections(
        packet(A, B, base - 1, syn),
        packet(A, B, base + 100, ack, data[100:]),
        packet(A, B, base, ack, data[:60]),
        packet(A, B, base, ack, data[:60]),
        packet(A, B, base + 40, ack, data[40:100]),
    )
    assert connection.stream(0) == data


def test_reset_is_seen_and_a_cut_file_is_read_up_to_the_cut():
    syn, rst = tcp_capture.SYN, tcp_capture.RST
    whole = capture(packet(A, B, 1, syn), packet(B, A, 0, rst), packet(A, B, 2, 0, b"x"))
    (connection,) = tcp_capture.connections_of(tcp_capture.parse_segments(whole[:-5]))
    assert connection.has("RST", 1) and not connection.has("RST", 0)
    assert connection.stream(0) == b""
