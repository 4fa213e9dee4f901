# SPDX-License-Identifier: GPL-2.0
"""Many peers at once, good and bad: what they cost, and that all of them end.

IW_BOUND is how many; scripts/check-long has 5000 on Debian's kernel.
"""

import contextlib
import errno
import os
import pathlib
import re
import resource
import select
import socket
import threading
import time

import pytest

import mpa
from conftest import CLONE_NEWNET, SCALE, Agent, _LIBC, run, seconds, wait_until

pytestmark = pytest.mark.slow

COUNT = int(os.environ.get("IW_BOUND", "300"))
# Peers whose requests one application holds; its table ends at 2048.
PER_AGENT = 1000
# Of how many the memory is measured at least, beside which what else the kernel
# allocates meanwhile is little.
MEASURED = 1000 if SCALE == 1 else 0
# An endpoint that waits, without its socket: an object of 2 KiB and its place in a
# table. On the debug kernel objects carry what the checkers need.
ENDPOINT_OCTETS = 2048 + 128 if SCALE == 1 else None
GOOD_SECONDS = seconds(1)
RATELIMIT_BURST, RATELIMIT_S = 10, 5
FIN, RST = "FIN", "RST"


# ---- what the kernel holds ----

def in_progress(host):
    """Handshakes of a host's device."""
    return int(pathlib.Path(f"/sys/class/infiniband/{host.device}/ports/1/hw_counters/"
                            "handshakes_in_progress").read_text())


def counter(host, name):
    """Another counter."""
    return int(pathlib.Path(f"/sys/class/infiniband/{host.device}/ports/1/hw_counters/"
                            f"{name}").read_text())


def slab_octets(pattern):
    """Octets of the objects in use in slab caches with such names."""
    total = 0
    for line in pathlib.Path("/proc/slabinfo").read_text().splitlines()[2:]:
        name, active, _, size = line.split()[:4]
        if re.match(pattern, name):
            total += int(active) * int(size)
    return total


def settled_octets(pattern):
    """The same once nothing is on its way out: two readings that agree."""
    last = None
    end = time.monotonic() + seconds(10)
    while time.monotonic() < end:
        # Empty slabs go, and partial ones of a processor become visible.
        for shrink in pathlib.Path("/sys/kernel/slab").glob("kmalloc-*/shrink"):
            with contextlib.suppress(OSError):
                shrink.write_text("1")
        now = slab_octets(pattern)
        if last is not None and abs(now - last) < 4096:
            return now
        last = now
        time.sleep(0.1)
    return last


OURS = r"kmalloc-\d|kmalloc-\dk|radix_tree_node"


# ---- many raw initiators ----

class Peer:
    """One of them."""

    def __init__(self, sock):
        self.sock = sock
        self.begun = time.monotonic()
        self.connected = self.ended = None
        self.how = None
        self.octets = b""
        self.dripped = 0


class Crowd:
    """Raw initiators that all begin at once, without blocking."""

    def __init__(self, host, address, port, count):
        self.poll = select.epoll()
        self.peers = {}
        for sock in many_sockets(host, count):
            sock.setblocking(False)
            self.peers[sock.fileno()] = Peer(sock)
            sock.connect_ex((address, port))
            self.poll.register(sock, select.EPOLLOUT)

    def step(self, on_connected=lambda peer: None, on_octets=lambda peer: None):
        """Look at what has happened; waits a little when nothing has."""
        for fd, events in self.poll.poll(0.02):
            peer = self.peers[fd]
            if peer.connected is None and not events & (select.EPOLLERR | select.EPOLLHUP):
                peer.connected = time.monotonic()
                self.poll.modify(fd, select.EPOLLIN)
                on_connected(peer)
            else:
                self._read(peer, on_octets)

    def _read(self, peer, on_octets):
        try:
            octets = peer.sock.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            self._end(peer, RST)
            return
        if octets:
            peer.octets += octets
            on_octets(peer)
        else:
            self._end(peer, FIN)

    def _end(self, peer, how):
        peer.ended, peer.how = time.monotonic(), how
        self.poll.unregister(peer.sock)
        peer.sock.close()

    def all(self):
        """The peers."""
        return self.peers.values()

    def left(self):
        """Those whose connection has not ended."""
        return [peer for peer in self.all() if peer.ended is None]

    def close(self):
        """End the rest."""
        for peer in self.left():
            peer.sock.close()
        self.poll.close()


def many_sockets(host, count):
    """TCP sockets of a host."""
    with open("/proc/self/ns/net", "rb") as here, \
            open(f"/run/netns/{host.name}", "rb") as there:
        assert not _LIBC.setns(there.fileno(), CLONE_NEWNET)
        try:
            return [socket.socket() for _ in range(count)]
        finally:
            assert not _LIBC.setns(here.fileno(), CLONE_NEWNET)


class GoodClient:
    """An application that connects again and again, and how long it took."""

    def __init__(self, agent, server):
        self.agent, self.server = agent, server
        self.start()

    def start(self):
        """With a listener of its own."""
        self.server.do("listen 10.77.0.2 0 auto=accept depth=4")
        self.port = self.server.expect("LISTENING")["port"]
        self.times, self.failure = [], None
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._go_on, daemon=True)
        self.thread.start()

    def _go_on(self):
        try:
            while not self.over.is_set():
                begun = time.monotonic()
                self.agent.tell(f"connect 10.77.0.2 {self.port}")
                event = self.agent.expect("ESTABLISHED")
                self.times.append(time.monotonic() - begun)
                assert event["status"] == 0, event
                self.agent.do(f"destroy {event['id']}")
                self.agent.seen.clear()
                self.over.wait(0.25)
        # pylint: disable-next=broad-exception-caught
        except BaseException as why:    # pytest.fail() raises one that is no Exception
            self.failure = why

    def finish(self):
        """At least one; nothing of them is left.  Returns the longest time."""
        wait_until(lambda: self.times or self.failure, "a good connection")
        self.over.set()
        self.thread.join()
        if self.failure:
            raise self.failure
        print(f"good client: {len(self.times)} connections, at most "
              f"{max(self.times) * 1000:.0f} ms")
        assert max(self.times) < GOOD_SECONDS
        self.agent.reset()
        self.server.reset()


# ---- fixtures ----

@pytest.fixture(autouse=True)
def fixture_limits(hosts, set_parameter):
    """Let TCP, rdma_ucm and this process have as many as the test wants."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = 2 * max(COUNT, MEASURED) + 1024
    resource.setrlimit(resource.RLIMIT_NOFILE, (enough, max(files[1], enough)))
    limits = {"rdma_ucm/max_backlog": 2 * COUNT + 16,
              # One segment of each peer at once: a SYN that is dropped there, and be it
              # the good client's, comes again after a second.
              "core/netdev_max_backlog": 8 * COUNT + 1000}
    saved = {}
    for name, value in limits.items():
        saved[name] = pathlib.Path("/proc/sys/net", name).read_text()
        pathlib.Path("/proc/sys/net", name).write_text(str(value))
    hosts[1].run("sysctl", "-q", "-w", f"net.core.somaxconn={2 * COUNT + 16}",
                 "net.ipv4.tcp_syncookies=0", f"net.ipv4.tcp_max_syn_backlog={4 * COUNT + 64}")
    set_parameter(max_pending=2 * COUNT + 16)
    yield
    for name, value in saved.items():
        pathlib.Path("/proc/sys/net", name).write_text(value)
    resource.setrlimit(resource.RLIMIT_NOFILE, files)


@pytest.fixture(name="good")
def fixture_good(hosta, hostb):
    """A good client and its server."""
    agents = Agent(hosta, "many"), Agent(hostb, "many")
    yield GoodClient(*agents)
    for agent in agents:
        agent.close()


@pytest.fixture(name="crowd")
def fixture_crowd(hosta, hostb):
    """crowd(port, count): raw initiators."""
    made = []

    def make(port, count=COUNT):
        made.append(Crowd(hosta, hostb.address, port, count))
        return made[-1]

    yield make
    for crowd in made:
        crowd.close()
    wait_until(lambda: not in_progress(hostb), "all handshakes to end", 20)


@pytest.fixture(name="servers")
def fixture_servers(hostb):
    """Applications of their own, so that no table is full: servers(options)."""
    agents = []

    def start(options, count=COUNT):
        ports = []
        for _ in range(0, count, PER_AGENT):
            agents.append(Agent(hostb, "many"))
            agents[-1].do(f"listen 10.77.0.2 0 backlog=65535 depth=4 size=64 {options}")
            ports.append(agents[-1].expect("LISTENING")["port"])
        return ports

    start.agents = agents
    yield start
    for agent in agents:
        agent.close()


def lines_about(mark):
    """What the module has logged since a mark."""
    text = run("dmesg").stdout.rsplit(mark, 1)[-1]
    return [line for line in text.splitlines() if "iw_mpa2" in line]


@contextlib.contextmanager
def quiet_log():
    """However many fail, the log has some lines only."""
    begun = time.monotonic()
    mark = f"bounds: {begun}"
    pathlib.Path("/dev/kmsg").write_text(mark + "\n")
    yield
    spans = (time.monotonic() - begun) / RATELIMIT_S + 1
    lines = lines_about(mark)
    print(f"log: {len(lines)} lines")
    # Besides, one line for each span says how many there would have been.
    assert len(lines) <= (RATELIMIT_BURST + 1) * spans + 1, lines[-5:]


def enough_ms():
    """A timeout within which all peers have connected."""
    return int(max(3000, 5 * COUNT) * (1 if SCALE == 1 else 3))


def lives(peers, timeout_ms):
    """Each had its whole time; returns the longest, from connect() to the end."""
    times = [peer.ended - peer.begun for peer in peers]
    assert min(times) >= timeout_ms / 1000, min(times)
    return max(times)


# ---- peers that are reaped ----

def reap(crowd, hostb, good, step=lambda: None, **reactions):
    """Until the last of a crowd has ended; how many there were at once."""
    most = 0
    limit = time.monotonic() + seconds(60) + COUNT / 20
    while crowd.left():
        assert time.monotonic() < limit, f"{len(crowd.left())} are still there"
        crowd.step(**reactions)
        step()
        most = max(most, in_progress(hostb))
    good.finish()
    return most


def test_t19_a21_silent_peers_are_reaped(servers, crowd, good, hostb, set_parameter):
    """Twice the same: what the first have used the second use again."""
    timeout_ms = enough_ms()
    set_parameter(request_timeout_ms=timeout_ms)
    (port,) = servers("", 1)
    before = counter(hostb, "timeouts_request")
    after = []
    for wave in (1, 2):
        if wave == 2:
            good.start()
        with quiet_log():
            peers = crowd(port)
            most = reap(peers, hostb, good)
            longest = lives(peers.all(), timeout_ms)
        assert {peer.how for peer in peers.all()} == {FIN}
        assert most >= COUNT, f"only {most} of {COUNT} at once"
        wait_until(lambda: not in_progress(hostb), "the last to go")
        assert counter(hostb, "timeouts_request") - before == wave * COUNT
        after.append(settled_octets(OURS))
        print(f"silent: {COUNT} peers, {most} at once, none longer than {longest:.1f} s")
    # Less than an octet of each hundred that they held.
    print(f"memory: {after[1] - after[0]} octets more after the second time")
    assert after[1] - after[0] < COUNT * 64 + 65536


def test_a21_peers_that_close_leave_nothing(servers, crowd, hostb):
    """Connect, and FIN or RST at once or after a part of the Request."""
    (port,) = servers("", 1)
    parts = (b"", mpa.REQUEST_KEY[:5], mpa.request("ACD", 1, 1)[:-1])

    def leave(peer):
        number = peer.sock.fileno()
        if parts[number % 3]:
            peer.sock.send(parts[number % 3])
        if number % 2:
            peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            peer.ended = time.monotonic()
            peers.poll.unregister(peer.sock)
            peer.sock.close()
        else:
            peer.sock.shutdown(socket.SHUT_WR)

    peers = crowd(port)
    limit = time.monotonic() + seconds(30)
    while peers.left():
        assert time.monotonic() < limit, f"{len(peers.left())} are still there"
        peers.step(on_connected=leave)
    wait_until(lambda: not in_progress(hostb), "the last to go")


def test_a_flood_of_garbage_fills_no_log(servers, crowd, good, hostb):
    """Text instead of a Request: an end for each, and some lines in all."""
    (port,) = servers("", 1)
    before = counter(hostb, "malformed_key")
    with quiet_log():
        peers = crowd(port)
        reap(peers, hostb, good,
             on_connected=lambda peer: peer.sock.send(b"GET / HTTP/1.1\r\nHost: nobody\r\n\r\n"))
    assert not any(peer.octets for peer in peers.all())
    assert counter(hostb, "malformed_key") - before == COUNT


def test_dripping_peers_are_reaped(servers, crowd, good, hostb, set_parameter):
    """One octet a second: the time is for the whole Request (A-20, FR-40)."""
    timeout_ms = enough_ms()
    set_parameter(request_timeout_ms=timeout_ms)
    (port,) = servers("", 1)
    request = mpa.request("ACD", 1, 1, bytes(200))
    sent = {"rounds": 0, "next": time.monotonic() + 1}

    def drip():
        if time.monotonic() < sent["next"]:
            return
        for peer in peers.left():
            if peer.connected is not None:
                with contextlib.suppress(OSError):
                    peer.sock.send(request[peer.dripped:peer.dripped + 1])
                    peer.dripped += 1
        sent["rounds"] += 1
        sent["next"] += 1

    with quiet_log():
        peers = crowd(port)
        most = reap(peers, hostb, good, drip)
        longest = lives(peers.all(), timeout_ms)
    assert sent["rounds"] >= 2
    print(f"dripping: {COUNT} peers, {most} at once, {sent['rounds']} octets each, "
          f"none longer than {longest:.1f} s")


def test_peers_without_an_rtr_are_reaped(servers, crowd, good, hostb, set_parameter):
    """They stop behind the Reply; each application hears of each of them once (T12)."""
    timeout_ms = enough_ms() * 2
    set_parameter(rtr_timeout_ms=timeout_ms, request_timeout_ms=timeout_ms)
    ports = servers("auto=accept ird=1 ord=1")
    before = counter(hostb, "timeouts_rtr")
    crowds = [crowd(port, min(PER_AGENT, COUNT - number * PER_AGENT))
              for number, port in enumerate(ports)]
    request = mpa.request("ACD", 1, 1)

    def ask(peer):
        peer.sock.send(request)

    most = 0
    limit = time.monotonic() + seconds(120) + COUNT / 10
    with quiet_log():
        while any(each.left() for each in crowds):
            assert time.monotonic() < limit
            for each in crowds:
                each.step(on_connected=ask)
            most = max(most, in_progress(hostb))
        good.finish()
    for each in crowds:
        for peer in each.all():
            assert peer.octets == mpa.reply("ACD", 1, 1)
        lives(each.all(), timeout_ms)
    wait_until(lambda: not in_progress(hostb), "the last to go")
    assert counter(hostb, "timeouts_rtr") - before == COUNT
    for each, agent in zip(crowds, servers.agents):
        for _ in each.all():
            agent.expect("CONNECT_REQUEST")
            assert agent.expect("ESTABLISHED")["status"] == -110
            agent.expect("DISCONNECTED")
        assert not [event for event in agent.all_said()
                    if event["event"] in ("ESTABLISHED", "DISCONNECTED", "ERROR")]
    print(f"without an RTR: {COUNT} peers, {most} at once")


def test_memory_of_a_pending_endpoint(servers, crowd, hostb, set_parameter):
    """Compared with as many plain TCP connections, so that sockets cancel out."""
    count = max(COUNT, MEASURED)
    set_parameter(max_pending=count, request_timeout_ms=int(60000 * SCALE))
    (port,) = servers("", 1)
    plain = hostb.socket()
    plain.bind((hostb.address, 0))
    plain.listen(count)
    plain.settimeout(seconds(10))
    used = {}
    for what, number in (("plain", plain.getsockname()[1]), ("endpoints", port)):
        before = settled_octets(OURS)
        peers = crowd(number, count)
        accepted = []
        end = time.monotonic() + seconds(40) + count / 50
        while any(peer.connected is None for peer in peers.all()) or \
                what == "plain" and len(accepted) < count:
            assert time.monotonic() < end
            peers.step()
            if what == "plain" and len(accepted) < count:
                accepted.append(plain.accept()[0])
        if what == "endpoints":
            wait_until(lambda: in_progress(hostb) == count, "all to be accepted")
        used[what] = settled_octets(OURS) - before
        for sock in accepted:
            sock.close()
        peers.close()
        wait_until(lambda: not in_progress(hostb), "all to go")
    plain.close()
    each = (used["endpoints"] - used["plain"]) / count
    print(f"memory: {each:.0f} octets for a pending endpoint, besides its socket")
    assert each > 0
    assert ENDPOINT_OCTETS is None or each <= ENDPOINT_OCTETS


# ---- beyond the bounds ----

def test_a27_beyond_max_pending_peers_wait(servers, crowd, hostb, set_parameter):
    """None is closed before its time; those that wait have theirs later."""
    bound, count, timeout_ms = 20, 60, int(1500 * SCALE)
    set_parameter(max_pending=bound, request_timeout_ms=timeout_ms)
    (port,) = servers("", 1)
    peers = crowd(port, count)
    most = 0
    limit = time.monotonic() + seconds(30)
    begun = time.monotonic()
    while peers.left():
        assert time.monotonic() < limit
        peers.step()
        most = max(most, counter(hostb, "in_progress_responder"))
    assert most == bound
    assert {peer.how for peer in peers.all()} == {FIN}
    lives(peers.all(), timeout_ms)
    # Three times as many as may be: the last of them three times as long.
    assert time.monotonic() - begun >= 3 * timeout_ms / 1000 - 0.2


def burst(crowd, port, count, hostb):
    """All at once, each with its Request right away; until each has its Reply.  Returns
    those that were accepted, which are up then, and how many there were at once.
    """
    replied, up = [], []

    def answer(peer):
        if len(peer.octets) == 24:
            replied.append(peer)
            if peer.octets == mpa.reply("ACD", 1, 1):
                peer.sock.send(mpa.RTR["C"])
                up.append(peer)

    peers = crowd(port, count)
    most = 0
    limit = time.monotonic() + seconds(60)
    while len(replied) < count:
        assert time.monotonic() < limit, f"{len(replied)} of {count} have a Reply"
        peers.step(on_connected=lambda peer: peer.sock.send(mpa.request("ACD", 1, 1)),
                   on_octets=answer)
        most = max(most, counter(hostb, "in_progress_responder"))
        ended = [peer for peer in peers.all() if peer.ended and len(peer.octets) < 24]
        assert not ended, f"{len(ended)} were closed without a Reply"
    return up, most


def test_a25_a27_a_burst_beyond_max_pending(servers, crowd, hostb, set_parameter):
    """Far beyond it, with the Request there before the accept (FR-19): all come up, none
    is one late.
    """
    count = min(COUNT, 300)
    set_parameter(max_pending=4)
    (port,) = servers("auto=accept ird=1 ord=1", 1)
    up, most = burst(crowd, port, count, hostb)
    assert len(up) == count and most <= 4
    for _ in range(count):
        assert servers.agents[0].expect("ESTABLISHED")["status"] == 0


def test_a25_a_burst_beyond_the_backlog(servers, crowd, hostb):
    """Each peer gets a Reply, and none a bare end, which would bring one with a fallback
    a second time.  It may be a reject: rdma_ucm says no to more Requests than the
    backlog that its program has not fetched yet.
    """
    # Those that TCP has no room for come again after 1, 2, 4, ... s.
    count = min(COUNT, 24)
    servers("", 1)
    agent = servers.agents[0]
    agent.reset()
    agent.do("listen 10.77.0.2 0 depth=4 size=64 backlog=4 auto=accept ird=1 ord=1")
    up, most = burst(crowd, agent.expect("LISTENING")["port"], count, hostb)
    for _ in up:
        assert agent.expect("ESTABLISHED")["status"] == 0
    print(f"backlog 4: {len(up)} of {count} up, the others rejected, {most} at once")
    assert len(up) >= 4


def test_fr19_request_before_the_accept(servers, dial, hostb, set_parameter):
    """The Request, or a part of it up to every offset, is there before the socket is
    accepted, as with a busy work queue: one CONNECT_REQUEST each.
    """
    set_parameter(max_pending=1, request_timeout_ms=int(20000 * SCALE))
    (port,) = servers("", 1)
    agent = servers.agents[0]
    request = mpa.request("ACD", 1, 1, b"early")
    for offset in range(1, len(request) + 1):
        holder = dial(port)
        wait_until(lambda: in_progress(hostb) == 1, "the one that holds the place")
        raw = dial(port)
        raw.send(request[:offset])
        assert in_progress(hostb) == 1
        holder.reset()
        if offset < len(request):
            raw.send(request[offset:])
        event = agent.expect("CONNECT_REQUEST")
        assert event["private_data"] == b"early".hex()
        agent.do(f"reject {event['id']}")
        assert raw.receive(24)[:17] == mpa.REPLY_KEY + b"\x30"
        raw.close()
        wait_until(lambda: not in_progress(hostb), "the connection to go")
    agent.nothing("CONNECT_REQUEST", 0.05)


# ---- many good ones ----

@pytest.fixture(name="client")
def fixture_client(hosta):
    """An application of its own, that may have many files."""
    agent = Agent(hosta, "many")
    yield agent
    agent.close()


ENDS = ("ESTABLISHED", "REJECTED", "UNREACHABLE", "CONNECT_ERROR", "ADDR_ERROR", "ROUTE_ERROR")
RETURNS = ("CONNECT_RETURNED", "ERROR")


def test_fr47_many_connects_to_a_slow_server(client, servers, hostb, hosta):
    """10 ms for each accept, backlog 16: each ends in one event, what is up works."""
    count = min(COUNT, 1024)
    servers("", 1)
    server = servers.agents[0]
    server.reset()
    server.do("listen 10.77.0.2 0 backlog=16 depth=4 size=64")
    port = server.expect("LISTENING")["port"]
    for _ in range(count):
        client.do(f"connect 10.77.0.2 {port} depth=4 size=64")
    ended = {}
    limit = time.monotonic() + seconds(60)
    while len(ended) < count:
        assert time.monotonic() < limit, f"{count - len(ended)} have heard nothing"
        for event in server.all_said():
            if event["event"] == "CONNECT_REQUEST":
                time.sleep(0.01)
                server.tell(f"accept {event['id']} ird=1 ord=1 depth=4 size=64")
        server.seen.clear()
        for event in client.all_said():
            # An error that a call returns is the end, too, and no event follows.
            if event["event"] in ENDS or event["event"] in RETURNS and event["errno"]:
                assert event["id"] not in ended, event
                ended[event["id"]] = event["event"]
        client.seen.clear()
        time.sleep(0.005)
    up = [number for number, how in ended.items() if how == "ESTABLISHED"]
    print(f"slow server: {len(up)} of {count} up, the others: "
          f"{set(ended.values()) - {'ESTABLISHED'}}")
    assert len(up) >= count // 2
    client.do(f"send {up[-1]} n=1")
    assert client.expect("WC", id=up[-1])["status"] == 0
    wait_until(lambda: not in_progress(hosta) and not in_progress(hostb),
               "no half-open endpoint", 30)


@contextlib.contextmanager
def write_bw(hosta, hostb, queues):
    """ib_write_bw -R with so many QPs: the result of the client, and the server."""
    words = ("ib_write_bw", "-R", "-q", str(queues), "-n", "5", "-s", "64", "-t", "5",
             "-p", "18999")
    server = hostb.popen(*words)
    try:
        wait_until(lambda: hostb.listens(18999) or server.poll() is not None, "ib_write_bw")
        yield hosta.run(*words, "10.77.0.2", timeout=60, check=False), server
    finally:
        server.kill()
        server.communicate()


def test_fr48_many_qps_of_one_program(hosta, hostb):
    """ib_write_bw -R -q 64: all of them come up."""
    with write_bw(hosta, hostb, 64) as (client, server):
        assert client.returncode == 0, client.stdout
        said, _ = server.communicate(timeout=seconds(60))
        assert server.returncode == 0, said


@pytest.fixture(name="much_locked_memory")
def fixture_much_locked_memory():
    """RLIMIT_MEMLOCK, for the programs that are started."""
    saved = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY,) * 2)
    yield True
    resource.setrlimit(resource.RLIMIT_MEMLOCK, saved)


def test_fr48_more_qps_than_locked_memory(hosta, hostb):
    """-q 1026 wants more than 8 MiB, the usual RLIMIT_MEMLOCK: refused with that cause."""
    with write_bw(hosta, hostb, 1026) as (client, _):
        assert client.returncode, client.stdout
        assert "Couldn't allocate MR" in client.stdout, client.stdout
        assert "Cannot allocate memory" in client.stdout, client.stdout
    wait_until(lambda: not in_progress(hosta) and not in_progress(hostb), "nothing left")


@pytest.mark.parametrize("queues", [1024, 1026] + ([4096] if COUNT >= 1000 else []))
def test_fr48_more_qps_than_libsiw_can_map(hosta, hostb, much_locked_memory, queues):
    """It cannot make a QP and says so, or the other end, which cannot, accepts nothing
    any more within the time of a connect.  Nothing is left.
    """
    assert much_locked_memory
    with write_bw(hosta, hostb, queues) as (client, _):
        assert client.returncode, client.stdout
        assert "QP" in client.stdout or \
            "RDMA_CM_EVENT_UNREACHABLE; error: -110" in client.stdout, client.stdout
    wait_until(lambda: not in_progress(hosta) and not in_progress(hostb), "nothing left")


def test_fr51_descriptors_run_out(answer, hosta):
    """200 connects of a program that may have 64 files: its own errors only; when it
    dies all of it goes.
    """
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, files[1]))
    try:
        agent = Agent(hosta, "many")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, files)
    try:
        for _ in range(200):
            agent.do(f"connect 10.77.0.2 {answer.port}")
        wait_until(lambda: in_progress(hosta) or agent.all_said(), "a connection")
        out_of_files = agent.expect("ERROR")
        assert out_of_files["errno"] == 24, out_of_files
    finally:
        agent.process.kill()
        agent.process.wait()
    wait_until(lambda: not in_progress(hosta), "its connections to go")
    wait_until(lambda: "mpa2-cm" not in hosta.run("rdma", "resource", "show", "qp").stdout,
               "its QPs to go")


def test_fr52_short_connections_one_after_the_other(initiator, responder):
    """With a free source port."""
    for number in range(COUNT):
        if number % PER_AGENT == 0:
            initiator.reset()
            responder.reset()
            responder.do("listen 10.77.0.2 0 auto=reject")
            port = responder.expect("LISTENING")["port"]
        initiator.do(f"connect 10.77.0.2 {port}")
        assert initiator.expect("CONNECT_RETURNED")["errno"] == 0
        event = initiator.expect("REJECTED")
        initiator.do(f"destroy {event['id']}")
        responder.seen.clear()


def test_fr52_a_source_port_that_tcp_uses_too(initiator, responder, hosta, hostb):
    """Towards another port, by somebody who does not share it: not in our way.  The
    same two ends are: EADDRNOTAVAIL, as from TCP's connect().
    """
    responder.do("listen 10.77.0.2 0 auto=reject")
    port = responder.expect("LISTENING")["port"]
    plain = hostb.socket()
    plain.bind((hostb.address, 0))
    plain.listen(4)
    (other,) = many_sockets(hosta, 1)
    with plain, other:
        other.connect(plain.getsockname())
        taken = other.getsockname()[1]
        initiator.do(f"connect 10.77.0.2 {port} src=10.77.0.1 sport={taken}")
        assert initiator.expect("CONNECT_RETURNED")["errno"] == 0
        initiator.expect("REJECTED")
        initiator.reset()
        initiator.do(f"connect 10.77.0.2 {plain.getsockname()[1]} src=10.77.0.1 sport={taken}")
        assert initiator.expect("CONNECT_RETURNED")["errno"] == errno.EADDRNOTAVAIL


def test_fr52_one_source_port_to_many_listeners(initiator, responder):
    """The port is in TIME_WAIT towards those before: only an equal 4-tuple is in use."""
    for _ in range(8):
        responder.do("listen 10.77.0.2 0 auto=reject")
        port = responder.expect("LISTENING")["port"]
        initiator.do(f"connect 10.77.0.2 {port} src=10.77.0.1 sport=22222")
        assert initiator.expect("CONNECT_RETURNED")["errno"] == 0
        event = initiator.expect("REJECTED")
        initiator.do(f"destroy {event['id']}")
