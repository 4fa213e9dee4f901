# SPDX-License-Identifier: GPL-2.0
"""SCTP's socket API as linux/sctp.h has it: options, control messages, notifications.

Python's socket module knows the protocol's number and no more. Pure functions; the
socket itself is in sctp_peer.py.
"""

import dataclasses
import socket
import struct

import chunks

IPPROTO_SCTP = 132

SCTP_INITMSG, SCTP_NODELAY = 2, 3
SCTP_ADAPTATION_LAYER, SCTP_DISABLE_FRAGMENTS = 7, 8
SCTP_RECVRCVINFO, SCTP_EVENT = 32, 127

# Types of control messages.
SCTP_SNDINFO, SCTP_RCVINFO = 2, 3

SCTP_UNORDERED, SCTP_ABORT, SCTP_EOF = 0x0001, 0x0004, 0x0200
MSG_NOTIFICATION = 0x8000

SCTP_ASSOC_CHANGE, SCTP_SHUTDOWN_EVENT = 0x8001, 0x8005
SCTP_ADAPTATION_INDICATION, SCTP_SENDER_DRY_EVENT = 0x8007, 0x8009
COMM_UP, COMM_LOST, RESTART, SHUTDOWN_COMP, CANT_START = range(5)

# In the order of the header's members; the compiler's padding is written out.
_INITMSG = "=HHHH"      # streams out, streams in, attempts, timeout
_EVENT = "=iHBx"        # association (0: those to come), type, on
_SNDINFO = "=HHIIi"     # stream, flags, PPID, context, association
_RCVINFO = "=HHHxxIIIIi"  # stream, SSN, flags, PPID, TSN, cumulative TSN, context, association
_HEADER = "=HHI"        # type, flags, length
_CHANGE = "=HHIHHHHi"   # header, state, error, streams out, streams in, association
_SHUTDOWN = "=HHIi"     # header, association; a sender that is dry likewise
_ADAPTATION = "=HHIIi"  # header, indication, association
RCVINFO_SPACE = socket.CMSG_SPACE(struct.calcsize(_RCVINFO))

UP, INDICATION, SHUTDOWN, DRY = "UP", "INDICATION", "SHUTDOWN", "DRY"
LOST, ENDED, FAILED, RESTARTED, OTHER = "LOST", "ENDED", "FAILED", "RESTARTED", "OTHER"
_STATES = {COMM_UP: UP, COMM_LOST: LOST, RESTART: RESTARTED, SHUTDOWN_COMP: ENDED,
           CANT_START: FAILED}


@dataclasses.dataclass
class Event:
    """What a notification says of an association."""

    kind: str
    association: int = 0
    streams_out: int = 0
    streams_in: int = 0
    indication: int = None
    error: int = 0

    @property
    def is_end(self):
        """Whether the association is no more."""
        return self.kind in (LOST, ENDED, FAILED)


# ---- what goes in ----

def initmsg(streams):
    """SCTP_INITMSG with as many streams out as in."""
    return struct.pack(_INITMSG, streams, streams, 0, 0)


def event(which):
    """SCTP_EVENT that subscribes to a notification."""
    return struct.pack(_EVENT, 0, which, 1)


def sndinfo(association, stream=0, ppid=0, flags=SCTP_UNORDERED):
    """The control message of one send. The kernel leaves the PPID as it is."""
    return (IPPROTO_SCTP, SCTP_SNDINFO,
            struct.pack(_SNDINFO, stream, flags, socket.htonl(ppid), 0, association))


# ---- what comes out ----

def parse_data(octets, control):
    """The Chunk of a message, by the control messages that came with it."""
    for level, kind, data in control:
        if (level, kind) == (IPPROTO_SCTP, SCTP_RCVINFO):
            stream, _, flags, ppid, tsn, _, _, association = struct.unpack(_RCVINFO, data)
            return chunks.Chunk(stream, socket.ntohl(ppid), octets,
                                bool(flags & SCTP_UNORDERED), tsn, association)
    raise ValueError(f"no SCTP_RCVINFO with {octets.hex(' ')}")


def parse_notification(octets):
    """The Event of a notification."""
    (kind, _, length) = struct.unpack_from(_HEADER, octets)
    if length != len(octets):
        raise ValueError(f"not a whole notification: {octets.hex(' ')}")
    if kind == SCTP_ASSOC_CHANGE:
        _, _, _, state, error, out, into, association = struct.unpack_from(_CHANGE, octets)
        return Event(_STATES[state], association, out, into, error=error)
    if kind == SCTP_ADAPTATION_INDICATION:
        _, _, _, indication, association = struct.unpack_from(_ADAPTATION, octets)
        return Event(INDICATION, association, indication=indication)
    if kind in (SCTP_SHUTDOWN_EVENT, SCTP_SENDER_DRY_EVENT):
        name = SHUTDOWN if kind == SCTP_SHUTDOWN_EVENT else DRY
        return Event(name, struct.unpack_from(_SHUTDOWN, octets)[3])
    return Event(OTHER)
