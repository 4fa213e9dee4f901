# SPDX-License-Identifier: GPL-2.0
"""A raw SCTP peer: a one-to-many socket whose owner says each chunk.

    peer = SctpPeer(host)                    peer = SctpPeer(host)
    association = peer.connect(addr, port)   peer.listen(); association = peer.accept()
    session = Session(association, stream)
    session.control(chunks.INITIATE, b"hi")
    session.expect_control(chunks.ACCEPT)

DATA goes unordered, one chunk a message, unless a test says otherwise. What comes back
has to be unordered always (SCTP-07). A Session counts the DDP-SSNs of both directions.
"""

import collections
import errno
import socket
import struct
import time

import pytest

import chunks
import sctp_api
from conftest import seconds

STREAMS = 256
ROOM = 1 << 17
PATIENCE = 15  # seconds


class SctpPeer:
    """One endpoint of a host, and its associations."""

    def __init__(self, host, family=socket.AF_INET, indication=chunks.ADAPTATION_DDP,
                 streams=STREAMS, port=0):
        """An indication of None sends no such parameter."""
        self.address = host.address_of(family)
        self.sock = host.socket(family, socket.SOCK_SEQPACKET, sctp_api.IPPROTO_SCTP)
        self._option(sctp_api.SCTP_INITMSG, sctp_api.initmsg(streams))
        # The kernel sends the parameter for any indication but 0.
        self._option(sctp_api.SCTP_ADAPTATION_LAYER, struct.pack("=I", indication or 0))
        for option in (sctp_api.SCTP_NODELAY, sctp_api.SCTP_DISABLE_FRAGMENTS,
                       sctp_api.SCTP_RECVRCVINFO):
            self._option(option, struct.pack("=i", 1))
        for which in (sctp_api.SCTP_ASSOC_CHANGE, sctp_api.SCTP_SHUTDOWN_EVENT,
                      sctp_api.SCTP_ADAPTATION_INDICATION):
            self._option(sctp_api.SCTP_EVENT, sctp_api.event(which))
        self.sock.bind((self.address, port))
        self.port = self.sock.getsockname()[1]
        self.associations = {}
        self.arrived = collections.deque()

    def _option(self, option, value):
        self.sock.setsockopt(sctp_api.IPPROTO_SCTP, option, value)

    # ---- associations ----

    def listen(self, backlog=16):
        """Take associations; accept() has them."""
        self.sock.listen(backlog)
        return self

    def connect(self, address, port):
        """The association to a port; ConnectionError when there is none."""
        self.sock.setblocking(False)
        error = self.sock.connect_ex((address, port))
        if error not in (0, errno.EINPROGRESS):
            raise OSError(error, f"connect to {address} {port}")
        return self.accept()

    def accept(self, timeout=PATIENCE):
        """The next association that has come up."""
        end = time.monotonic() + seconds(timeout)
        while not self.arrived:
            self.pump(end)
        return self.arrived.popleft()

    def nobody_comes(self, for_seconds=0.3):
        """No association comes up in that time."""
        with pytest.raises(TimeoutError):
            raise AssertionError(f"came: {self.accept(for_seconds / seconds(1))}")

    # ---- messages ----

    def pump(self, end):
        """Take one message or notification to where it belongs; TimeoutError at `end`."""
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError("nothing has come")
        self.sock.settimeout(left)
        octets, control, flags, _ = self.sock.recvmsg(ROOM, sctp_api.RCVINFO_SPACE)
        assert flags & socket.MSG_EOR, f"a part of a message: {octets.hex(' ')}"
        if flags & sctp_api.MSG_NOTIFICATION:
            self._notified(sctp_api.parse_notification(octets))
        else:
            chunk = sctp_api.parse_data(octets, control)
            self.associations[chunk.association].items.append(chunk)

    def _notified(self, event):
        if event.kind == sctp_api.UP:
            association = Association(self, event)
            self.associations[event.association] = association
            self.arrived.append(association)
        elif event.kind == sctp_api.FAILED:
            raise ConnectionRefusedError(event.error, f"no association: {event}")
        elif event.kind == sctp_api.INDICATION:
            self.associations[event.association].indication = event.indication
        elif event.kind != sctp_api.OTHER:
            self.associations[event.association].items.append(event)

    def send(self, octets, info):
        """One message with its SCTP_SNDINFO."""
        self.sock.settimeout(seconds(PATIENCE))
        self.sock.sendmsg([octets] if octets else [], [info])

    def close(self):
        """End all associations by ABORT."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=ii", 1, 0))
        self.sock.close()


class Association:
    """One of them, up."""

    def __init__(self, peer, event):
        self.peer, self.number = peer, event.association
        self.streams_out, self.streams_in = event.streams_out, event.streams_in
        self.indication = None
        self.items = collections.deque()

    # ---- out ----

    def send_raw(self, stream, ppid, octets, unordered=True):
        """A DATA chunk of any kind."""
        flags = sctp_api.SCTP_UNORDERED if unordered else 0
        self.peer.send(octets, sctp_api.sndinfo(self.number, stream, ppid, flags))

    def send_control(self, stream, ssn, code, pd=b"", unordered=True):
        """A session control chunk."""
        self.send_raw(stream, chunks.PPID_CONTROL, chunks.control(ssn, code, pd), unordered)

    def send_segment(self, stream, ssn, segment, unordered=True):
        """A segment chunk."""
        self.send_raw(stream, chunks.PPID_SEGMENT, chunks.segment(ssn, segment), unordered)

    def abort(self):
        """End it by ABORT."""
        self.peer.send(b"", sctp_api.sndinfo(self.number, flags=sctp_api.SCTP_ABORT))

    def shutdown(self):
        """End it by SHUTDOWN."""
        self.peer.send(b"", sctp_api.sndinfo(self.number, flags=sctp_api.SCTP_EOF))

    # ---- in ----

    def _fits(self, item, stream):
        return stream is None or isinstance(item, sctp_api.Event) or item.stream == stream

    def receive(self, timeout=PATIENCE, stream=None):
        """The next chunk, of one stream or any, or the next Event; TimeoutError."""
        end = time.monotonic() + seconds(timeout)
        while True:
            for item in self.items:
                if self._fits(item, stream):
                    self.items.remove(item)
                    return item
            self.peer.pump(end)

    def receive_chunk(self, stream=None):
        """The next chunk, and no end before it."""
        chunk = self.receive(stream=stream)
        assert isinstance(chunk, chunks.Chunk), chunk
        assert chunk.unordered, f"ordered: {chunk}"
        return chunk

    def expect_indication(self, timeout=1):
        """The peer's adaptation indication, None when it has sent none."""
        end = time.monotonic() + seconds(timeout)
        try:
            while self.indication is None:
                self.peer.pump(end)
        except TimeoutError:
            pass
        return self.indication

    def expect_control(self, stream, ssn, code, pd=b""):
        """The next chunk of a stream is exactly that; without a PD of None."""
        chunk = self.receive_chunk(stream)
        assert (chunk.ppid, chunk.ssn, chunk.code) == (chunks.PPID_CONTROL, ssn, code), \
            str(chunk)
        assert pd is None or chunk.private_data == pd, str(chunk)
        return chunk

    def expect_segment(self, stream, ssn, segment=None):
        """The next chunk of a stream is a segment, that one if it is given."""
        chunk = self.receive_chunk(stream)
        assert (chunk.ppid, chunk.ssn) == (chunks.PPID_SEGMENT, ssn), str(chunk)
        assert segment is None or chunk.segment == segment, str(chunk)
        return chunk

    def expect_silence(self, for_seconds=0.3, stream=None):
        """Neither a chunk nor an end comes in that time."""
        try:
            item = self.receive(for_seconds / seconds(1), stream)
        except TimeoutError:
            return
        raise AssertionError(f"came: {item}")

    def expect_end(self):
        """The association ends without another chunk; returns how, LOST for an ABORT."""
        while True:
            event = self.receive()
            assert isinstance(event, sctp_api.Event), f"came: {event}"
            if event.is_end:
                return event.kind


class Session:
    """One stream pair of an association, with the DDP-SSNs of either direction."""

    def __init__(self, association, stream=0):
        self.association, self.stream = association, stream
        self.sent = self.got = 0

    def _next(self):
        self.sent += 1
        return self.sent - 1

    def control(self, code, pd=b"", unordered=True):
        """Send a control chunk."""
        self.association.send_control(self.stream, self._next(), code, pd, unordered)

    def segment(self, segment, unordered=True):
        """Send a segment."""
        self.association.send_segment(self.stream, self._next(), segment, unordered)

    def raw(self, ppid, octets):
        """Send what stands in for the next chunk, whatever its number says."""
        self.association.send_raw(self.stream, ppid, octets)

    def expect_control(self, code, pd=b""):
        """The next chunk."""
        self.got += 1
        return self.association.expect_control(self.stream, self.got - 1, code, pd)

    def expect_segment(self, segment=None):
        """The next chunk."""
        self.got += 1
        return self.association.expect_segment(self.stream, self.got - 1, segment)

    def silent(self, for_seconds=0.3):
        """Nothing comes."""
        self.association.expect_silence(for_seconds, self.stream)

    def over(self):
        """The other end's Terminate, and nothing behind it."""
        self.expect_control(chunks.TERMINATE)
        self.silent()
