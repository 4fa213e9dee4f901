# SPDX-License-Identifier: GPL-2.0
"""TCP connections out of a capture that tcpdump has written."""

import dataclasses
import ipaddress
import struct

FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10
FILE_HEADER_LEN = 24
PACKET_HEADER_LEN = 16
LINK_ETHERNET = 1
SEQ_MOD = 1 << 32


@dataclasses.dataclass
class Segment:
    """One TCP segment."""

    seconds: float
    source: tuple
    target: tuple
    seq: int
    flags: int
    data: bytes


@dataclasses.dataclass
class Event:
    """What happened next on a connection: data in order, or FIN, or RST.

    direction: 0 from the initiator, 1 from the responder.
    """

    seconds: float
    direction: int
    kind: str
    data: bytes = b""


def _ip_payload(packet):
    """(source, target, TCP segment) of an Ethernet frame, or None."""
    (ethertype,) = struct.unpack(">H", packet[12:14])
    packet = packet[14:]
    if ethertype == 0x0800 and packet[9] == 6:
        header_len, total = (packet[0] & 15) * 4, struct.unpack(">H", packet[2:4])[0]
        return packet[12:16], packet[16:20], packet[header_len:total]
    if ethertype == 0x86DD and packet[6] == 6:
        total = 40 + struct.unpack(">H", packet[4:6])[0]
        return packet[8:24], packet[24:40], packet[40:total]
    return None


def parse_segments(octets):
    """The TCP segments in a capture file's octets; a cut last packet is left out."""
    if len(octets) < FILE_HEADER_LEN:
        return
    (magic,) = struct.unpack("<I", octets[:4])
    if magic not in (0xA1B2C3D4, 0xA1B23C4D):
        raise ValueError("not a little-endian capture file")
    fraction = 1e-9 if magic == 0xA1B23C4D else 1e-6
    if struct.unpack("<I", octets[20:24])[0] & 0xFFFF != LINK_ETHERNET:
        raise ValueError("not captured on Ethernet")
    at = FILE_HEADER_LEN
    while at + PACKET_HEADER_LEN <= len(octets):
        whole, part, size, _ = struct.unpack("<IIII", octets[at:at + PACKET_HEADER_LEN])
        packet = octets[at + PACKET_HEADER_LEN:at + PACKET_HEADER_LEN + size]
        if len(packet) < size:
            return
        at += PACKET_HEADER_LEN + size
        got = _ip_payload(packet)
        if got is None:
            continue
        source, target, tcp = got
        sport, dport, seq, _, offset, flags = struct.unpack(">HHIIBB", tcp[:14])
        yield Segment(whole + part * fraction, (source, sport), (target, dport), seq, flags,
                      bytes(tcp[(offset >> 4) * 4:]))


class _Direction:
    """One direction: puts octets into the order of their sequence numbers."""

    def __init__(self):
        self.next = None
        self.stream = bytearray()
        self.waiting = {}
        self.fin_at = None
        self.ended = False

    def _distance(self, seq):
        """How far seq is ahead of what is expected; negative for old octets."""
        ahead = (seq - self.next) % SEQ_MOD
        return ahead - SEQ_MOD if ahead >= SEQ_MOD // 2 else ahead

    def add(self, segment):
        """Kinds of events that this segment causes, with their data."""
        seq = segment.seq
        if segment.flags & SYN:
            self.next = (seq + 1) % SEQ_MOD
            return
        if segment.flags & RST:
            yield "RST", b""
            return
        if self.next is None:
            self.next = seq
        if segment.data:
            self.waiting[seq] = max(segment.data, self.waiting.get(seq, b""), key=len)
        if segment.flags & FIN:
            self.fin_at = (seq + len(segment.data)) % SEQ_MOD
        yield from self._in_order()
        if self.fin_at is not None and self.fin_at == self.next and not self.ended:
            self.ended = True
            yield "FIN", b""

    def _in_order(self):
        while self.waiting:
            seq = min(self.waiting, key=self._distance)
            distance = self._distance(seq)
            if distance > 0:
                return
            # What came before once more is cut off.
            data = self.waiting.pop(seq)[-distance:]
            if data:
                self.stream += data
                self.next = (self.next + len(data)) % SEQ_MOD
                yield "data", data


class Connection:
    """One TCP connection as the wire showed it."""

    def __init__(self, syn):
        self.initiator, self.responder = syn.source, syn.target
        self.start = syn.seconds
        self.events = []
        self._directions = (_Direction(), _Direction())

    def add(self, segment):
        """Take one segment of this connection."""
        direction = 0 if segment.source == self.initiator else 1
        for kind, data in self._directions[direction].add(segment):
            self.events.append(Event(segment.seconds - self.start, direction, kind, data))

    def stream(self, direction):
        """All octets of one direction."""
        return bytes(self._directions[direction].stream)

    def has(self, kind, direction=None):
        """Whether a FIN or RST was seen."""
        return any(event.kind == kind and direction in (None, event.direction)
                   for event in self.events)

    def __str__(self):
        ends = [f"{ipaddress.ip_address(address)} port {port}"
                for address, port in (self.initiator, self.responder)]
        return f"initiator {ends[0]}, responder {ends[1]}"


def connections_of(segments):
    """Connections in the order of their SYN; others are left out."""
    found, current = [], {}
    for segment in segments:
        ends = frozenset((segment.source, segment.target))
        if segment.flags & SYN and not segment.flags & ACK:
            known = current.get(ends)
            if known is None or known.events:
                current[ends] = Connection(segment)
                found.append(current[ends])
        if ends in current:
            current[ends].add(segment)
    return found


def read_connections(path):
    """All connections of a capture file."""
    with open(path, "rb") as file:
        return connections_of(parse_segments(file.read()))
