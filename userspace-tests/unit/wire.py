# SPDX-License-Identifier: GPL-2.0
"""Captures of TCP connections and SCTP associations, written without a network."""

import struct

import chunks
import mpa

FIN, SYN, ACK = 0x01, 0x02, 0x10
LINK_ETHERNET = 1
WHOLE = 65535

INITIATOR = (b"\x0a\x4d\x00\x01", b"\x02\0\0\0\0\1", 40000)
RESPONDER = (b"\x0a\x4d\x00\x02", b"\x02\0\0\0\0\2", 7174)
PREFIX6 = b"\xfd\x77" + bytes(10)
IP_TCP, IP_SCTP = 6, 132


def _sum(octets):
    """The Internet checksum."""
    octets += bytes(len(octets) % 2)
    total = sum(struct.unpack(f">{len(octets) // 2}H", octets))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _packet(source, target, seq, ack, flags, data):
    tcp = struct.pack(">HHIIBBHHH", source[2], target[2], seq % 2**32, ack % 2**32,
                      5 << 4, flags, WHOLE, 0, 0) + data
    pseudo = source[0] + target[0] + struct.pack(">HH", IP_TCP, len(tcp))
    tcp = tcp[:16] + struct.pack(">H", _sum(pseudo + tcp)) + tcp[18:]
    return _frame(source, target, IP_TCP, tcp)


def _frame(source, target, protocol, payload):
    """An Ethernet frame; the addresses say of which family."""
    if len(source[0]) == 16:
        ip = struct.pack(">IHBB", 6 << 28, len(payload), protocol, 64) + source[0] + target[0]
        return target[1] + source[1] + b"\x86\xdd" + ip + payload
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0x4000, 64, protocol, 0)
    ip += source[0] + target[0]
    ip = ip[:10] + struct.pack(">H", _sum(ip)) + ip[12:]
    return target[1] + source[1] + b"\x08\x00" + ip + payload


class Capture:
    """A capture file with connections one after the other.

    Of each packet that is added `snap` octets are kept.
    """

    def __init__(self, snap=WHOLE):
        self.snap = snap
        self.packets = []
        self.connections = 0

    def connect(self, port=RESPONDER[2]):
        """A new connection, its handshake done."""
        self.connections += 1
        initiator = INITIATOR[:2] + (INITIATOR[2] + self.connections,)
        return Connection(self, initiator, RESPONDER[:2] + (port,))

    def associate(self, ipv6=False):
        """A new SCTP association, its INIT and INIT ACK done."""
        self.connections += 1
        active, passive = INITIATOR, RESPONDER
        if ipv6:
            active, passive = ((PREFIX6 + end[0],) + end[1:] for end in (active, passive))
        return Association(self, active[:2] + (active[2] + self.connections,), passive)

    def write(self, path):
        """Write the file, with a millisecond between packets."""
        out = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, WHOLE, LINK_ETHERNET)]
        for number, (packet, size) in enumerate(self.packets):
            out.append(struct.pack("<IIII", 1000 + number // 1000, number % 1000 * 1000,
                                   len(packet), size) + packet)
        path.write_bytes(b"".join(out))
        return path


class Connection:
    """A connection in a capture, with right seq and ack numbers in both directions."""

    def __init__(self, capture, initiator, responder):
        self.capture = capture
        self.ends = (initiator, responder)
        self.seq = [1000, 2**32 - 10]
        self._packet(0, SYN)
        self._packet(1, SYN | ACK)
        self._packet(0, ACK)

    def _packet(self, who, flags, data=b""):
        ack = self.seq[1 - who] if flags & ACK else 0
        packet = _packet(self.ends[who], self.ends[1 - who], self.seq[who], ack, flags, data)
        self.capture.packets.append((packet[:self.capture.snap], len(packet)))
        self.seq[who] += len(data) + bool(flags & (SYN | FIN))

    def _data(self, who, data, size):
        for at in range(0, len(data), size):
            self._packet(who, ACK, data[at:at + size])
        return self

    def initiator(self, *octets, size=1400):
        """The initiator sends, in segments of `size` octets."""
        return self._data(0, b"".join(octets), size)

    def responder(self, *octets, size=1400):
        """The responder sends, in segments of `size` octets."""
        return self._data(1, b"".join(octets), size)

    def lose(self, who, octets):
        """Octets that the capture has missed."""
        self.seq[who] += octets
        return self

    def close(self):
        """Both ends send FIN."""
        self._packet(0, FIN | ACK)
        self._packet(1, FIN | ACK)
        return self


class Association:
    """An SCTP association in a capture: packets with DATA chunks of any user data."""

    streams = 256

    def __init__(self, capture, active, passive):
        self.capture = capture
        self.ends = (active, passive)
        self.tags = (active[2], passive[2])
        self.tsn = [1, 1]
        for who, kind in ((0, chunks.CHUNK_INIT), (1, chunks.CHUNK_INIT_ACK)):
            self._packet(who, chunks.init_chunk(kind, self.tags[who], 1, self.streams,
                                                chunks.adaptation_parameter()),
                         tag=None if who else 0)

    def _packet(self, who, octets, tag=None):
        source, target = self.ends[who], self.ends[1 - who]
        head = struct.pack(">HHI", source[2], target[2],
                           self.tags[1 - who] if tag is None else tag)
        check = struct.pack("<I", mpa.crc32c(head + bytes(4) + octets))
        packet = _frame(source, target, IP_SCTP, head + check + octets)
        self.capture.packets.append((packet[:self.capture.snap], len(packet)))

    def _data(self, who, messages, stream, flags):
        octets = b""
        for ppid, data in messages:
            octets += chunks.data_chunk(self.tsn[who], stream, ppid, data, flags)
            self.tsn[who] += 1
        self._packet(who, octets)
        return self

    def active(self, *messages, stream=1, flags=chunks.WHOLE_UNORDERED):
        """One packet of the active side with a chunk for each (PPID, user data)."""
        return self._data(0, messages, stream, flags)

    def passive(self, *messages, stream=1, flags=chunks.WHOLE_UNORDERED):
        """The same of the passive side."""
        return self._data(1, messages, stream, flags)
