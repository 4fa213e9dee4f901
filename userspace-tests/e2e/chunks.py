# SPDX-License-Identifier: GPL-2.0
"""The chunks of DDP stream sessions over SCTP (requirements 1.7): building and parsing.

User data of DATA chunks, and whole chunks for captures. What a segment has in it is
built and read by mpa.py. Nothing here shares code with the module under test.
"""

import dataclasses
import struct

import mpa

PPID_SEGMENT, PPID_CONTROL = 16, 17
ADAPTATION_DDP = 1

INITIATE, ACCEPT, REJECT, TERMINATE = 1, 2, 3, 4
ENHANCED_INITIATE, ENHANCED_ACCEPT, ENHANCED_REJECT = 5, 6, 7
EXPERIMENTAL = 0xFFFF
FUNCTIONS = {
    INITIATE: "Initiate", ACCEPT: "Accept", REJECT: "Reject", TERMINATE: "Terminate",
    ENHANCED_INITIATE: "Enhanced Initiate", ENHANCED_ACCEPT: "Enhanced Accept",
    ENHANCED_REJECT: "Enhanced Reject", EXPERIMENTAL: "experimental",
}
SSN_MOD = 1 << 16

# The first segment of the active side of a peer-to-peer session, by flag.
RTR = {"B": mpa.send(1), "C": mpa.tagged(mpa.OP_WRITE), "D": mpa.read_request(1)}
READ_RESPONSE = mpa.tagged(mpa.OP_READ_RESPONSE)
TERMINATE_LOCAL, TERMINATE_IRD, TERMINATE_RTR = (
    mpa.terminate_ulpdu(2, 0, code) for code in (5, 6, 7))

CHUNK_DATA, CHUNK_INIT, CHUNK_INIT_ACK = 0, 1, 2
FLAG_END, FLAG_BEGIN, FLAG_UNORDERED = 0x01, 0x02, 0x04
WHOLE_UNORDERED = FLAG_UNORDERED | FLAG_BEGIN | FLAG_END
PARAMETER_ADAPTATION = 0xC006


# ---- building ----

def control(ssn, code, pd=b""):
    """The user data of a session control chunk."""
    return struct.pack(">HH", ssn % SSN_MOD, code) + pd


def segment(ssn, octets):
    """The user data of a segment chunk."""
    return struct.pack(">H", ssn % SSN_MOD) + octets


def data_chunk(tsn, stream, ppid, octets, flags=WHOLE_UNORDERED):
    """A whole DATA chunk with its padding."""
    head = struct.pack(">BBHIHHI", CHUNK_DATA, flags, 16 + len(octets), tsn, stream, 0, ppid)
    return head + octets + bytes(-len(octets) % 4)


def adaptation_parameter(indication=ADAPTATION_DDP):
    """The parameter of an INIT or INIT ACK."""
    return struct.pack(">HHI", PARAMETER_ADAPTATION, 8, indication)


def init_chunk(kind, tag, tsn, streams, parameters=b""):
    """An INIT or INIT ACK with as many streams out as in."""
    return struct.pack(">BBHIIHHI", kind, 0, 20 + len(parameters), tag, 65535, streams,
                       streams, tsn) + parameters


# ---- parsing ----

@dataclasses.dataclass
class Chunk(mpa.EnhancedData):
    """What one DATA chunk has brought."""

    stream: int
    ppid: int
    octets: bytes
    unordered: bool = True
    tsn: int = 0
    association: int = 0

    @property
    def is_control(self):
        """PPID 17, and whole."""
        return self.ppid == PPID_CONTROL and len(self.octets) >= 4

    @property
    def is_segment(self):
        """PPID 16, and whole."""
        return self.ppid == PPID_SEGMENT and len(self.octets) >= 2

    @property
    def ssn(self):
        """DDP-SSN, None where there is none."""
        is_ours = self.is_control or self.is_segment
        return struct.unpack(">H", self.octets[:2])[0] if is_ours else None

    @property
    def code(self):
        """Function code, None where there is none."""
        return struct.unpack(">H", self.octets[2:4])[0] if self.is_control else None

    @property
    def private_data(self):
        """All of it, enhanced data included."""
        return self.octets[4:] if self.is_control else b""

    @property
    def is_enhanced(self):
        """Whether the private data begins with enhanced data."""
        return self.code in (ENHANCED_INITIATE, ENHANCED_ACCEPT, ENHANCED_REJECT) and \
            len(self.private_data) >= 4

    @property
    def segment(self):
        """The DDP segment."""
        return self.octets[2:] if self.is_segment else b""

    @property
    def message(self):
        """The segment's headers, read as those of an FPDU."""
        return mpa.Fpdu(mpa.fpdu(self.segment))

    def __str__(self):
        how = "" if self.unordered else ", ordered"
        if self.is_control:
            name = FUNCTIONS.get(self.code, f"unassigned code {self.code:#06x}")
            return f"stream {self.stream} SSN {self.ssn}{how}: {name}{self._data_text()}"
        if self.is_segment:
            return (f"stream {self.stream} SSN {self.ssn}{how}: segment of {len(self.segment)} "
                    f"octets: {self.segment.hex(' ')}")
        return f"stream {self.stream} PPID {self.ppid}{how}: {self.octets.hex(' ')}"


def parse_data_chunks(octets):
    """A Chunk for each of the DATA chunks in a row of whole chunks."""
    found = []
    while octets:
        kind, flags, length = struct.unpack(">BBH", octets[:4])
        if length < 4 or length > len(octets):
            raise ValueError(f"not a chunk: {octets[:16].hex(' ')}")
        if kind == CHUNK_DATA:
            tsn, stream, _, ppid = struct.unpack(">IHHI", octets[4:16])
            found.append(Chunk(stream, ppid, bytes(octets[16:length]),
                               bool(flags & FLAG_UNORDERED), tsn))
        octets = octets[length + -length % 4:]
    return found
