# SPDX-License-Identifier: GPL-2.0
"""A TCP peer made of single segments, for what no ordinary socket can be made to send.

The host's own TCP does not know these connections; nftables keeps its RSTs off the
wire. IPv4 only.
"""

import dataclasses
import ipaddress
import socket
import struct
import time

from conftest import seconds
from tcp_capture import ACK, FIN, PSH, RST, SEQ_MOD, SYN

URG = 0x20
MARK = 77 # on our own segments, to tell them from the host's
IP_HEADER_LEN = 20
WINDOW = 65535


@dataclasses.dataclass
class Segment:
    """One that has arrived."""

    flags: int
    seq: int
    ack: int
    data: bytes
    tos: int


def _checksum(octets):
    octets += bytes(len(octets) % 2)
    total = sum(struct.unpack(f">{len(octets) // 2}H", octets))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


class Segments:
    """One end of one TCP connection."""

    def __init__(self, host, own, peer):
        """own and peer are (address, port); a peer's port of 0 is learnt from its SYN."""
        self.own, self.peer = own, peer
        self.next, self.expected = 1000, None
        self.sock = host.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, MARK)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)

    def close(self):
        """Forget it; the peer's TCP is reset, so that nothing is left behind."""
        if self.peer[1]:
            self.send(RST | ACK)
        self.sock.close()

    # ---- out ----

    def send(self, flags=ACK | PSH, data=b"", at=0, urgent=0):
        """One segment. With `at` it lies so far ahead in the stream, and nothing moves."""
        header = struct.pack(">HHIIBBHHH", self.own[1], self.peer[1],
                             (self.next + at) % SEQ_MOD, self.expected or 0, 5 << 4, flags,
                             WINDOW, 0, urgent)
        addresses = b"".join(ipaddress.ip_address(address).packed
                             for address in (self.own[0], self.peer[0]))
        pseudo = addresses + struct.pack(">BBH", 0, socket.IPPROTO_TCP, len(header) + len(data))
        check = struct.pack(">H", _checksum(pseudo + header + data))
        self.sock.sendto(header[:16] + check + header[18:] + data, (self.peer[0], 0))
        if not at and not flags & RST:
            self.next += len(data) + bool(flags & SYN) + bool(flags & FIN)

    # ---- in ----

    def _parse(self, packet):
        length = (packet[0] & 15) * 4
        total = struct.unpack(">H", packet[2:4])[0]
        source = str(ipaddress.ip_address(packet[12:16]))
        tcp = packet[length:total]
        sport, dport, seq, ack, offset, flags = struct.unpack(">HHIIBB", tcp[:14])
        if dport != self.own[1] or source != self.peer[0] or \
                self.peer[1] not in (0, sport):
            return None
        self.peer = (source, sport)
        return Segment(flags, seq, ack, tcp[(offset >> 4) * 4:], packet[1])

    def segment(self, timeout=15):
        """The next one of this connection; TimeoutError when none comes."""
        end = time.monotonic() + timeout
        while True:
            self.sock.settimeout(max(0.001, end - time.monotonic()))
            got = self._parse(self.sock.recv(65535))
            if got:
                return got

    def expect(self, flags, timeout=15):
        """The next segment that has these flags."""
        while True:
            got = self.segment(seconds(timeout))
            if got.flags & flags == flags:
                return got

    def expect_data(self):
        """The next segment with octets in it."""
        while True:
            got = self.segment(seconds(15))
            if got.data:
                return got

    def connect(self, flags=ACK, data=b"", at=0):
        """SYN, SYN-ACK, and a third segment as told."""
        self.send(SYN)
        got = self.expect(SYN | ACK)
        self.expected = (got.seq + 1) % SEQ_MOD
        self.send(flags, data, at)
        return got

    def accept(self):
        """The other side of that."""
        got = self.expect(SYN)
        self.expected = (got.seq + 1) % SEQ_MOD
        self.send(SYN | ACK)
        return got

    def receive(self, length):
        """So many octets in order; each segment is acknowledged."""
        octets = b""
        while len(octets) < length:
            got = self.segment(seconds(15))
            assert not got.flags & RST, f"reset after {octets.hex()}"
            if got.data and got.seq == self.expected:
                octets += got.data
                self.expected = (self.expected + len(got.data)) % SEQ_MOD
                self.send(ACK)
        assert len(octets) == length, octets.hex()
        return octets

    def end(self):
        """FIN or RST, whichever the peer ends with; no octet may come before."""
        while True:
            got = self.segment(seconds(15))
            assert not got.data or got.seq != self.expected, got.data.hex()
            if got.flags & (FIN | RST):
                return "RST" if got.flags & RST else "FIN"

    def acknowledged(self):
        """Wait until the peer has acknowledged all that was sent."""
        while True:
            got = self.segment(seconds(15))
            if got.flags & ACK and got.ack == self.next % SEQ_MOD:
                return

    def is_not_acknowledged(self, for_seconds=0.3):
        """The peer takes no notice of what was sent last."""
        end = time.monotonic() + for_seconds
        try:
            while time.monotonic() < end:
                got = self.segment(for_seconds)
                assert got.ack != self.next % SEQ_MOD, "it was acknowledged"
        except TimeoutError:
            pass


class Quiet:
    """Keeps the RSTs of a host's own TCP off the wire for one port."""

    def __init__(self, host, port):
        self.host, self.table = host, f"quiet_{port}"
        host.run("nft", f"add table ip {self.table}; add chain ip {self.table} out "
                 "{ type filter hook output priority 0; }; "
                 f"add rule ip {self.table} out tcp sport {port} tcp flags & rst == rst "
                 f"meta mark != {MARK} drop")

    def end(self):
        """Take the rule away."""
        self.host.run("nft", f"delete table ip {self.table}")


class Maker:
    """Makes them for one test."""

    def __init__(self, hosta, hostb):
        self.hosta, self.hostb = hosta, hostb
        self.reserved, self.quiet, self.made = [], [], []

    def _make(self, host, own_address, peer):
        reserved = host.socket() # holds the port and never listens
        reserved.bind((own_address, 0))
        self.reserved.append(reserved)
        port = reserved.getsockname()[1]
        self.quiet.append(Quiet(host, port))
        self.made.append(Segments(host, (own_address, port), peer))
        return self.made[-1]

    def initiator(self, port):
        """On hosta, towards a port of hostb."""
        return self._make(self.hosta, self.hosta.address, (self.hostb.address, port))

    def responder(self):
        """On hostb, for whoever connects to its own[1]."""
        return self._make(self.hostb, self.hostb.address, (self.hosta.address, 0))

    def end(self):
        """Take it all away."""
        for item in self.made:
            item.close()
        for item in self.quiet:
            item.end()
        for item in self.reserved:
            item.close()
