# SPDX-License-Identifier: GPL-2.0
"""Two hosts, rdma_cm applications by remote control, and raw TCP peers.

    hosta 10.77.0.1 fd77::1 siw_a ---- veth ---- siw_b 10.77.0.2 fd77::2 hostb

Every wait has a bound; SCALE stretches them where the machine is slow.
"""

import ctypes
import json
import os
import pathlib
import queue
import socket
import subprocess
import threading
import time
import zlib

import pytest

from counter_sums import wrong_sums

TOP = pathlib.Path(__file__).resolve().parents[2]
TOOLS = pathlib.Path(os.environ.get("IW_TOOLS", "/usr/local/bin"))
SCALE = float(os.environ.get("IW_SCALE", "1"))
# One in so many cases of a test; the same ones each time.
SHARE = int(os.environ.get("IW_SHARE", "1"))
PARAMETERS = pathlib.Path("/sys/module/iw_mpa2/parameters")
RULES = pathlib.Path("/sys/kernel/config/iw_mpa2")
CLONE_NEWNET = 0x40000000
pytest_plugins = ["hostile"]
_LIBC = ctypes.CDLL(None, use_errno=True)


def has_its_turn(name):
    """Whether a case of that name is of the share."""
    return zlib.crc32(name.encode()) % SHARE == 0


def pytest_collection_modifyitems(config, items):
    """Of each test with many cases the share, one at least, and nothing slow."""
    if SHARE == 1:
        return
    tests, kept = {}, []
    for item in items:
        tests.setdefault((item.path, item.name.split("[")[0]), []).append(item)
    for (path, _), cases in tests.items():
        share = [case for case in cases if has_its_turn(case.name)] or cases[:1]
        if len(cases) == 1 or path.parent.name == "faults":  # which picks its cells itself
            share = cases
        kept += [case for case in share if not case.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def seconds(value):
    """A bound for something that takes `value` seconds on a fast machine."""
    return value * SCALE


def run(*words, timeout=30, check=True, **kwargs):
    """Run a command to its end; its output is in the result."""
    return subprocess.run(words, timeout=seconds(timeout), check=check, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **kwargs)


def wait_until(condition, what, timeout=10, explain=None):
    """Poll for what no event tells; explain() says what is there instead."""
    end = time.monotonic() + seconds(timeout)
    while not condition():
        assert time.monotonic() < end, \
            f"waited in vain for {what}" + (f": {explain()}" if explain else "")
        time.sleep(0.02)


def device_is_listed(name):
    """Whether `rdma link` has it. A listing that a removal has cut short says nothing."""
    listing = run("rdma", "link", check=False)
    return listing.returncode != 0 or name in listing.stdout


class Host:
    """One of the two hosts."""

    def __init__(self, name, device, address, address6):
        self.name, self.device = name, device
        self.address, self.address6 = address, address6

    def words(self, *words):
        """A command line that runs here."""
        return ("ip", "netns", "exec", self.name) + words

    def run(self, *words, **kwargs):
        """Run a command here."""
        return run(*self.words(*words), **kwargs)

    def popen(self, *words):
        """Start a command here."""
        return subprocess.Popen(self.words(*words), text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def socket(self, family=socket.AF_INET, kind=socket.SOCK_STREAM, protocol=0):
        """A socket of this host, a TCP one unless told otherwise."""
        with open("/proc/self/ns/net", "rb") as here, \
                open(f"/run/netns/{self.name}", "rb") as there:
            assert not _LIBC.setns(there.fileno(), CLONE_NEWNET)
            try:
                sock = socket.socket(family, kind, protocol)
                # rdma_cm picks ports without regard to TCP's: one that we have
                # left in TIME_WAIT must not be in its way.
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                return sock
            finally:
                assert not _LIBC.setns(here.fileno(), CLONE_NEWNET)

    def address_of(self, family):
        """Its address of that family."""
        return self.address if family == socket.AF_INET else self.address6

    def listens(self, port):
        """Whether a TCP socket listens on a port."""
        return f":{port} " in self.run("ss", "-Hltn").stdout


class KernelLog:
    """What the kernel says from now on, without a process for each look."""

    def __init__(self):
        self.file = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.file, 0, os.SEEK_END)
        self.lines = []

    def read(self):
        """All of it so far, the text of each line."""
        while True:
            try:
                record = os.read(self.file, 8192).decode(errors="replace")
            except BlockingIOError:
                return self.lines
            except BrokenPipeError:  # it was overwritten before we came
                continue
            self.lines.append(record.split(";", 1)[1].splitlines()[0])

    def close(self):
        """No more."""
        os.close(self.file)


class Agent:
    """An rdma_cm application that does what it is told; see tools/agent.c."""

    def __init__(self, host, *words):
        self.host = host
        self.process = subprocess.Popen(
            host.words(str(TOOLS / "mpa2-cm"), "agent", *words), text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.lines = queue.Queue()
        self.seen = []
        threading.Thread(target=self._read, daemon=True).start()
        self.expect("READY")

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def tell(self, command):
        """Give a command without waiting for its end."""
        self.process.stdin.write(command + "\n")

    def do(self, command, errno=0):
        """Give a command and wait for its end."""
        self.tell(command)
        done = self.expect("done", command=command.split()[0])
        assert done["errno"] == errno, (command, done, self.seen[-5:])
        return done

    def expect(self, name, timeout=15, **fields):
        """The next event of that name; any other one meanwhile is kept."""
        for index, event in enumerate(self.seen):
            if self._fits(event, name, fields):
                return self.seen.pop(index)
        end = time.monotonic() + seconds(timeout)
        while True:
            try:
                event = self.lines.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                pytest.fail(f"no {name} {fields} at {self.host.name}; seen: {self.seen}")
            assert event is not None, "the agent has died"
            if self._fits(event, name, fields):
                return event
            self.seen.append(event)

    @staticmethod
    def _fits(event, name, fields):
        return event["event"] == name and all(event.get(key) == value
                                              for key, value in fields.items())

    def nothing(self, name, seconds_of_silence=0.2):
        """No such event is there, nor comes in that time."""
        end = time.monotonic() + seconds_of_silence
        while time.monotonic() < end:
            try:
                self.seen.append(self.lines.get(timeout=max(0.01, end - time.monotonic())))
            except queue.Empty:
                break
        assert not [event for event in self.seen if event and event["event"] == name]

    def all_said(self):
        """What it has said and nobody has asked for, for a failure's text."""
        while not self.lines.empty():
            self.seen.append(self.lines.get())
        return self.seen

    def reset(self):
        """Destroy everything, forget everything."""
        self.do("reset")
        while not self.lines.empty():
            self.lines.get()
        self.seen.clear()

    def close(self):
        """End the application."""
        try:
            self.tell("quit")
            self.process.wait(timeout=seconds(20))
        finally:
            self.kill()

    def kill(self):
        """End the application, whatever it does."""
        self.process.kill()
        self.process.wait()


class Raw:
    """A plain TCP peer that sends and checks exact octets."""

    def __init__(self, sock):
        self.sock = sock
        self.sock.settimeout(seconds(15))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, octets):
        """One segment, as far as TCP can be made to."""
        self.sock.sendall(octets)

    def receive(self, length):
        """Exactly so many octets."""
        octets = b""
        while len(octets) < length:
            more = self.sock.recv(length - len(octets))
            assert more, f"closed after {octets.hex()}"
            octets += more
        return octets

    def rest(self):
        """All octets up to the FIN; ConnectionResetError for an RST."""
        octets = b""
        while True:
            more = self.sock.recv(4096)
            if not more:
                return octets
            octets += more

    def ends(self):
        """The octets before the end, be it a FIN or an RST."""
        octets = b""
        try:
            while True:
                more = self.sock.recv(4096)
                if not more:
                    return octets
                octets += more
        except ConnectionResetError:
            return octets

    def silent(self, for_seconds=0.2):
        """Nothing arrives in that time, neither octets nor an end."""
        self.sock.settimeout(for_seconds)
        try:
            with pytest.raises(TimeoutError):
                raise AssertionError(f"came: {self.sock.recv(4096).hex()}")
        finally:
            self.sock.settimeout(seconds(15))

    def reset(self):
        """Close by RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.sock.close()

    def close(self):
        """Close by FIN."""
        self.sock.close()


class TellsAtOnce:
    """Names a failure at once: a run that does not come to its end tells the rest."""

    def __init__(self, config):
        self.config = config

    def pytest_runtest_logreport(self, report):
        """Called by pytest."""
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            why = crash.message if crash else str(report.longrepr)
            self.config.pluginmanager.get_plugin("terminalreporter").write_line(
                f" FAILED {report.nodeid} ({report.when}): {why[:400]}", red=True)


def pytest_configure(config):
    """Called by pytest."""
    config.pluginmanager.register(TellsAtOnce(config))


@pytest.fixture(scope="session", name="hosts")
def fixture_hosts():
    """The two hosts, with iw_mpa2 on both devices."""
    run(str(TOP / "scripts/vm-setup-hosts"), "--module", timeout=120)
    hosta = Host("hosta", "siw_a", "10.77.0.1", "fd77::1")
    hostb = Host("hostb", "siw_b", "10.77.0.2", "fd77::2")
    # Fill the neighbour tables: a first resolution may lose its own event.
    for address in (hostb.address, hostb.address6):
        hosta.run("ping", "-c", "3", "-i", "0.2", address, timeout=30)
    yield hosta, hostb
    run(str(TOP / "scripts/vm-setup-hosts"), "--down", timeout=60)
    run("rmmod", "iw_mpa2", timeout=30)


@pytest.fixture(autouse=True)
def fixture_module_is_there(request):
    """A test that failed with the module out must not leave the next ones to
    stock siw, which some of what they send would bring down.
    """
    if "hosts" in request.fixturenames and not PARAMETERS.exists():
        run("modprobe", "iw_mpa2")


@pytest.fixture(autouse=True)
def fixture_counters_add_up(request):
    """Whatever a test did: each handshake that began has one outcome, or none yet."""
    yield
    if "hosts" in request.fixturenames:
        wait_until(lambda: not wrong_sums("siw_a") + wrong_sums("siw_b"), "the sums",
                   explain=lambda: wrong_sums("siw_a") + wrong_sums("siw_b"))


@pytest.fixture(name="hosta")
def fixture_hosta(hosts):
    """The host of the initiator."""
    return hosts[0]


@pytest.fixture(name="hostb")
def fixture_hostb(hosts):
    """The host of the responder."""
    return hosts[1]


@pytest.fixture(scope="session", name="agents")
def fixture_agents(hosts):
    """One application on each host, for the whole session."""
    agents = [Agent(hosts[0]), Agent(hosts[1])]
    yield agents
    for agent in agents:
        agent.close()


def lend(agents, number):
    """One of them for one test. One that cannot be reset fails that test, not the rest."""
    yield agents[number]
    cleared = False
    try:
        agents[number].reset()
        cleared = True
    finally:
        if not cleared:
            agents[number].kill()
            agents[number] = Agent(agents[number].host)


@pytest.fixture(name="initiator")
def fixture_initiator(agents):
    """The application of hosta, with nothing open."""
    yield from lend(agents, 0)


@pytest.fixture(name="responder")
def fixture_responder(agents):
    """The application of hostb, with nothing open."""
    yield from lend(agents, 1)


@pytest.fixture(name="set_parameter")
def fixture_set_parameter(hosts):
    """Set module parameters for one test."""
    assert hosts
    saved = {}

    def change(**values):
        for name, value in values.items():
            path = PARAMETERS / name
            saved.setdefault(name, path.read_text().strip())
            path.write_text(str(value))

    yield change
    for name, value in saved.items():
        (PARAMETERS / name).write_text(value)


@pytest.fixture(name="rule")
def fixture_rule(hosts):
    """Make rules for one test: rule(name, attribute=value, ...)."""
    assert hosts
    made = []

    def make(name, **attributes):
        path = RULES / name
        if not path.exists():
            path.mkdir()
            made.append(path)
        for attribute, value in attributes.items():
            (path / attribute).write_text(f"{value}\n")
        return path

    yield make
    for path in made:
        if path.exists():
            path.rmdir()


@pytest.fixture(name="dial")
def fixture_dial(hosta, hostb):
    """Raw initiators: dial(port) connects to hostb."""
    opened = []

    def connect(port, family=socket.AF_INET):
        sock = hosta.socket(family)
        sock.settimeout(seconds(15))
        sock.connect((hostb.address_of(family), port))
        opened.append(sock)
        return Raw(sock)

    yield connect
    for sock in opened:
        sock.close()


@pytest.fixture(name="answer")
def fixture_answer(hostb):
    """A raw responder on hostb: answer() accepts one connection."""
    listener = hostb.socket()
    listener.bind((hostb.address, 0))
    listener.listen(16)
    listener.settimeout(seconds(15))
    opened = []

    def accept():
        sock, _ = listener.accept()
        opened.append(sock)
        return Raw(sock)

    accept.port = listener.getsockname()[1]
    accept.listener = listener
    yield accept
    for sock in opened + [listener]:
        sock.close()


@pytest.fixture(name="answer6")
def fixture_answer6(hostb):
    """As answer, over IPv6."""
    opened = [hostb.socket(socket.AF_INET6)]
    opened[0].bind((hostb.address6, 0))
    opened[0].listen(16)
    opened[0].settimeout(seconds(15))

    def accept():
        opened.append(opened[0].accept()[0])
        return Raw(opened[-1])

    accept.port = opened[0].getsockname()[1]
    yield accept
    for sock in opened:
        sock.close()


@pytest.fixture(name="stock")
def fixture_stock(hosts):
    """stock(host) gives the new work of a host to stock siw, for one test."""
    assert hosts
    changed = []

    def disable(host):
        path = pathlib.Path(f"/sys/class/infiniband/{host.device}/ports/1/iw_mpa2/enabled")
        path.write_text("N")
        changed.append(path)

    yield disable
    for path in changed:
        path.write_text("Y")


@pytest.fixture(name="ulp")
def fixture_ulp(hosta, hostb):
    """ulp(host, parameter=value, ...) loads it in a host's namespace."""
    hosts = {"a": hosta, "b": hostb}
    loaded = []

    def load(host, **parameters):
        load.log = KernelLog()
        words = [f"{name}={value}" for name, value in parameters.items()]
        hosts[host].run("modprobe", "iw_mpa2_ulp", *words)
        loaded.append(True)

    def said():
        return [line.removeprefix("iw_mpa2_ulp: ") for line in load.log.read()
                if line.startswith("iw_mpa2_ulp: ")]

    def says(text, count=1):
        wait_until(lambda: said().count(text) >= count, f"{count} x {text!r}, only: {said()}")

    def unload():
        run("rmmod", "iw_mpa2_ulp")
        loaded.clear()
        load.log.close()

    load.said, load.says, load.unload = said, says, unload
    yield load
    if loaded:
        unload()
