# SPDX-License-Identifier: GPL-2.0
"""A random walk over the calls of rdma_cm's user interface.

Writes commands as librdmacm does, on ids that exist, that are gone and that never were, in
states in which nobody would, with QPs of its own and some that are none. Prints how many calls
of each kind succeeded. What counts is that the kernel lives on.
"""

import argparse
import collections
import ctypes
import errno
import os
import random
import select
import socket
import struct
import time

from pyverbs import enums
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.qp import QP, QPCap, QPInitAttr

DEVICE = "/dev/infiniband/rdma_cm"
(CREATE_ID, DESTROY_ID, BIND_IP, RESOLVE_IP, RESOLVE_ROUTE, QUERY_ROUTE, CONNECT, LISTEN, ACCEPT,
 REJECT, DISCONNECT, INIT_QP_ATTR, GET_EVENT, GET_OPTION, SET_OPTION, NOTIFY, JOIN_IP,
 LEAVE_MCAST, MIGRATE_ID, QUERY, BIND, RESOLVE_ADDR, JOIN) = range(23)
NAMES = {CREATE_ID: "create_id", DESTROY_ID: "destroy_id", BIND: "bind",
         RESOLVE_ADDR: "resolve_addr", RESOLVE_ROUTE: "resolve_route", CONNECT: "connect",
         LISTEN: "listen", ACCEPT: "accept", REJECT: "reject", DISCONNECT: "disconnect",
         INIT_QP_ATTR: "init_qp_attr", GET_EVENT: "get_event", SET_OPTION: "set_option",
         NOTIFY: "notify", MIGRATE_ID: "migrate_id", QUERY: "query"}
CONNECT_REQUEST = 4
PS_TCP, QPT_RC = 0x0106, 2
PORTS = range(7700, 7704)
QPS = 8


class Queues:
    """QPs of a device, as verbs make them."""

    def __init__(self, device):
        self.context = Context(name=device)
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 64)
        attr = QPInitAttr(qp_type=enums.IBV_QPT_RC, scq=self.cq, rcq=self.cq,
                          cap=QPCap(max_send_wr=2, max_recv_wr=2))
        self.qps = [QP(self.pd, attr) for _ in range(QPS)]

    def numbers(self):
        """By which rdma_cm is told."""
        return [qp.qp_num for qp in self.qps]


class Walk:
    """One opened device, the ids known, and a place for responses."""

    def __init__(self, seed, queues, addresses):
        self.random = random.Random(seed)
        self.addresses = addresses
        self.queues = queues  # which would go with the last one who knows them
        self.qps = queues.numbers() + [0, 0xffffff]
        self.requests = set()
        self.focus = None
        self.fd = os.open(DEVICE, os.O_RDWR | os.O_NONBLOCK)
        self.response = ctypes.create_string_buffer(1024)
        self.ids = []
        self.succeeded, self.failed = collections.Counter(), collections.Counter()

    def call(self, command, payload):
        """Whether it succeeded."""
        header = struct.pack("=IHH", command, len(payload), len(self.response))
        try:
            os.write(self.fd, header + payload)
        except OSError as error:
            self.failed[f"{NAMES[command]}:{errno.errorcode.get(error.errno, error.errno)}"] += 1
            return False
        self.succeeded[NAMES[command]] += 1
        return True

    def place(self):
        """Where responses go."""
        return ctypes.addressof(self.response)

    def some_id(self):
        """Mostly one that exists, and of these mostly one of the last."""
        if self.focus is not None:
            return self.focus
        if self.ids and self.random.random() < 0.95:
            return self.random.choice(self.ids[-4:] if self.random.random() < 0.8 else self.ids)
        return self.random.choice([0, 1, 7, 0xffffffff, self.random.getrandbits(32)])

    def address(self):
        """A sockaddr in 128 octets, and its length."""
        host, port = self.random.choice(self.addresses), self.random.choice(PORTS)
        if ":" in host:
            octets = struct.pack("=HHI16sI", socket.AF_INET6, socket.htons(port), 0,
                                 socket.inet_pton(socket.AF_INET6, host), 0)
        else:
            octets = struct.pack("=HH4s8x", socket.AF_INET, socket.htons(port),
                                 socket.inet_pton(socket.AF_INET, host))
        return octets.ljust(128, b"\0"), len(octets)

    def conn_param(self):
        """Depths, private data and a QP number as they come."""
        data = self.random.randbytes(self.random.choice([0, 1, 8, 255]))
        return struct.pack("=II256sBBBBBBBB", self.random.choice(self.qps), 0,
                           data.ljust(256, b"\0"), len(data), 0,
                           *(self.random.choice([0, 1, 16, 255]) for _ in range(2)), 0, 7, 7,
                           self.random.choice([0, 1]))

    def create_id(self):
        payload = struct.pack("=QQHBB4x", self.random.getrandbits(16), self.place(),
                              self.random.choice([PS_TCP] * 20 + [0x0111, 0, 0xffff]),
                              self.random.choice([QPT_RC] * 20 + [4, 0xff]), 0)
        if self.call(CREATE_ID, payload):
            self.ids.append(struct.unpack_from("=I", self.response.raw)[0])

    def destroy_id(self):
        number = self.some_id()
        if self.call(DESTROY_ID, struct.pack("=QII", self.place(), number, 0)):
            self.ids.remove(number)
            self.requests.discard(number)

    def bind(self):
        octets, length = self.address()
        return self.call(BIND, struct.pack("=IHH", self.some_id(), length, 0) + octets)

    def resolve_addr(self):
        """Mostly from no address in particular."""
        octets, length = self.address()
        source = self.address() if self.random.random() < 0.2 else (bytes(128), 0)
        self.call(RESOLVE_ADDR, struct.pack("=IIHHI", self.some_id(), 500, source[1], length, 0) +
                  source[0] + octets)

    def wait(self):
        """For the next event of the id in focus, for a moment: resolving is done by others."""
        end = time.monotonic() + 0.05
        while (left := end - time.monotonic()) > 0:
            if not select.select([self.fd], [], [], left)[0] or self.get_event() == self.focus:
                return

    def come_far(self):
        """What an application does, up to a connect that may meet one of our listeners."""
        self.create_id()
        if not self.ids:
            return
        self.focus = self.ids[-1]
        for step in (self.resolve_addr, self.resolve_route):
            step()
            self.wait()
        self.connect()
        self.focus = None

    def serve(self):
        """A listener, which it may take several tries to bind."""
        self.create_id()
        if not self.ids:
            return
        self.focus = self.ids[-1]
        for _ in range(8):
            if self.bind():
                self.listen()
                break
        self.focus = None

    def resolve_route(self):
        self.call(RESOLVE_ROUTE, struct.pack("=II", self.some_id(), 500))

    def connect(self):
        self.call(CONNECT, self.conn_param() + struct.pack("=I4xII", self.some_id(), 0, 0))

    def listen(self):
        self.call(LISTEN, struct.pack("=II", self.some_id(),
                                      self.random.choice([0, 1, 16, 0x7fffffff, 0xffffffff])))

    def request(self):
        """An id that a request has made, once each, or none: when others are accepted or
        rejected, iw_cm itself, of any device, loses track of the id or of its QP.
        """
        number = self.random.choice(sorted(self.requests) or [0x7fffffff])
        self.requests.discard(number)
        return number

    def accept(self):
        self.call(ACCEPT, struct.pack("=Q", self.random.getrandbits(16)) + self.conn_param() +
                  struct.pack("=I4xII", self.request(), 0, 0))

    def reject(self):
        length = self.random.choice([0, 1, 255])
        self.call(REJECT, struct.pack("=IBB2x256s", self.request(), length,
                                      self.random.choice([0, 28, 255]), bytes(256)))

    def disconnect(self):
        self.call(DISCONNECT, struct.pack("=I", self.some_id()))

    def init_qp_attr(self):
        self.call(INIT_QP_ATTR, struct.pack("=QII", self.place(), self.some_id(),
                                            self.random.choice([0, 1, 2, 3, 6, 255])))

    def get_event(self):
        """Takes an event if there is one, and returns its id; those of requests become known."""
        if not self.call(GET_EVENT, struct.pack("=Q", self.place())):
            return None
        _, number, event = struct.unpack_from("=QII", self.response.raw)
        if event == CONNECT_REQUEST and number not in self.ids:
            self.ids.append(number)
            self.requests.add(number)
        return number

    def set_option(self):
        value = ctypes.create_string_buffer(self.random.randbytes(8))
        self.call(SET_OPTION, struct.pack("=QIIII", ctypes.addressof(value), self.some_id(),
                                          self.random.choice([0, 1]),
                                          self.random.choice([0, 1, 2, 3, 9]),
                                          self.random.choice([1, 4, 8])))

    def notify(self):
        self.call(NOTIFY, struct.pack("=II", self.some_id(), self.random.choice([0, 3, 14])))

    def migrate_id(self):
        """To where it is already, or from what is no such file."""
        self.call(MIGRATE_ID, struct.pack("=QII", self.place(), self.some_id(),
                                          self.random.choice([self.fd, 0, 0xffffffff])))

    def query(self):
        self.call(QUERY, struct.pack("=QII", self.place(), self.some_id(),
                                     self.random.choice([0, 1, 2, 3])))

    def step(self):
        """Any call; what brings an id further comes more often than what ends it."""
        self.random.choice([
            *[self.come_far, self.destroy_id, self.get_event] * 3,
            *[self.resolve_addr, self.resolve_route, self.connect, self.accept] * 2,
            self.serve, self.create_id, self.bind, self.listen, self.reject, self.disconnect,
            self.init_qp_attr, self.set_option, self.notify, self.migrate_id, self.query])()


def main():
    """Walk, then leave everything to the kernel."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("calls", type=int)
    parser.add_argument("device")
    parser.add_argument("address", nargs="+")
    words = parser.parse_args()
    walk = Walk(words.seed, Queues(words.device), words.address)
    for _ in range(words.calls):
        walk.step()
    for counts in (walk.succeeded, walk.failed):
        print(" ".join(f"{name}={count}" for name, count in sorted(counts.items())))


if __name__ == "__main__":
    main()
