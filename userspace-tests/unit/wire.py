# SPDX-License-Identifier: GPL-2.0
"""Captures of TCP connections, written without a network."""

import struct

FIN, SYN, ACK = 0x01, 0x02, 0x10
LINK_ETHERNET = 1
WHOLE = 65535

INITIATOR = (b"\x0a\x4d\x00\x01", b"\x02\0\0\0\0\1", 40000)
RESPONDER = (b"\x0a\x4d\x00\x02", b"\x02\0\0\0\0\2", 7174)


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
    pseudo = source[0] + target[0] + struct.pack(">HH", 6, len(tcp))
    tcp = tcp[:16] + struct.pack(">H", _sum(pseudo + tcp)) + tcp[18:]
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0x4000, 64, 6, 0)
    ip += source[0] + target[0]
    ip = ip[:10] + struct.pack(">H", _sum(ip)) + ip[12:]
    return target[1] + source[1] + b"\x08\x00" + ip + tcp


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
