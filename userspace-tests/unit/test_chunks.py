# SPDX-License-Identifier: GPL-2.0
"""The chunks of DDP stream sessions against the octets of requirements 1.7."""

import chunks
import mpa
import pytest


def octets(text):
    """Octets of a hex string."""
    return bytes.fromhex(text)


# name, code, DDP-SSN, private data, user data
CONTROLS = [
    ("Initiate", 1, 0, b"hi", "0000 0001 6869"),
    ("Accept", 2, 0, b"", "0000 0002"),
    ("Reject", 3, 0, b"", "0000 0003"),
    ("Terminate", 4, 1, b"", "0001 0004"),
    ("Enhanced Initiate", 5, 0, mpa.enhanced("ABCD", 32, 16) + b"hi", "0000 0005 c020c010 6869"),
    ("Enhanced Accept", 6, 0, mpa.enhanced("AC", 16, 8), "0000 0006 80108008"),
    ("Enhanced Reject", 7, 0, mpa.enhanced("AC", 16, 64), "0000 0007 80108040"),
]
SEGMENTS = [
    ("RTR Send", chunks.RTR["B"],
     "0001 4143 00000000 00000000 00000001 00000000"),
    ("RTR Write", chunks.RTR["C"],
     "0001 c140 00000001 0000000000000000"),
    ("RTR Read Request", chunks.RTR["D"],
     "0001 4141 00000000 00000001 00000001 00000000"
     "00000001 0000000000000000 00000000 00000001 0000000000000000"),
    ("Terminate 2/0/7", chunks.TERMINATE_RTR,
     "0001 4147 00000000 00000002 00000001 00000000 20070000"),
]
# TSN, PPID, user data, the whole chunk
WHOLE = [
    (1, chunks.PPID_CONTROL, CONTROLS[4][4],
     "0007001a 00000001 0001 0000 00000011 00000005c020c0106869 0000"),
    (2, chunks.PPID_SEGMENT, SEGMENTS[0][2],
     "00070024 00000002 0001 0000 00000010"
     "0001 4143 00000000 00000000 00000001 00000000"),
]
LENGTHS = {"Initiate": 6, "Accept": 4, "Reject": 4, "Terminate": 4, "Enhanced Initiate": 10,
           "Enhanced Accept": 8, "Enhanced Reject": 8, "RTR Send": 20, "RTR Write": 16,
           "RTR Read Request": 48, "Terminate 2/0/7": 24}


@pytest.mark.parametrize("name, code, ssn, pd, text", CONTROLS, ids=[c[0] for c in CONTROLS])
def test_control_chunk_both_ways(name, code, ssn, pd, text):
    """SCTP-08, SCTP-18, SCTP-30, SCTP-31."""
    built = chunks.control(ssn, code, pd)
    assert built == octets(text) and len(built) == LENGTHS[name]
    chunk = chunks.Chunk(1, chunks.PPID_CONTROL, built)
    assert (chunk.ssn, chunk.code, chunk.private_data, chunk.segment) == (ssn, code, pd, b"")
    assert f"SSN {ssn}: {name} | " in str(chunk)
    assert chunk.is_enhanced == (code in (5, 6, 7))


@pytest.mark.parametrize("name, ddp, text", SEGMENTS, ids=[s[0] for s in SEGMENTS])
def test_segment_chunk_both_ways(name, ddp, text):
    built = chunks.segment(1, ddp)
    assert built == octets(text) and len(built) == LENGTHS[name]
    chunk = chunks.Chunk(1, chunks.PPID_SEGMENT, built)
    assert (chunk.ssn, chunk.code, chunk.segment, chunk.private_data) == (1, None, ddp, b"")


@pytest.mark.parametrize("tsn, ppid, user_data, text", WHOLE, ids=["Enhanced Initiate", "RTR Send"])
def test_whole_data_chunk_both_ways(tsn, ppid, user_data, text):
    """SCTP-07."""
    built = chunks.data_chunk(tsn, 1, ppid, octets(user_data))
    assert built == octets(text)
    (chunk,) = chunks.parse_data_chunks(built)
    assert chunk == chunks.Chunk(1, ppid, octets(user_data), True, tsn)


def test_bundled_chunks_are_told_apart_and_nonsense_is_refused():
    bundle = b"".join(octets(text) for _, _, _, text in WHOLE)
    assert [chunk.tsn for chunk in chunks.parse_data_chunks(bundle)] == [1, 2]
    for wrong in (bundle[:-1], octets("00070003"), bundle + octets("00070000")):
        with pytest.raises(ValueError):
            chunks.parse_data_chunks(wrong)


def test_adaptation_parameter():
    """SCTP-01."""
    assert chunks.adaptation_parameter() == octets("c006000800000001")
    init = chunks.init_chunk(chunks.CHUNK_INIT, 7, 1, 256, chunks.adaptation_parameter())
    assert len(init) == 28 and init[12:16] == octets("01000100")  # SCTP-05


@pytest.mark.parametrize("kind", "BCD")
def test_rtr_is_the_ulpdu_of_the_fpdu(kind):
    assert mpa.fpdu(chunks.RTR[kind]) == mpa.RTR[kind]
    assert chunks.Chunk(0, 16, chunks.segment(1, chunks.RTR[kind])).message.rtr_kind == kind


@pytest.mark.parametrize("code, vector", [
    (5, chunks.TERMINATE_LOCAL), (6, chunks.TERMINATE_IRD), (7, chunks.TERMINATE_RTR)])
def test_terminate_is_the_ulpdu_of_the_fpdu(code, vector):
    assert mpa.fpdu(vector) == mpa.terminate(2, 0, code)


@pytest.mark.parametrize("code", [chunks.ENHANCED_INITIATE, chunks.ENHANCED_ACCEPT,
                                  chunks.ENHANCED_REJECT])
def test_enhanced_data_is_read_where_it_is_whole(code):
    """SCTP-30, AMB-06."""
    data = mpa.enhanced("ACD", 5, 0x3FFF) + b"more"
    for size in range(len(data)):
        chunk = chunks.Chunk(1, chunks.PPID_CONTROL, chunks.control(0, code, data[:size]))
        whole = size >= 4
        assert (chunk.kinds, chunk.ird, chunk.ord) == (("ACD", 5, 0x3FFF) if whole
                                                       else ("", None, None))
        assert chunk.ulp_data == (data[4:size] if whole else data[:size])


def test_what_is_too_short_or_of_another_ppid_has_no_number():
    for ppid, text in ((16, ""), (16, "00"), (17, "0000"), (17, "000000"), (46, "00000001")):
        chunk = chunks.Chunk(3, ppid, octets(text))
        assert (chunk.ssn, chunk.code, chunk.private_data, chunk.segment) == (None, None, b"", b"")
        assert f"stream 3 PPID {ppid}" in str(chunk)


def test_numbers_wrap():
    assert chunks.control(0x10000, 4) == octets("00000004")
    assert chunks.segment(0x1FFFF, b"") == octets("ffff")
