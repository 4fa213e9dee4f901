# SPDX-License-Identifier: GPL-2.0
"""MPA startup frames and FPDUs: building, parsing, and showing a capture.

Used by the end-to-end tests as the other end of the wire, and as a program:

    mpa.py FILE.pcap [--port PORT] [--connection N]

prints the exchange of one captured connection, one frame a line.
Nothing here shares code with the module under test.
"""

import argparse
import dataclasses
import struct
import sys

import tcp_capture

REQUEST_KEY = b"MPA ID Req Frame"
REPLY_KEY = b"MPA ID Rep Frame"
HEADER_LEN = 20
MAX_PD_LENGTH = 512

FLAG_M = 0x80
FLAG_C = 0x40
FLAG_R = 0x20
FLAG_S = 0x10
FLAG_RES = 0x0F

NO_NEGOTIATION = 0x3FFF

# The first FPDU of an initiator, by flag of the enhanced data; MPA CRC off.
RTR = {
    "B": bytes.fromhex("0012 4143 00000000 00000000 00000001 00000000 00000000"),
    "C": bytes.fromhex("000e c140 00000001 0000000000000000 00000000"),
    "D": bytes.fromhex("002e 4141 00000000 00000001 00000001 00000000"
                       "00000001 0000000000000000 00000000 00000001 0000000000000000"
                       "00000000"),
}
READ_RESPONSE = bytes.fromhex("000e c142 00000001 0000000000000000 00000000")
RTR_CRC = {
    "B": bytes.fromhex("0012 4143 00000000 00000000 00000001 00000000 587be8c4"),
    "C": bytes.fromhex("000e c140 00000001 0000000000000000 ebd34c5f"),
    "D": bytes.fromhex("002e 4141 00000000 00000001 00000001 00000000"
                       "00000001 0000000000000000 00000000 00000001 0000000000000000"
                       "27dbd7e7"),
}
READ_RESPONSE_CRC = bytes.fromhex("000e c142 00000001 0000000000000000 21a3e83e")
# With a Marker in front, for a peer that asked for Markers; MPA CRC on.
RTR_MARKER_CRC = {
    "B": bytes.fromhex("00000000 0012 4143 00000000 00000000 00000001 00000000 88c1d6fc"),
    "C": bytes.fromhex("00000000 000e c140 00000001 0000000000000000 3f1ff9a1"),
    "D": bytes.fromhex("00000000 002e 4141 00000000 00000001 00000001 00000000"
                       "00000001 0000000000000000 00000000 00000001 0000000000000000"
                       "546b3da4"),
}
EMPTY_FPDU = bytes.fromhex("00000000 00000000")
TERMINATE_LOCAL = bytes.fromhex("0016 4147 00000000 00000002 00000001 00000000 20050000 00000000")
TERMINATE_IRD = bytes.fromhex("0016 4147 00000000 00000002 00000001 00000000 20060000 00000000")
TERMINATE_RTR = bytes.fromhex("0016 4147 00000000 00000002 00000001 00000000 20070000 00000000")
TERMINATE_LOCAL_CRC = TERMINATE_LOCAL[:-4] + bytes.fromhex("1680d5f1")
TERMINATE_IRD_CRC = TERMINATE_IRD[:-4] + bytes.fromhex("6540fb1b")
TERMINATE_RTR_CRC = TERMINATE_RTR[:-4] + bytes.fromhex("1bd2babe")

OPCODES = {
    0: "RDMA Write", 1: "RDMA Read Request", 2: "RDMA Read Response", 3: "Send",
    4: "Send with Invalidate", 5: "Send with Solicited Event",
    6: "Send with Solicited Event and Invalidate", 7: "Terminate",
}
OP_WRITE, OP_READ_REQUEST, OP_READ_RESPONSE, OP_SEND, OP_TERMINATE = 0, 1, 2, 3, 7
LAYERS = {0: "RDMAP", 1: "DDP", 2: "MPA"}
MPA_ERRORS = {
    1: "TCP connection lost or closed", 2: "CRC mismatch", 3: "Marker mismatch",
    4: "invalid Request or Reply frame", 5: "local catastrophic error",
    6: "insufficient IRD", 7: "no matching RTR",
}


def _crc32c_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _crc32c_table()


def crc32c(data):
    """CRC32c (Castagnoli) as iSCSI and MPA use it."""
    crc = 0xFFFFFFFF
    for octet in data:
        crc = _TABLE[(crc ^ octet) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


# ---- building ----

def enhanced(kinds="", ird=0, ord_=0):
    """The four octets of enhanced data; `kinds` are the flags, as in "ABCD"."""
    assert set(kinds) <= set("ABCD"), kinds
    first, second = ird, ord_
    for flag, mask in (("A", 0x8000), ("B", 0x4000)):
        first |= mask if flag in kinds else 0
    for flag, mask in (("C", 0x8000), ("D", 0x4000)):
        second |= mask if flag in kinds else 0
    return struct.pack(">HH", first, second)


def frame(key, flags, rev, data=b"", length=None):
    """A startup frame; `length` puts a false PD_Length into it."""
    return key + struct.pack(">BBH", flags, rev, len(data) if length is None else length) + data


def request(kinds="ACD", ird=1, ord_=1, data=b"", flags=FLAG_S, rev=2):
    """An enhanced Request."""
    return frame(REQUEST_KEY, flags, rev, enhanced(kinds, ird, ord_) + data)


def request_rev1(data=b"", flags=0):
    """A Request as RFC 5044 has it."""
    return frame(REQUEST_KEY, flags, 1, data)


def reply(kinds="AC", ird=1, ord_=1, data=b"", flags=FLAG_S, rev=2):
    """An enhanced Reply; an accept unless flags say otherwise."""
    return frame(REPLY_KEY, flags, rev, enhanced(kinds, ird, ord_) + data)


def reply_rev1(data=b"", flags=0):
    """A Reply as RFC 5044 has it."""
    return frame(REPLY_KEY, flags, 1, data)


def fpdu(ulpdu, crc=False):
    """One FPDU without Markers."""
    body = struct.pack(">H", len(ulpdu)) + ulpdu
    body += bytes(-len(body) % 4)
    return body + (struct.pack("<I", crc32c(body)) if crc else bytes(4))


def untagged(opcode, queue, msn, payload=b"", offset=0, last=True, stag=0):
    """The ULPDU of a message on a queue."""
    control = 0x41 if last else 0x01
    return struct.pack(">BBIIII", control, 0x40 | opcode, stag, queue, msn, offset) + payload


def send(msn, payload=b""):
    """The ULPDU of a Send."""
    return untagged(OP_SEND, 0, msn, payload)


def tagged(opcode, stag=1, offset=0, payload=b"", last=True):
    """The ULPDU of a Write or Read Response."""
    control = 0xC1 if last else 0x81
    return struct.pack(">BBIQ", control, 0x40 | opcode, stag, offset) + payload


def read_request(msn, sink_stag=1, sink_to=0, size=0, source_stag=1, source_to=0):
    """The ULPDU of a Read Request."""
    return untagged(OP_READ_REQUEST, 1, msn, struct.pack(
        ">IQIIQ", sink_stag, sink_to, size, source_stag, source_to))


def terminate_ulpdu(layer, etype, code):
    """The ULPDU of a Terminate without any header of the message it complains about."""
    return untagged(OP_TERMINATE, 2, 1, struct.pack(">BBH", layer << 4 | etype, code, 0))


def terminate(layer, etype, code, crc=False):
    """The same as an FPDU."""
    return fpdu(terminate_ulpdu(layer, etype, code), crc)


# ---- parsing ----

class EnhancedData:
    """What has `private_data`, and says by `is_enhanced` how that begins."""

    @property
    def _halves(self):
        return struct.unpack(">HH", self.private_data[:4])

    @property
    def kinds(self):
        """The flags of the enhanced data that are set, as in "ACD"."""
        if not self.is_enhanced:
            return ""
        first, second = self._halves
        return "".join(name for name, half, mask in (
            ("A", first, 0x8000), ("B", first, 0x4000),
            ("C", second, 0x8000), ("D", second, 0x4000)) if half & mask)

    @property
    def ird(self):
        """IRD, None without enhanced data."""
        return self._halves[0] & 0x3FFF if self.is_enhanced else None

    @property
    def ord(self):
        """ORD, None without enhanced data."""
        return self._halves[1] & 0x3FFF if self.is_enhanced else None

    @property
    def ulp_data(self):
        """What belongs to the ULP."""
        return self.private_data[4:] if self.is_enhanced else self.private_data

    def _data_text(self):
        depths = ""
        if self.is_enhanced:
            depths = " | " + " ".join(f"{kind}={int(kind in self.kinds)}" for kind in "ABCD")
            depths += f" IRD {_depth(self.ird)} ORD {_depth(self.ord)}"
        return depths + f" | private data {_some_hex(self.ulp_data)}"


@dataclasses.dataclass
class Frame(EnhancedData):
    """A startup frame."""

    key: bytes
    flags: int
    rev: int
    private_data: bytes

    @property
    def is_request(self):
        """Request or Reply."""
        return self.key == REQUEST_KEY

    @property
    def is_enhanced(self):
        """Whether the private data begins with enhanced data."""
        return self.rev >= 2 and bool(self.flags & FLAG_S) and len(self.private_data) >= 4

    @property
    def rejects(self):
        """A Reply with R."""
        return not self.is_request and bool(self.flags & FLAG_R)

    @property
    def crc(self):
        """C."""
        return bool(self.flags & FLAG_C)

    @property
    def length(self):
        """Octets on the wire."""
        return HEADER_LEN + len(self.private_data)

    def __str__(self):
        name = "MPA Request" if self.is_request else \
            "MPA Reply, reject" if self.rejects else "MPA Reply, accept"
        bits = " ".join(f"{bit}={int(bool(self.flags & mask))}" for bit, mask in (
            ("M", FLAG_M), ("C", FLAG_C), ("R", FLAG_R), ("S", FLAG_S)))
        return f"{name}: Rev {self.rev} {bits}{self._data_text()}"


def parse_frame(data):
    """(Frame, octets used), or None while more octets are needed."""
    if len(data) < HEADER_LEN:
        return None
    key = bytes(data[:16])
    flags, rev, length = struct.unpack(">BBH", data[16:HEADER_LEN])
    if key not in (REQUEST_KEY, REPLY_KEY) or length > MAX_PD_LENGTH:
        raise ValueError(f"not a startup frame: {data[:HEADER_LEN].hex(' ')}")
    if len(data) < HEADER_LEN + length:
        return None
    end = HEADER_LEN + length
    return Frame(key, flags, rev, bytes(data[HEADER_LEN:end])), end


@dataclasses.dataclass
class Fpdu:
    """One FPDU, and what the DDP and RDMAP headers in it say."""

    octets: bytes

    @property
    def ulpdu(self):
        """The DDP segment."""
        (length,) = struct.unpack(">H", self.octets[:2])
        return self.octets[2:2 + length]

    @property
    def opcode(self):
        """RDMAP opcode."""
        return self.ulpdu[1] & 0x0F if len(self.ulpdu) >= 2 else None

    @property
    def is_tagged(self):
        """DDP's T bit."""
        return bool(self.ulpdu[0] & 0x80)

    @property
    def is_last(self):
        """DDP's L bit."""
        return bool(self.ulpdu[0] & 0x40)

    @property
    def queue(self):
        """QN of an untagged segment."""
        return struct.unpack(">I", self.ulpdu[6:10])[0]

    @property
    def msn(self):
        """MSN of an untagged segment."""
        return struct.unpack(">I", self.ulpdu[10:14])[0]

    @property
    def offset(self):
        """MO of an untagged segment, TO of a tagged one."""
        if self.is_tagged:
            return struct.unpack(">Q", self.ulpdu[6:14])[0]
        return struct.unpack(">I", self.ulpdu[14:18])[0]

    @property
    def stag(self):
        """STag of a tagged segment."""
        return struct.unpack(">I", self.ulpdu[2:6])[0]

    @property
    def payload(self):
        """What follows the DDP header."""
        return self.ulpdu[14 if self.is_tagged else 18:]

    @property
    def crc_is_right(self):
        """Whether the last four octets are the CRC."""
        return struct.unpack("<I", self.octets[-4:])[0] == crc32c(self.octets[:-4])

    def _crc_text(self):
        if self.crc_is_right:
            return "CRC good"
        return "CRC not used" if self.octets[-4:] == bytes(4) else "CRC field not the CRC"

    def _terminate_text(self):
        layer_type, code = self.payload[0], self.payload[1]
        layer = layer_type >> 4
        text = f"layer {layer} type {layer_type & 15} code {code}"
        if layer == 2 and code in MPA_ERRORS:
            text += f" ({MPA_ERRORS[code]})"
        return text + f" [{layer_type:02x} {code:02x}]"

    def __str__(self):
        if not self.ulpdu:
            return f"FPDU without ULPDU, {self._crc_text()}"
        name = OPCODES.get(self.opcode, f"opcode {self.opcode}")
        if self.is_tagged:
            text = f"{name}: STag {self.stag:#x} TO {self.offset:#x}, {len(self.payload)} octets"
        elif self.opcode == OP_READ_REQUEST and len(self.payload) >= 28:
            sink, to, size, source, source_to = struct.unpack(">IQIIQ", self.payload[:28])
            text = (f"{name}: MSN {self.msn}, {size} octets from STag {source:#x} "
                    f"TO {source_to:#x} to STag {sink:#x} TO {to:#x}")
        elif self.opcode == OP_TERMINATE and len(self.payload) >= 4:
            text = f"{name}: {self._terminate_text()}"
        else:
            text = f"{name}: MSN {self.msn} MO {self.offset}, {len(self.payload)} octets"
        return f"{text}, {self._crc_text()}"

    @property
    def rtr_kind(self):
        """The flag that announces such an RTR: "B", "C", "D", or None."""
        if not self.ulpdu:
            return "B"
        if self.opcode == OP_SEND and not self.payload:
            return "B"
        if self.opcode == OP_WRITE and not self.payload:
            return "C"
        if self.opcode == OP_READ_REQUEST and self.payload[12:16] == bytes(4):
            return "D"
        return None


def parse_fpdu(data):
    """(Fpdu, octets used), or None while more octets are needed."""
    if len(data) < 2:
        return None
    (length,) = struct.unpack(">H", data[:2])
    total = 2 + length + (-(2 + length) % 4) + 4
    if len(data) < total:
        return None
    return Fpdu(bytes(data[:total])), total


def _depth(value):
    return "not negotiated (0x3fff)" if value == NO_NEGOTIATION else str(value)


def _some_hex(data):
    if not data:
        return "none"
    text = data[:16].hex(" ") + (" ..." if len(data) > 16 else "")
    return f"{len(data)} octets: {text}"


class StreamDecoder:
    """One direction of a connection: a startup frame, then FPDUs."""

    def __init__(self):
        self.buffer = bytearray()
        self.started = False
        self.lost = None

    def feed(self, data):
        """All frames and FPDUs that are whole now."""
        self.buffer += data
        found = []
        while not self.lost:
            try:
                got = parse_fpdu(self.buffer) if self.started else parse_frame(self.buffer)
            except ValueError as error:
                self.lost = str(error)
                break
            if got is None:
                break
            item, used = got
            del self.buffer[:used]
            self.started = True
            found.append(item)
        return found


INITIATOR, RESPONDER = 0, 1
ARROWS = ("initiator -> responder", "responder -> initiator")


@dataclasses.dataclass
class Exchange:
    """One line of a connection's exchange."""

    seconds: float
    direction: int
    item: object

    def __str__(self):
        return f"{self.seconds * 1000:9.3f} ms  {ARROWS[self.direction]}  {self.item}"


def decode(connection):
    """The exchange of a captured connection, in the order on the wire.

    Items are Frame, Fpdu, and text for what TCP did.
    """
    decoders = (StreamDecoder(), StreamDecoder())
    first_rtr_due = False
    for event in connection.events:
        if event.kind != "data":
            yield Exchange(event.seconds, event.direction, event.kind)
            continue
        decoder = decoders[event.direction]
        for item in decoder.feed(event.data):
            if isinstance(item, Frame) and not item.is_request:
                first_rtr_due = "A" in item.kinds and not item.rejects
            if isinstance(item, Fpdu) and event.direction == INITIATOR and first_rtr_due:
                first_rtr_due = False
                if item.rtr_kind:
                    item = f"RTR ({item.rtr_kind}): {item}"
            yield Exchange(event.seconds, event.direction, item)
        if decoder.lost:
            yield Exchange(event.seconds, event.direction, decoder.lost)
            return


def frames_of(connection, direction):
    """(startup frame, [FPDU...], octets after the startup frame) of one direction."""
    stream = connection.stream(direction)
    got = parse_frame(stream)
    if got is None:
        return None, [], b""
    first, used = got
    rest, fpdus = stream[used:], []
    while (more := parse_fpdu(rest)) is not None:
        fpdus.append(more[0])
        rest = rest[more[1]:]
    return first, fpdus, stream[used:]


def main():
    """Show a capture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--port", type=int, help="only connections to this port")
    parser.add_argument("--connection", type=int, default=1, metavar="N",
                        help="the N-th connection (default 1), 0 for all")
    args = parser.parse_args()
    connections = [c for c in tcp_capture.read_connections(args.file)
                   if args.port in (None, c.responder[1])]
    if args.connection:
        connections = connections[args.connection - 1:args.connection]
    if not connections:
        sys.exit(f"{args.file}: no such connection")
    for connection in connections:
        print(f"{connection}")
        for line in decode(connection):
            print(line)


if __name__ == "__main__":
    main()
