# SPDX-License-Identifier: GPL-2.0
"""SCTP's socket API: the structures as the compiler lays them out, and what is read."""

import socket
import struct

import chunks
import pytest
import sctp_api

# Member by member, in this machine's order of octets.
CHANGE = struct.Struct("=HHIHHHHi")


def change(state, association=7, out=256, into=128, error=0):
    """The octets of a change of an association."""
    return CHANGE.pack(sctp_api.SCTP_ASSOC_CHANGE, 0, CHANGE.size, state, error, out, into,
                       association)


def test_sizes_of_the_structures():
    assert len(sctp_api.initmsg(256)) == 8
    assert len(sctp_api.event(sctp_api.SCTP_ASSOC_CHANGE)) == 8
    assert len(sctp_api.sndinfo(1)[2]) == 16
    assert sctp_api.RCVINFO_SPACE == socket.CMSG_SPACE(28)


def test_sndinfo_has_the_ppid_in_network_order():
    level, kind, octets = sctp_api.sndinfo(9, 3, chunks.PPID_CONTROL)
    assert (level, kind) == (132, 2)
    assert octets[:4] == struct.pack("=HH", 3, sctp_api.SCTP_UNORDERED)
    assert octets[4:8] == bytes([0, 0, 0, 17])
    assert octets[8:] == struct.pack("=Ii", 0, 9)


def test_chunk_of_a_message():
    info = struct.pack("=HHHxx4sIIIi", 5, 0, sctp_api.SCTP_UNORDERED, bytes([0, 0, 0, 16]),
                       99, 0, 0, 7)
    octets = chunks.segment(1, chunks.RTR["C"])
    chunk = sctp_api.parse_data(octets, [(0, 0, b""), (132, 3, info)])
    assert chunk == chunks.Chunk(5, chunks.PPID_SEGMENT, octets, True, 99, 7)
    with pytest.raises(ValueError):
        sctp_api.parse_data(octets, [])


@pytest.mark.parametrize("state, kind, is_end", [
    (0, sctp_api.UP, False), (1, sctp_api.LOST, True), (2, sctp_api.RESTARTED, False),
    (3, sctp_api.ENDED, True), (4, sctp_api.FAILED, True)])
def test_change_of_an_association(state, kind, is_end):
    event = sctp_api.parse_notification(change(state, error=4))
    assert event == sctp_api.Event(kind, 7, 256, 128, error=4) and event.is_end == is_end


def test_what_follows_a_change_is_not_read():
    """An ABORT chunk comes along with a COMM_LOST."""
    octets = bytearray(change(1) + b"abcd")
    octets[4:8] = struct.pack("=I", len(octets))
    assert sctp_api.parse_notification(bytes(octets)).kind == sctp_api.LOST
    with pytest.raises(ValueError):
        sctp_api.parse_notification(bytes(octets[:-1]))


def test_other_notifications():
    adaptation = struct.pack("=HHIIi", sctp_api.SCTP_ADAPTATION_INDICATION, 0, 16, 1, 7)
    assert sctp_api.parse_notification(adaptation) == sctp_api.Event(
        sctp_api.INDICATION, 7, indication=1)
    for kind, name in ((sctp_api.SCTP_SHUTDOWN_EVENT, sctp_api.SHUTDOWN),
                       (sctp_api.SCTP_SENDER_DRY_EVENT, sctp_api.DRY)):
        assert sctp_api.parse_notification(struct.pack("=HHIi", kind, 0, 12, 7)) == \
            sctp_api.Event(name, 7)
    assert sctp_api.parse_notification(struct.pack("=HHI", 0x8002, 0, 8)).kind == sctp_api.OTHER
