# SPDX-License-Identifier: GPL-2.0
"""Connections that are brought into a state, and what becomes of them there.

The module is at one end of each, a raw TCP peer at the other.  Connections of a
batch find each other by their number, which is their private data.
"""

import os
import pathlib
import select
import selectors
import subprocess
import sys
import threading
import time

import mpa
from cells import SETUPS
from counter_sums import wrong_sums
from conftest import RULES, TOP, Agent, Raw, seconds, wait_until

sys.path.insert(0, str(TOP / "scripts/lib"))
import verdict  # noqa: E402

NOT_EVENTS = {"done", "READY", "LISTENING", "CONNECTING", "CONNECT_RETURNED", "WC",
              "ADDR_RESOLVED", "ROUTE_RESOLVED", "ID_DESTROYED"}
ADDRESS = "10.77.0.2"
# Ports: ten for each set-up of the initiator, ten for the responder's listeners,
# one for each timer that may be short.
INITIATOR_PORTS, RESPONDER_PORTS = 7100, 7200
TIMERS = ("connect", "reply", "close", "request", "rtr", "none")
HOLE, REFUSED = TIMERS.index("connect"), 9
LONG_MS = 600000
EXTRA = b"faults!!"  # private data that is cut in two for W_PD


class Wire:
    """What the raw end of one connection has got so far, and when it ended."""

    def __init__(self, raw):
        self.raw = raw
        self.octets = b""
        self.end = None
        self.ended_at = None


class Wires:
    """Reads all raw ends, all the time, so that every end has its true time."""

    def __init__(self):
        self.selector = selectors.DefaultSelector()
        self.changed = threading.Condition()
        self.running = True
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def add(self, raw):
        wire = Wire(raw)
        raw.sock.setblocking(False)
        with self.changed:
            self.selector.register(raw.sock, selectors.EVENT_READ, wire)
        return wire

    def _read(self):
        while self.running:
            for key, _ in self.selector.select(0.05):
                self._receive(key.fileobj, key.data)

    def _receive(self, sock, wire):
        with self.changed:
            if wire.end:
                return
            try:
                octets = sock.recv(65536)
            except BlockingIOError:
                return
            except OSError as error:
                octets, wire.end = b"", "RST" if error.errno == 104 else error.strerror
            wire.octets += octets
            if not octets:
                wire.end = wire.end or "FIN"
                wire.ended_at = time.monotonic()
                self.selector.unregister(sock)
            self.changed.notify_all()

    def receive(self, wire, length):
        """Exactly so many octets, taken off the stream."""
        with self.changed:
            self.changed.wait_for(lambda: len(wire.octets) >= length or wire.end, seconds(15))
            assert len(wire.octets) >= length, \
                f"{wire.octets.hex()}, then {wire.end}, instead of {length} octets"
            taken, wire.octets = wire.octets[:length], wire.octets[length:]
            return taken

    def rest(self, wire):
        """Everything up to the end, taken off, and the end."""
        with self.changed:
            self.changed.wait_for(lambda: wire.end, seconds(15))
            assert wire.end, f"no end behind {wire.octets.hex()}"
            taken, wire.octets = wire.octets, b""
            return taken

    def drop(self, wire, reset=False):
        """Close our end."""
        with self.changed:
            if not wire.end:
                self.selector.unregister(wire.raw.sock)
            wire.end = wire.end or "ours"
        if wire.raw.sock.fileno() >= 0:
            (wire.raw.reset if reset else wire.raw.close)()

    def stop(self):
        self.running = False
        self.thread.join()


def words(octets):
    """What octets behind the mark say, one word a frame or FPDU."""
    said = []
    while octets:
        startup = octets[:16] in (mpa.REQUEST_KEY, mpa.REPLY_KEY)
        try:
            got = mpa.parse_frame(octets) if startup else mpa.parse_fpdu(octets)
        except ValueError:
            got = None
        if not got:
            return said + [octets.hex()]
        item, used = got
        if startup:
            said.append("Request" if item.is_request else
                        "reject" if item.rejects else "accept")
        elif item.opcode == mpa.OP_TERMINATE:
            said.append("Terminate {:x}/{:x}/{}".format(
                item.payload[0] >> 4, item.payload[0] & 15, item.payload[1]))
        else:
            said.append(mpa.OPCODES.get(item.opcode, "?"))
        octets = octets[used:]
    return said


class Application(Agent):
    """An agent whose events are sorted by connection."""

    def __init__(self, host):
        super().__init__(host)
        self.dead = False
        self.asked = []  # connections whose accept nobody waits for

    def _drain(self):
        while not self.lines.empty():
            event = self.lines.get()
            if event is None:
                self.dead = True
                return
            self.seen.append(event)

    def events_of(self, number):
        """[(seconds, text)] of what was said of a connection and nobody asked for."""
        self._drain()
        return [(event["t"] / 1000, self.text(event)) for event in self.seen
                if event.get("id") == number and event["event"] not in NOT_EVENTS]

    def take_answers(self):
        """What has become of the accepts that were not waited for, in their order."""
        self._drain()
        for event in [e for e in self.seen if self.asked and e["event"] == "done" and
                      e["command"] == "accept"]:
            self.seen.remove(event)
            conn = self.asked.pop(0)
            if event["errno"]:
                conn.said.append(f"rdma_accept fails: {event['errno']}")

    @staticmethod
    def text(event):
        if event["event"] == "ERROR":
            return f"{event['call']} fails: {event['errno']}"
        return event["event"] + (f" {event['status']}" if event["status"] else "")

    def call(self, command):
        """Errno of a command that may fail."""
        self.tell(command)
        return self.expect("done", command=command.split()[0])["errno"]

    def leave(self):
        """End it; False if it does not, in the kernel, where no signal helps."""
        try:
            if self.process.poll() is None:
                self.tell("quit")
            self.process.wait(seconds(10))
        except (subprocess.TimeoutExpired, BrokenPipeError):
            self.process.kill()
            return False
        return True

    def kill(self):
        self.process.kill()
        self.process.wait()


class Conn:
    """One connection of a cell."""

    def __init__(self, batch, index, cell):
        self.batch, self.index, self.cell = batch, index, cell
        self.app = batch.apps[cell.role]
        self.id = None
        self.wire = None
        self.begun = None  # when the step began whose timer runs
        self.faulted = None
        self.said = []
        self.wrong = None  # why the fault could not be met
        self.tag = index.to_bytes(2, "big")

    # what the two roles share

    def send(self, octets):
        self.wire.raw.sock.setblocking(True)
        self.wire.raw.send(octets)
        self.wire.raw.sock.setblocking(False)

    def take(self, length):
        return self.batch.wires.receive(self.wire, length)

    def expect(self, name, **fields):
        return self.app.expect(name, id=self.id, **fields)

    def attach(self, raw):
        self.wire = self.batch.wires.add(raw)

    @property
    def p2p(self):
        return self.cell.p2p

    @property
    def kind(self):
        return {"p2p-send": "B", "p2p-write": "C", "p2p-read": "D"}.get(self.cell.setup)

    def app_view(self):
        """Events, and an accept that has failed."""
        self.app.take_answers()
        return tuple(self.said + [text for _, text in self.app.events_of(self.id)])

    def wire_view(self):
        """What has come on the wire since the mark, as far as we can see it."""
        if not self.wire:
            return ()
        with self.batch.wires.changed:
            end = self.wire.end
            if end == "ours":
                return ()
            return tuple(words(self.wire.octets) +
                         ([end] if end and end != self.end_before else []))

    end_before = None

    @property
    def unseen(self):
        """What is sent over a link that is down comes when it is up again, if ever."""
        return self.cell.fault in ("link-down", "carrier-lost", "netdev-del")

    def mark(self):
        """From here counts what happens."""
        if self.cell.state in ("TERM", "REJ"):
            self.end_before = self.wire.end

    def last_at(self):
        """When the last thing was said at either end."""
        times = [at for at, _ in self.app.events_of(self.id)]
        if self.wire and self.wire.ended_at and self.wire.end != self.end_before and \
                not self.unseen:
            times.append(self.wire.ended_at)
        return max(times, default=None)


class Initiator(Conn):
    """The module connects; the raw peer answers."""

    def begin(self):
        base = INITIATOR_PORTS + 10 * list(SETUPS).index(self.cell.setup)
        if self.cell.state == "TCP":
            port = base + (REFUSED if self.cell.fault == "rst" else HOLE)
        else:
            port = base + TIMERS.index(self.cell.timer)
        self.begun = time.monotonic()
        self.app.tell(f"connect {ADDRESS} {port} pd={self.tag.hex()}")
        self.id = self.app.expect("CONNECTING")["id"]
        self.app.expect("done", command="connect")

    def answer(self, accept=True):
        flags = 0 if accept else mpa.FLAG_R
        if self.cell.setup == "rev1":
            return mpa.reply_rev1(EXTRA, flags)
        return mpa.reply("A" + self.kind if self.p2p else "", 1, 1, EXTRA,
                         flags | mpa.FLAG_S)

    def refusal(self):
        """A Reply that is answered by a Terminate: FR-10's where there is a model."""
        if self.cell.setup == "rev1":
            return mpa.reply_rev1(flags=mpa.FLAG_M)
        return mpa.reply("A", 1, 1)

    def step(self):
        """Begin what passes a state, and do not wait for it."""
        self.send(self.answer())

    def to(self, state):
        """From W_HDR to a state."""
        if state == "W_PD":
            self.send(self.answer()[:-len(EXTRA)])
        elif state == "EST":
            at = len(self.answer()) - len(EXTRA) if self.cell.state == "W_PD" else 0
            self.send(self.answer()[at:])
            if self.p2p:
                assert self.take(len(mpa.RTR[self.kind])) == mpa.RTR[self.kind]
            if self.kind == "D":
                self.send(mpa.READ_RESPONSE)
            self.expect("ESTABLISHED", status=0)
        elif state == "TERM":
            self.begun = time.monotonic()
            self.send(self.refusal())
            said = self.batch.wires.rest(self.wire)
            if self.cell.setup == "rev1":
                assert said == bytes(4) + mpa.TERMINATE_LOCAL
            else:
                assert said == mpa.TERMINATE_RTR
            self.expect("CONNECT_ERROR")
        elif state == "REJ":
            self.begun = time.monotonic()
            self.send(self.answer(False))
            assert self.batch.wires.rest(self.wire) == b""
            self.expect("REJECTED", status=-111)

    def alive(self):
        """From an earlier state to use."""
        if self.cell.state == "TCP":
            return  # nothing lets its SYN through
        if self.cell.state != "EST":
            self.to("EST")
        self.send(mpa.fpdu(mpa.send(1, self.tag)))
        assert self.expect("WC", opcode="RECV")["data"] == self.tag.hex()


class Responder(Conn):
    """The raw peer connects; the module answers."""

    accepted = False

    def request(self):
        if self.cell.setup == "rev1":
            return mpa.request_rev1(self.tag)
        return mpa.request("A" + self.kind if self.p2p else "", 1, 1, self.tag)

    def begin(self):
        self.begun = time.monotonic()
        port = RESPONDER_PORTS + TIMERS.index(self.cell.timer)
        self.attach(self.batch.dial(port))

    def step(self):
        """Begin what passes a state, and do not wait for it."""
        if self.cell.state == "BIND":
            self.app.tell(f"accept {self.id}")
            self.app.asked.append(self)
        else:
            self.send(mpa.RTR[self.kind] if self.p2p else mpa.fpdu(mpa.send(1, b"first")))

    def to(self, state):
        request = self.request()
        if state == "W_HDR":
            self.send(request[:10])
        elif state == "W_PD":
            self.send(request[:-1])
        elif state == "ULP":
            self.send(request)
            self.id = self.app.expect("CONNECT_REQUEST", private_data=self.tag.hex())["id"]
        elif state == "W_FPDU":
            self.to("ULP")
            self.accept()
        elif state == "EST":
            self.to("W_FPDU")
            self.first_fpdu()
        elif state == "TERM":
            self.to("W_FPDU")
            self.begun = time.monotonic()
            self.send(mpa.fpdu(bytes(18)))
            assert words(self.batch.wires.rest(self.wire)) == ["Terminate 1/2/6"]
            if self.p2p:
                self.expect("ESTABLISHED", status=-71)
            self.expect("DISCONNECTED")
        elif state == "REJ":
            self.to("ULP")
            self.begun = time.monotonic()
            self.app.do(f"reject {self.id}")
            assert words(self.batch.wires.rest(self.wire)) == ["reject"]

    def accept(self):
        self.begun = time.monotonic()
        self.app.do(f"accept {self.id}")
        reply = self.take(24 if self.cell.setup != "rev1" else 20)
        assert words(reply) == ["accept"]
        self.accepted = True
        if not self.p2p:
            self.expect("ESTABLISHED", status=0)

    def first_fpdu(self):
        self.send(mpa.RTR[self.kind] if self.p2p else mpa.fpdu(mpa.send(1, b"first")))
        if self.kind == "D":
            assert self.take(20) == mpa.READ_RESPONSE
        if self.p2p:
            self.expect("ESTABLISHED", status=0)
        else:
            assert self.expect("WC", opcode="RECV")["data"] == b"first".hex()

    def alive(self):
        state = self.cell.state
        if state in ("W_HDR", "W_PD"):
            self.send(self.request()[10 if state == "W_HDR" else -1:])
            self.id = self.app.expect("CONNECT_REQUEST", private_data=self.tag.hex())["id"]
        if state in ("W_HDR", "W_PD", "ULP"):
            self.accept()
        if state != "EST":
            self.first_fpdu()
        msn = 2 if self.cell.setup in ("p2p-send", "client-server", "rev1") else 1
        self.send(mpa.fpdu(mpa.send(msn, self.tag)))
        assert self.expect("WC", opcode="RECV")["data"] == self.tag.hex()


ROLES = {"initiator": Initiator, "responder": Responder}


def write_rules(timer_ms):
    """What the connections of a port are made with; returns the rules' directories.

    The timer that a port is named for is short, every other one long.  What lingers
    does so to the end of a batch, unless the batch is about nothing but timers.
    """
    made = []
    short = {timer: timer_ms for timer in TIMERS if timer != "close" or timer_ms < 1000}

    def rule(name, timer, **attributes):
        path = RULES / name
        path.mkdir(exist_ok=True)
        made.append(path)
        for each in TIMERS[:-1]:
            attributes[f"{each}_timeout_ms"] = short.get(each, LONG_MS) if each == timer \
                else LONG_MS
        for attribute, value in attributes.items():
            (path / attribute).write_text(f"{value}\n")

    for number, setup in enumerate(SETUPS):
        wanted = {"rev1": {"rev": 1}, "client-server": {"model": "client-server"}}.get(
            setup, {"model": "peer-to-peer", "rtr": setup.partition("-")[2]})
        for each, timer in enumerate(TIMERS):
            rule(f"{setup}-{timer}", timer,
                 remote_port=INITIATOR_PORTS + 10 * number + each, **wanted)
    for each, timer in enumerate(TIMERS):
        rule(f"responder-{timer}", timer, local_port=RESPONDER_PORTS + each)
    return made


class KernelLog:
    """What the kernel complains about from here on."""

    def __init__(self):
        self.file = open("/dev/kmsg", "rb", buffering=0)  # pylint: disable=consider-using-with
        os.set_blocking(self.file.fileno(), False)
        os.lseek(self.file.fileno(), 0, os.SEEK_END)

    def complaints(self):
        """New ones."""
        text = ""
        while True:
            try:
                text += os.read(self.file.fileno(), 8192).decode(errors="replace")
            except BrokenPipeError:
                continue
            except BlockingIOError:
                return verdict.complaints(verdict.kernel_messages(text))


def handshakes_in_progress(device):
    """Of a device that may be gone."""
    try:
        return int(pathlib.Path(
            f"/sys/class/infiniband/{device}/ports/1/hw_counters/handshakes_in_progress"
        ).read_text())
    except FileNotFoundError:
        return 0


def tcp_left(host):
    """TCP connections that are not over."""
    if not pathlib.Path(f"/run/netns/{host.name}").exists():
        return ""
    return host.run("ss", "-Htan", "state", "connected", "exclude", "time-wait").stdout


class Batch:
    """Connections in many states at once, to be met by one kind of fault."""

    def __init__(self, hosts, cells, timer_ms, unit):
        self.unit = unit
        self.hosta, self.hostb = hosts
        self.log = KernelLog()
        self.rules = write_rules(timer_ms)
        self.wires = Wires()
        roles = {cell.role for cell in cells}
        self.listening = self._listen() if "initiator" in roles else []
        self.apps = {"initiator": Application(self.hosta), "responder": Application(self.hostb)}
        # An id on its device keeps librdmacm from giving the device up between others.
        self.apps["initiator"].do("listen 10.77.0.1 0")
        self.listeners = {}
        for each, timer in enumerate(TIMERS):
            self.apps["responder"].do(f"listen {ADDRESS} {RESPONDER_PORTS + each} backlog=128")
            self.listeners[timer] = self.apps["responder"].expect("LISTENING")["id"]
        self.conns = [ROLES[cell.role](self, index + 1, cell) for index, cell in enumerate(cells)]

    def _listen(self):
        listening = []
        for number in range(len(SETUPS)):
            for each in range(len(TIMERS)):
                if each == HOLE:
                    continue
                sock = self.hostb.socket()
                sock.bind((ADDRESS, INITIATOR_PORTS + 10 * number + each))
                sock.listen(64)
                sock.settimeout(seconds(15))
                listening.append(sock)
        holes = ", ".join(str(INITIATOR_PORTS + 10 * n + HOLE) for n in range(len(SETUPS)))
        self.hostb.run("nft", "add table inet hole; add chain inet hole in "
                       "{ type filter hook input priority 0; }; "
                       f"add rule inet hole in tcp dport {{ {holes} }} drop")
        return listening

    def dial(self, port):
        """A raw initiator's connection."""
        sock = self.hosta.socket()
        sock.settimeout(seconds(15))
        sock.connect((ADDRESS, port))
        return Raw(sock)

    def set_up(self):
        """Everything into its state: first what lasts, last what a timer ends."""
        lasting = ("EST", "TERM", "REJ", "ULP")
        for group in ([c for c in self.conns if c.cell.state in lasting],
                      [c for c in self.conns if c.cell.state not in lasting]):
            if self.unit == "silence":
                for conn in group:  # alone, as their timers are short
                    self._bring([conn])
            else:
                self._bring(group)
        for conn in self.conns:
            conn.mark()

    def _bring(self, group):
        for conn in group:
            conn.begin()
        self._match([conn for conn in group if conn.cell.role == "initiator" and
                     conn.cell.state != "TCP"])
        for conn in group:
            if conn.cell.state == "TCP":
                continue
            try:
                conn.to(conn.cell.passed[0] if conn.cell.passed else conn.cell.state)
            except OSError:
                # The timer of 200 ms was faster, on a machine that is slow.
                assert self.unit == "silence" and conn.cell.state in ("W_HDR", "W_PD")

    def _match(self, group):
        """Give each initiator the connection on which its Request has come."""
        waiting = {conn.tag: conn for conn in group}
        while waiting:
            ready, _, _ = select.select(self.listening, [], [], seconds(15))
            assert ready, f"no connection of {[c.cell.name for c in waiting.values()]}"
            for listener in ready:
                raw = Raw(listener.accept()[0])
                head = raw.receive(mpa.HEADER_LEN)
                frame, _ = mpa.parse_frame(head + raw.receive(int.from_bytes(head[18:], "big")))
                waiting.pop(frame.ulp_data).attach(raw)

    def settle(self, done, limit):
        """Until done() or for so many seconds."""
        end = time.monotonic() + limit
        while not done() and time.monotonic() < end:
            time.sleep(0.01)

    def end(self, hosts_stay=True):
        """Everything away, and a look at what is left; returns complaints."""
        wrong = []
        for conn in self.conns:
            if conn.wire:
                self.wires.drop(conn.wire)
        for role, app in self.apps.items():
            if not app.leave():
                wrong.append(f"the {role}'s application does not end")
        self.wires.stop()
        for sock in self.listening:
            sock.close()
        if self.listening and pathlib.Path("/run/netns/hostb").exists():
            self.hostb.run("nft", "delete table inet hole", check=False)
        for path in self.rules:
            path.rmdir()
        for host in (self.hosta, self.hostb) if hosts_stay else ():
            for what, left in (("handshakes", lambda: handshakes_in_progress(host.device)),
                               ("TCP connections", lambda: tcp_left(host)),
                               ("listeners", lambda: host.run("ss", "-Hltn").stdout),
                               ("sums that are wrong", lambda: wrong_sums(host.device))):
                try:
                    wait_until(lambda: not left(), f"the end of {what}", 10, explain=left)
                except (AssertionError, subprocess.SubprocessError) as error:
                    wrong.append(f"{what} left at {host.name}: {error}")
        wrong += [f"kernel: {line}" for line in self.log.complaints()]
        return wrong
