# SPDX-License-Identifier: GPL-2.0
"""Allocations that fail: one after the other, in everything that allocates.

Run by scripts/test-fail-nth on the debug kernel.  An operation is repeated, and
each time the next of its allocations fails (kunit/failnth.c says which is next),
until it has gone through with none left.  What has failed in one operation does
not fail again in another that makes the same calls.  Whatever fails, the caller
gets an error or an event within the timers, and nothing is left behind; after
some of them, and in the end, the same operation has to work.  The verdict of the
boot adds: no report of the kernel, both modules unload, no leak.
"""

import collections
import contextlib
import ctypes
import os
import pathlib
import select
import socket
import struct
import time

import pytest

import mpa
from conftest import CLONE_NEWNET, RULES, Raw, _LIBC, run, seconds, wait_until

FAILSLAB = pathlib.Path("/sys/kernel/debug/failslab")
FAILNTH = pathlib.Path("/sys/kernel/debug/iw_mpa2_failnth")
OURS, IW_CM = "iw_mpa2", "iw_cm"
# None of the operations has as many; one that goes on and on is a fault, too.
CHAINS_MAX = 500
# After so many failures nothing fails once, and the operation has to work.
SOUND_AFTER = int(os.environ.get("IW_SOUND_AFTER", "4"))
TIMEOUTS = {f"{step}_timeout_ms": 4000 for step in ("connect", "request", "reply", "rtr")}
WORKED = "worked"
TERMINAL = ("ESTABLISHED", "REJECTED", "CONNECT_ERROR", "UNREACHABLE", "DISCONNECTED")


class Failing:
    """The next allocation below some modules, in whatever task."""

    def __init__(self, modules):
        self._control(f"below {modules}")

    @staticmethod
    def _control(order):
        (FAILNTH / "control").write_text(order)

    def arm(self):
        """From here on."""
        self._control("arm")

    def disarm(self):
        """Up to here."""
        self._control("disarm")

    @staticmethod
    def chain():
        """Who called for what has failed, innermost first; empty if nothing has."""
        return (FAILNTH / "failed").read_text().splitlines()


class Sound:
    """In place of the above: no allocation fails."""

    def arm(self):
        """Nothing."""

    def disarm(self):
        """Nothing."""


def shown(chain):
    """A chain in one line, from the outermost function of a module to the allocation."""
    names = [line.split("+")[0] for line in reversed(chain) if "should_failslab" not in line]
    first = next((index for index, line in enumerate(reversed(chain)) if "[" in line), 0)
    return " > ".join(names[first:])


def in_progress(host):
    """Handshakes of a host's device."""
    path = f"/sys/class/infiniband/{host.device}/ports/1"
    for folder in ("hw_counters", "iw_mpa2_counters"):
        with contextlib.suppress(FileNotFoundError):
            return int(pathlib.Path(path, folder, "handshakes_in_progress").read_text())
    return 0


# What in the kernel drops an event without a word when there is no memory for it:
# the one excuse for hearing nothing.  iw_cm does so with a Request whose new id it
# cannot make.
LOSES_EVENTS = ("ucma_create_uevent", "ib_uverbs_comp_handler", "iw_create_cm_id")


def loses_event(chain):
    """The function of a chain that does so, or None."""
    names = [line.split("+")[0] for line in chain]
    return next((name for name in names if name in LOSES_EVENTS), None)


TOTAL = collections.Counter()


def report(name, number, begun, outcomes):
    """Of an operation that is done; at the start of a line, where pytest puts dots."""
    TOTAL["failed"] += number
    print(f"\nfail-nth: {name}: {number} allocations failed, 0 failures, "
          f"{time.monotonic() - begun:.0f} s: {outcomes}", flush=True)


def each_allocation(name, attempt, agents=(), modules=f"{OURS} {IW_CM}"):
    """The whole procedure; agents is what has to be reset before nothing is left."""
    def works(what):
        outcome = attempt(Sound())
        assert outcome == WORKED, f"{outcome}, though nothing fails {what}"

    begun = time.monotonic()
    works("yet")
    failing = Failing(modules)
    outcomes, since = collections.Counter(), []
    while True:
        assert sum(outcomes.values()) < CHAINS_MAX, f"{name}: no end"
        outcome = attempt(failing)
        failing.disarm()
        chain = failing.chain()
        if not chain:
            assert outcome == WORKED, f"{outcome}, though nothing fails after: {since}"
            break
        text = shown(chain)
        print(f"{name}: {outcome}: {text}", flush=True)
        if outcome == "nothing":
            assert loses_event(chain), f"neither an error nor an event after: {text}"
            outcome = f"event lost in {loses_event(chain)}"
        outcomes[outcome] += 1
        since.append(text)
        for agent in agents:
            agent.reset()
            wait_until(lambda host=agent.host: not in_progress(host),
                       f"{agent.host.device} to have no handshake after: {text}")
        if len(since) == SOUND_AFTER:
            works(f"any more, after: {since}")
            since.clear()
    report(name, sum(outcomes.values()), begun,
           ", ".join(f"{count} {what}" for what, count in sorted(outcomes.items())))


# ---- waiting for the first of several things ----

def order(agent, command):
    """Give a command; its errno."""
    agent.tell(command)
    return agent.expect("done", command=command.split()[0])["errno"]


def first_of(agent, names, timeout=10, also=lambda: False):
    """The first event with one of these names, or None; also() ends it as well, and
    after a second the failure of something that loses events.
    """
    begun = time.monotonic()
    while time.monotonic() < begun + seconds(timeout) and not also():
        if time.monotonic() > begun + 1 and loses_event(Failing.chain()):
            break
        for index, event in enumerate(agent.seen):
            if event["event"] in names:
                return agent.seen.pop(index)
        while not agent.lines.empty():
            agent.seen.append(agent.lines.get())
        time.sleep(0.005)
    return None


def told(event):
    """What an application has heard, as an outcome."""
    if event is None:
        return "nothing"
    if event["event"] == "WC" and not event["status"]:
        return WORKED
    if event["event"] == "ESTABLISHED" and not event["status"]:
        return WORKED
    return f"{event['event']} {event.get('status', event.get('errno'))}"


def got(raw, length):
    """So many octets, or what came before the peer's end."""
    octets = b""
    with contextlib.suppress(ConnectionResetError):
        while len(octets) < length:
            more = raw.sock.recv(length - len(octets))
            if not more:
                break
            octets += more
    return octets


@pytest.fixture(scope="session", autouse=True, name="failnth")
def fixture_failnth():
    """Before every other module, whose code it has to know."""
    run("modprobe", "iw_mpa2_failnth")
    (FAILSLAB / "ignore-gfp-wait").write_text("N")
    # One line for each failure and no trace, which is not a report.
    (FAILSLAB / "verbose").write_text("1")
    yield True
    print(f"\nfail-nth: {TOTAL['failed']} allocations failed in all", flush=True)
    run("rmmod", "iw_mpa2_failnth")


@pytest.fixture(autouse=True)
def fixture_set_up(failnth, hosts, set_parameter):
    """With timers that are short for a test and long for a slow machine."""
    assert failnth and hosts
    set_parameter(**TIMEOUTS)


# ---- the module and its devices: without processes, which take their time here ----

FINIT_MODULE, DELETE_MODULE = 313, 176      # system calls of x86-64
GET, NEWLINK, DELLINK = ((5 << 10) + command for command in (1, 3, 4))
DEV_INDEX, DEV_NAME, NDEV_NAME, LINK_TYPE = 1, 2, 51, 65
NETLINK_RDMA = 20
NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP = 1, 4, 0x300
NLMSG_ERROR, NLMSG_DONE = 2, 3


def load():
    """modprobe iw_mpa2; its errno."""
    path = f"/lib/modules/{os.uname().release}/updates/{OURS}.ko"
    fd = os.open(path, os.O_RDONLY)
    try:
        return ctypes.get_errno() if _LIBC.syscall(FINIT_MODULE, fd, b"", 0) else 0
    finally:
        os.close(fd)


def unload():
    """rmmod iw_mpa2."""
    assert not _LIBC.syscall(DELETE_MODULE, OURS.encode(), os.O_NONBLOCK), ctypes.get_errno()


def attributes_of(octets):
    """Of a netlink message: number -> value."""
    values = {}
    while octets:
        length, number = struct.unpack_from("=HH", octets)
        values[number & 0x3fff] = octets[4:length]
        octets = octets[(length + 3) & ~3:]
    return values


class Link:
    """rdma link add, and del, of a siw device of a host."""

    def __init__(self, host, name, netdev):
        self.name, self.netdev = name, netdev
        with open("/proc/self/ns/net", "rb") as here, \
                open(f"/run/netns/{host.name}", "rb") as there:
            assert not _LIBC.setns(there.fileno(), CLONE_NEWNET)
            try:
                self.sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA)
            finally:
                assert not _LIBC.setns(here.fileno(), CLONE_NEWNET)

    def _request(self, kind, *attributes):
        octets = b""
        for number, value in attributes:
            octets += struct.pack("=HH", 4 + len(value), number) + value
            octets += bytes(-len(octets) % 4)
        self.sock.send(struct.pack("=IHHII", 16 + len(octets), kind,
                                   NLM_F_REQUEST | NLM_F_ACK, 1, 0) + octets)
        answer = self.sock.recv(4096)
        assert struct.unpack_from("=H", answer, 4)[0] == NLMSG_ERROR
        return -struct.unpack_from("=i", answer, 16)[0]

    def _index(self):
        """The device's; the kernel tells it by name only in a dump."""
        self.sock.send(struct.pack("=IHHII", 16, GET, NLM_F_REQUEST | NLM_F_DUMP, 1, 0))
        indices = {}
        while True:
            octets = self.sock.recv(65536)
            while octets:
                length, kind = struct.unpack_from("=IH", octets)
                if kind == NLMSG_DONE:
                    return indices[self.name]
                values = attributes_of(octets[16:length])
                indices[values[DEV_NAME].rstrip(b"\0").decode()] = \
                    struct.unpack("=I", values[DEV_INDEX])[0]
                octets = octets[(length + 3) & ~3:]

    def add(self):
        """Its errno."""
        return self._request(NEWLINK, (DEV_NAME, self.name.encode() + b"\0"),
                             (LINK_TYPE, b"siw\0"),
                             (NDEV_NAME, self.netdev.encode() + b"\0"))

    def delete(self):
        """The same."""
        return self._request(DELLINK, (DEV_INDEX, struct.pack("=I", self._index())))


def served(device):
    """Whether iw_mpa2 shows itself on a device."""
    return pathlib.Path(f"/sys/class/infiniband/{device}/ports/1/iw_mpa2/enabled").exists()


class KernelLog:
    """What the kernel says from here on."""

    def __init__(self):
        self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.fd, 0, os.SEEK_END)

    def text(self):
        """To be asked for once."""
        records = []
        with contextlib.suppress(BlockingIOError):
            while True:
                records.append(os.read(self.fd, 8192).decode())
        os.close(self.fd)
        return "".join(records)


def device_outcome(devices, log):
    """Taken over with counters, or the log says what is missing."""
    text = log.text()
    if all(served(device) for device in devices):
        return WORKED
    for device in devices:
        if not served(device):
            assert f"{device}: no counters" in text or \
                f"{device}: stays with stock siw" in text, f"not a word on {device}"
    return "device without counters" if "no counters" in text else "device left to stock siw"


def test_fr88_load(agents, hosts):
    """The module's init, with two devices there: an error, or a line in the log
    about what is missing; and the next load works.
    """
    assert agents

    def attempt(failing):
        if os.path.exists(f"/sys/module/{OURS}"):
            unload()
        log = KernelLog()
        failing.arm()
        errno = load()
        failing.disarm()
        if errno:
            assert not os.path.exists(f"/sys/module/{OURS}")
            log.text()
            return f"errno {errno}"
        return device_outcome([host.device for host in hosts], log)

    each_allocation("load", attempt, modules=OURS)


def test_device_is_added(hostb):
    """rdma link add while the module is there."""
    hostb.run("ip", "link", "add", "dummy0", "type", "dummy")
    hostb.run("ip", "link", "set", "dummy0", "up")
    link = Link(hostb, "siw_f", "dummy0")

    def attempt(failing):
        log = KernelLog()
        failing.arm()
        assert link.add() == 0
        failing.disarm()
        outcome = device_outcome(["siw_f"], log)
        assert link.delete() == 0
        return outcome

    try:
        each_allocation("device added", attempt, modules=OURS)
    finally:
        hostb.run("ip", "link", "del", "dummy0")


# ---- the responder ----

def listening(responder, options=""):
    """A listener's port."""
    responder.do(f"listen 10.77.0.2 0 {options}")
    return responder.expect("LISTENING")["port"]


def requested(responder, dial, kinds="AD"):
    """A request that waits for its answer."""
    raw = dial(listening(responder))
    raw.send(mpa.request(kinds, 4, 4, b"request"))
    return raw, responder.expect("CONNECT_REQUEST")["id"]


def accepted(responder, dial, kinds="AD", options="ird=4 ord=4"):
    """A connection whose Reply has come."""
    raw, number = requested(responder, dial, kinds)
    responder.do(f"accept {number} {options}")
    assert len(got(raw, 24)) == 24
    return raw, number


FAMILIES = pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])


@FAMILIES
def test_listen(responder, dial, hostb, family):
    """rdma_listen() fails, or the listener is a good one."""
    def attempt(failing):
        responder.reset()
        failing.arm()
        errno = order(responder, f"listen {hostb.address_of(family)} 0")
        failing.disarm()
        if errno:
            return f"errno {errno}"
        raw = dial(responder.expect("LISTENING")["port"], family)
        raw.send(mpa.request("AD", 4, 4))
        return WORKED if first_of(responder, ["CONNECT_REQUEST"]) else "deaf listener"

    each_allocation(f"listen {family.name}", attempt, [responder])


def test_request(responder, dial):
    """From the TCP connection to CONNECT_REQUEST: the peer is told by an end.

    Where iw_cm has dropped the request, that comes with the end of the listener.
    """
    def attempt(failing):
        responder.reset()
        port = listening(responder)
        failing.arm()
        raw = dial(port)
        with contextlib.suppress(OSError):
            raw.send(mpa.request("AD", 4, 4, b"request"))
        event = first_of(responder, ["CONNECT_REQUEST"], also=lambda: select.select(
            [raw.sock], [], [], 0)[0])
        failing.disarm()
        if not event:
            responder.reset()
            raw.ends()
        return WORKED if event else "peer told"

    each_allocation("request", attempt, [responder])


def test_accept(responder, dial):
    """rdma_accept() fails and the peer is told, or the connection comes up."""
    def attempt(failing):
        responder.reset()
        raw, number = requested(responder, dial)
        failing.arm()
        errno = order(responder, f"accept {number} ird=4 ord=4")
        failing.disarm()
        octets = got(raw, 24)
        if errno:
            assert octets[16:17] in (b"", b"\x30"), octets.hex()
            return f"errno {errno}"
        if len(octets) < 24:
            return told(first_of(responder, TERMINAL))
        raw.send(mpa.RTR["D"])
        return told(first_of(responder, TERMINAL))

    each_allocation("accept", attempt, [responder])


def test_responder_hand_over(responder, dial):
    """The RTR comes, a Read, and is answered; the fence opens."""
    def attempt(failing):
        responder.reset()
        raw, number = accepted(responder, dial)
        failing.arm()
        raw.send(mpa.RTR["D"])
        event = first_of(responder, TERMINAL)
        failing.disarm()
        assert not event or event["id"] == number
        if told(event) == WORKED:
            assert got(raw, 20) == mpa.READ_RESPONSE
        else:
            responder.reset()
            raw.ends()
        return told(event)

    each_allocation("responder's hand-over", attempt, [responder])


def test_first_message(responder, dial):
    """A large first FPDU of a client-server connection, looked at whole."""
    def attempt(failing):
        responder.reset()
        raw, _ = accepted(responder, dial, "", "ird=4 ord=4 size=8192 recvs=1")
        responder.expect("ESTABLISHED", status=0)
        failing.arm()
        raw.send(mpa.fpdu(mpa.send(1, bytes(6000))))
        event = first_of(responder, ["WC", "DISCONNECTED"])
        failing.disarm()
        if told(event) != WORKED:
            responder.reset()
            raw.ends()
        return told(event)

    each_allocation("first message", attempt, [responder])


def test_reject(responder, dial):
    """rdma_reject(): the peer gets a Reply or an end."""
    def attempt(failing):
        responder.reset()
        raw, number = requested(responder, dial)
        failing.arm()
        errno = order(responder, f"reject {number} pd=726566757365")
        failing.disarm()
        octets = got(raw, 30)
        raw.close()
        if octets == mpa.reply("AD", 4, 4, b"refuse", flags=mpa.FLAG_S | mpa.FLAG_R):
            return WORKED
        assert not octets, octets.hex()
        return f"errno {errno}, peer closed"

    each_allocation("reject", attempt, [responder])


# ---- the initiator ----

class Peer:
    """A raw responder for whoever connects, or does not get so far."""

    def __init__(self, host, family):
        self.address = host.address_of(family)
        self.listener = host.socket(family)
        self.listener.bind((self.address, 0))
        self.listener.listen(16)
        self.port = self.listener.getsockname()[1]
        self.opened = []

    def forget(self):
        """End what earlier tries have left."""
        self.listener.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self.opened.append(self.listener.accept()[0])
        for sock in self.opened:
            sock.close()
        self.opened.clear()

    def wait(self, agent):
        """The connection, or the event that says why there is none."""
        event = first_of(agent, TERMINAL, also=lambda: select.select(
            [self.listener], [], [], 0)[0])
        if event:
            return None, event
        self.listener.settimeout(0)
        try:
            sock, _ = self.listener.accept()
        except BlockingIOError:
            return None, None
        self.opened.append(sock)
        return Raw(sock), None


@pytest.fixture(name="peer")
def fixture_peer(hostb, family):
    """On the other host."""
    peer = Peer(hostb, family)
    yield peer
    peer.forget()
    peer.listener.close()


@FAMILIES
def test_connect(initiator, peer, family):
    """rdma_connect() up to the Request: it fails, or one event tells it."""
    def attempt(failing):
        initiator.reset()
        peer.forget()
        failing.arm()
        initiator.do(f"connect {peer.address} {peer.port} ird=4 ord=4")
        returned = first_of(initiator, ["CONNECT_RETURNED", "ADDR_ERROR", "ROUTE_ERROR", "ERROR"])
        if not returned or returned["event"] != "CONNECT_RETURNED" or returned["errno"]:
            return told(returned)
        raw, event = peer.wait(initiator)
        octets = got(raw, 24) if raw else b""
        failing.disarm()
        if len(octets) == 24:
            raw.send(mpa.reply("AD", 4, 4))
        return told(event or first_of(initiator, TERMINAL))

    each_allocation(f"connect {family.name}", attempt, [initiator])


def test_initiator_hand_over(initiator, answer):
    """The Reply comes: RTR and ESTABLISHED, or one event with an error."""
    def attempt(failing):
        initiator.reset()
        initiator.do(f"connect 10.77.0.2 {answer.port} ird=4 ord=4")
        raw = answer()
        assert len(got(raw, 24)) == 24
        failing.arm()
        raw.send(mpa.reply("AD", 4, 4, b"reply"))
        event = first_of(initiator, TERMINAL)
        failing.disarm()
        if told(event) == WORKED:
            assert got(raw, len(mpa.RTR["D"])) == mpa.RTR["D"]
        else:
            initiator.reset()
            raw.ends()
        return told(event)

    each_allocation("initiator's hand-over", attempt, [initiator])


def test_both_ends(initiator, responder):
    """A connection of two applications: each hears how it has ended."""
    def attempt(failing):
        initiator.reset()
        responder.reset()
        port = listening(responder, "auto=accept")
        failing.arm()
        initiator.do(f"connect 10.77.0.2 {port}")
        event = first_of(initiator, ["CONNECT_RETURNED"])
        if not event["errno"]:
            event = first_of(initiator, TERMINAL)
        if told(event) == WORKED:
            event = first_of(responder, ("ERROR",) + TERMINAL)
        failing.disarm()
        return told(event)

    each_allocation("both ends", attempt, [initiator, responder])


# ---- configfs, sysfs and netlink: all in the task that calls ----

def each_of_this_task(name, call):
    """The kernel's own fail-nth: the first, second, ... allocation of a call."""
    begun, failed = time.monotonic(), 0
    fail_nth = os.open("/proc/thread-self/fail-nth", os.O_RDWR)
    try:
        for number in range(1, CHAINS_MAX):
            os.pwrite(fail_nth, b"%d" % number, 0)
            error = None
            try:
                call()
            except OSError as why:
                error = why
            left = int(os.pread(fail_nth, 16, 0))
            os.pwrite(fail_nth, b"0", 0)
            if left:
                assert error is None
                break
            failed += 1
            if error:
                call()
        else:
            pytest.fail(f"{name}: no end after {CHAINS_MAX} allocations")
    finally:
        os.close(fail_nth)
    assert failed, f"{name}: nothing was made to fail"
    report(name, failed, begun, "by the kernel's fail-nth")


def write(path, text):
    """In one call, without what Python allocates around it."""
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text)
    finally:
        os.close(fd)


def read(path):
    """The same."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.read(fd, 4096)
    finally:
        os.close(fd)


def test_rules():
    """configfs: a rule is made, filled, read and removed."""
    path = str(RULES / "fail-nth")

    def make():
        os.mkdir(path)
        try:
            os.rmdir(path)
        except OSError:
            os.rmdir(path)
            raise

    def call():
        write(f"{path}/remote", b"192.0.2.0/24\n")
        write(f"{path}/rtr", b"read,send\n")
        assert read(f"{path}/remote") == b"192.0.2.0/24\n"
        assert read(f"{path}/rtr") == b"read,send\n"

    each_of_this_task("rule made", make)
    os.mkdir(path)
    try:
        each_of_this_task("rule's attributes", call)
    finally:
        os.rmdir(path)


def test_parameters_and_counters(hostb):
    """sysfs."""
    folder = f"/sys/class/infiniband/{hostb.device}/ports/1"
    each_of_this_task("parameter", lambda: write(
        "/sys/module/iw_mpa2/parameters/rtr", b"write,read,send\n"))
    each_of_this_task("counter", lambda: read(f"{folder}/hw_counters/handshakes_in_progress"))


@pytest.mark.parametrize("what", ["cm_id", "qp"])
def test_dump(responder, dial, hostb, what):
    """rdma resource show: netlink, with a connection there."""
    raw, number = accepted(responder, dial)
    raw.send(mpa.RTR["D"])
    responder.expect("ESTABLISHED", id=number, status=0)
    told_of = {"cm_id": "drv_model peer-to-peer", "qp": "comm mpa2-cm"}[what]

    def attempt(failing):
        failing.arm()
        result = hostb.run("rdma", "resource", "show", what, "-dd", check=False)
        failing.disarm()
        if told_of in result.stdout:
            return WORKED
        assert result.returncode or "rror" in result.stdout, result.stdout
        return "error"

    each_allocation(f"rdma resource show {what}", attempt, modules="ib_core")
