# SPDX-License-Identifier: GPL-2.0
"""Devices, addresses and modules that come and go under those who use them."""

import contextlib
import os
import pathlib
import threading

import pytest

import mpa
from conftest import Agent, run, seconds, wait_until
from harness import KernelLog, handshakes_in_progress

ROUNDS = int(os.environ.get("IW_ROUNDS", "8"))


@pytest.fixture(scope="module", name="agents")
def fixture_agents(hosts):
    """Applications for these tests alone: a device waits for whoever has it open."""
    agents = Agent(hosts[0]), Agent(hosts[1])
    yield agents
    for agent in agents:
        agent.close()


@pytest.fixture(autouse=True)
def fixture_no_complaint():
    """Of the kernel, in any of these."""
    log = KernelLog()
    yield
    assert not log.complaints()


@contextlib.contextmanager
def at_the_same_time(*functions):
    """Each again and again, in a thread of its own; what they raise is raised here."""
    stop, errors, turns = threading.Event(), [], [0] * len(functions)

    def repeat(number, function):
        try:
            while not stop.is_set():
                function()
                turns[number] += 1
        except BaseException as error:  # pylint: disable=broad-except
            errors.append(error)

    threads = [threading.Thread(target=repeat, args=pair) for pair in enumerate(functions)]
    for thread in threads:
        thread.start()
    try:
        yield turns
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not errors, errors


def refused(agent):
    """An id with a QP whose connect was refused: it holds nothing of ours."""
    agent.do("connect 10.77.0.2 7998" if agent.host.name == "hosta" else "connect 10.77.0.1 7998")
    return agent.expect("REJECTED")["id"]


def dump():
    """All of what can be shown."""
    for what in ("qp", "cm_id", "cq", "pd"):
        run("rdma", "resource", "show", what)


def test_fr86_rmmod_against_modify_qp_destroy_qp_and_dumps(initiator, responder):
    """Nobody of these holds the module, so each rmmod succeeds, at any moment."""
    agents = [(agent, refused(agent)) for agent in (initiator, responder)]
    with at_the_same_time(*[lambda a=agent, n=number: a.do(f"churn {n} n=5")
                            for agent, number in agents], dump) as turns:
        for _ in range(ROUNDS):
            run("rmmod", "iw_mpa2", timeout=30)
            run("modprobe", "iw_mpa2", timeout=30)
        wait_until(lambda: all(turns), "a turn of each")


def test_fr86_rmmod_behind_a_storm(initiator, hostb):
    """FR-85: a storm of connects is stopped, and then the module can go."""
    hostb.run("nft", "add table inet hole; add chain inet hole in "
              "{ type filter hook input priority 0; }; "
              "add rule inet hole in tcp dport 7997 drop")
    try:
        for _ in range(max(2, ROUNDS // 5)):
            for number in range(20):
                initiator.do(f"connect 10.77.0.2 {7997 if number % 2 else 7998}")
            for _ in range(20):
                initiator.expect("CONNECT_RETURNED", errno=0)
            assert run("rmmod", "iw_mpa2", check=False).returncode
            initiator.do("reset")
            wait_until(lambda: not handshakes_in_progress("siw_a"), "the end of all", 5)
            run("rmmod", "iw_mpa2", timeout=30)
            run("modprobe", "iw_mpa2", timeout=30)
    finally:
        hostb.run("nft", "delete table inet hole")


def test_fr72_wildcard_listen_against_addresses_and_links(hostb, responder):
    """No lock of ours is held together with rtnl's: lockdep looks on.  And a device that is
    going keeps nobody from listening on all of them.
    """
    def listen():
        responder.do("listen 0.0.0.0 0")
        responder.expect("LISTENING")
        responder.do("reset")

    def addresses():
        hostb.run("ip", "address", "add", "10.79.0.1/24", "dev", "veth_b")
        hostb.run("ip", "address", "del", "10.79.0.1/24", "dev", "veth_b")

    with at_the_same_time(listen, addresses) as turns:
        for _ in range(ROUNDS):
            hostb.run("ip", "link", "add", "dummy2", "type", "dummy")
            hostb.run("ip", "link", "set", "dummy2", "up")
            hostb.run("rdma", "link", "add", "siw_more", "type", "siw", "netdev", "dummy2")
            hostb.run("rdma", "link", "del", "siw_more")
            hostb.run("ip", "link", "del", "dummy2")
        wait_until(lambda: all(turns), "a turn of each")


def read_ports():
    """Every file of every port; one may go while it is read."""
    with contextlib.suppress(OSError):
        for path in pathlib.Path("/sys/class/infiniband").glob("*/ports/1/**/*"):
            with contextlib.suppress(OSError):
                if path.is_file():
                    path.read_bytes()


def test_fr77_netdev_goes_under_readers(hostb):
    """Sysfs, resources, statistics while the netdev of a device is deleted."""
    def show():
        for what in ("link", "resource", "statistic"):
            run("rdma", what, "show", check=False)  # a device may go under it

    with at_the_same_time(read_ports, show) as turns:
        for _ in range(ROUNDS):
            hostb.run("ip", "link", "add", "dummy3", "type", "dummy")
            hostb.run("rdma", "link", "add", "siw_gone", "type", "siw", "netdev", "dummy3")
            hostb.run("ip", "link", "del", "dummy3")
            wait_until(lambda: not os.path.exists("/sys/class/infiniband/siw_gone"),
                       "the device to go")
        wait_until(lambda: all(turns), "a turn of each")


def test_fr10_terminate_against_disconnect(initiator, answer):
    """A Reply without an RTR kind comes while the application disconnects: a Terminate or
    nothing, then the end; one event; and no lock order that lockdep minds.
    """
    seen = set()
    for _ in range(ROUNDS):
        initiator.do(f"connect 10.77.0.2 {answer.port}")
        raw = answer()
        raw.receive(24)
        number = initiator.expect("CONNECT_RETURNED", errno=0)["id"]
        initiator.tell(f"disconnect {number}")
        raw.send(mpa.reply("A", 1, 1))
        said = raw.ends()
        assert said in (b"", mpa.TERMINATE_RTR)
        seen.add(said)
        assert initiator.expect("CONNECT_ERROR")["status"] in (-103, -71)
        initiator.expect("done", command="disconnect")
        initiator.nothing("CONNECT_ERROR", 0.02)
    assert seen


def test_listener_goes_with_its_application(hostb, dial):
    """LISTEN: destroyed, or killed with half a Request in; the port is free again."""
    agent = Agent(hostb)
    try:
        agent.do("listen 10.77.0.2 7990")
        raw = dial(7990)
        raw.send(mpa.request("AC", 1, 1)[:10])
        agent.do(f"destroy {agent.expect('LISTENING')['id']}")
        assert not hostb.listens(7990) and raw.ends() == b""
        agent.do("listen 10.77.0.2 7990")
        raw = dial(7990)
        raw.send(mpa.request("AC", 1, 1)[:10])
    finally:
        agent.process.kill()
        agent.process.wait()
    assert raw.ends() == b"" and not hostb.listens(7990)
    wait_until(lambda: not handshakes_in_progress("siw_b"), "no handshake to be left", 5)


def test_rmmod_under_a_listener_and_a_connection(responder, dial):
    """FR-85: refused for the one, granted for the other, which lives on without us."""
    responder.do("listen 10.77.0.2 0 auto=accept")
    listener = responder.expect("LISTENING")
    raw = dial(listener["port"])
    raw.send(mpa.request("AC", 1, 1))
    raw.receive(24)
    assert run("rmmod", "iw_mpa2", check=False).returncode
    raw.send(mpa.RTR["C"])
    number = responder.expect("ESTABLISHED", status=0)["id"]
    assert run("rmmod", "iw_mpa2", check=False).returncode
    responder.do(f"destroy {listener['id']}")
    wait_until(lambda: not run("rmmod", "iw_mpa2", check=False).returncode, "rmmod")
    try:
        raw.send(mpa.fpdu(mpa.send(1, b"on")))
        assert responder.expect("WC", opcode="RECV")["data"] == b"on".hex()
        raw.close()
        responder.expect("DISCONNECTED", id=number, timeout=seconds(5))
    finally:
        run("modprobe", "iw_mpa2")

