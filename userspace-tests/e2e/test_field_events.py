# SPDX-License-Identifier: GPL-2.0
"""Cases from the field: the first message, the order of events, both sides at once."""

import contextlib
import json
import re

import pytest

import mpa
from conftest import TOOLS, Agent, run, seconds, wait_until
from field import both_up, often, take
from test_programs import pair
from test_responder import established, listen

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("then", ["query", "disconnect"])
def test_fr21_established_means_rts(initiator, responder, then):
    """In the handler of ESTABLISHED, at either end: the QP takes work, as it does in RTS only,
    and a disconnect is clean. siw of 6.1 leaves the state out of what it tells by query_qp.
    """
    port = listen(responder, f"auto=accept recvs=4 established=1 size=8 then={then}")
    initiator.do(f"connect 10.77.0.2 {port} recvs=4 established=1 size=8 then={then}")
    ours, theirs = both_up(initiator, responder)
    for agent, number in ((initiator, ours), (responder, theirs)):
        if then == "query":
            assert agent.expect("QP", id=number)["max_rd_atomic"] == 1
            take(agent, "RECV", 1)
            take(agent, "SEND", 1)
        else:
            agent.expect("DISCONNECTED", id=number, status=0)
        agent.nothing("ERROR", 0.05)


def test_fr21_passive_established_waits_for_the_rtr(responder, dial):
    """And its first message leaves behind that, never before."""
    port = listen(responder, "auto=accept established=1 size=8")
    raw = dial(port)
    raw.send(mpa.request("AC", 1, 1))
    raw.receive(24)
    raw.silent()
    responder.nothing("ESTABLISHED", 0.05)
    raw.send(mpa.RTR["C"])
    assert raw.receive(32) == mpa.fpdu(mpa.send(1, bytes([1] * 8)))
    responder.expect("ESTABLISHED", status=0)
    responder.nothing("ERROR", 0.05)


@pytest.fixture(name="loopback")
def fixture_loopback(hosta):
    """An address on the loopback interface of hosta, with a siw device of its own.

    rdma_cm finds that by lo's hardware address, and all zeros are none.
    """
    hosta.run("ip", "link", "set", "lo", "address", "02:00:00:00:76:10")
    hosta.run("ip", "address", "add", "10.76.0.1/32", "dev", "lo")
    hosta.run("rdma", "link", "add", "siw_lo", "type", "siw", "netdev", "lo")
    yield "10.76.0.1"
    run("rdma", "link", "del", "siw_lo")
    hosta.run("ip", "address", "del", "10.76.0.1/32", "dev", "lo")


@contextlib.contextmanager
def agents_on(host, count):
    """So many applications of their own."""
    agents = []
    try:
        for _ in range(count):
            agents.append(Agent(host))
        yield agents
    finally:
        for agent in agents:
            if agent.process.poll() is None:
                agent.close()


def test_fr22_rejected_before_connect_is_over(hosta, loopback):
    """On loopback the reject may come while the initiator is still in its connect."""
    tool = (str(TOOLS / "mpa2-cm"), "passive-first", "--reject", "--private-len", "8",
            "--count", str(often(100, 10000, 10)))
    serving = hosta.popen(*tool, "--listen", loopback, "--port", "7610")
    try:
        wait_until(lambda: hosta.listens(7610), "the responder", 30)
        result = hosta.run(*tool, "--connect", loopback, "--port", "7610", check=False,
                              timeout=30 + often(100, 10000))
        output, _ = serving.communicate(timeout=seconds(30))
    finally:
        serving.kill()
        serving.communicate()
    assert result.returncode == 0 and serving.returncode == 0, result.stdout + output
    assert json.loads(result.stdout.splitlines()[-1])["failed"] == 0


def perftest(server, client, tool, *options, timeout=60):
    """A perftest tool, the passive side on the first host."""
    return pair(client, server, 18515,
                (tool, "-d", server.device, "-F") + options,
                (tool, "-d", client.device, "-F") + options + (server.address,), timeout=timeout)


@pytest.mark.parametrize("swapped", [False, True], ids=["a-to-b", "b-to-a"])
@pytest.mark.parametrize("stock_end", [
    "none", pytest.param("initiator", marks=pytest.mark.stock),
    pytest.param("responder", marks=pytest.mark.stock)])
def test_fr25_ib_send_bw_in_every_pairing(request, hosta, hostb, swapped, stock_end):
    """The key exchange of perftest, in which the server may speak first, ends within 10 s."""
    server, client = (hosta, hostb) if swapped else (hostb, hosta)
    if stock_end != "none":
        request.getfixturevalue("stock")(client if stock_end == "initiator" else server)
    for _ in range(often(1, 200)):
        perftest(server, client, "ib_send_bw", "-R", "-n", "20", "-s", "1024", timeout=10)


@pytest.mark.parametrize("tool", ["ib_send_bw", "ib_read_bw", "ib_write_bw"])
def test_fr26_perftest(hosta, hostb, tool):
    """Sends before the peer has posted Receives among them; all sizes in the long run.

    Without -R perftest sets its QPs up by itself, which no iWARP device can do: it has to
    say so and end, as it does on stock siw.
    """
    sizes = ("-a",) if often(0, 1) else ("-s", "4096")
    perftest(hostb, hosta, tool, "-R", "-n", "20", *sizes, timeout=often(60, 600))
    without = hosta.run(tool, "-d", hosta.device, "-F", hostb.address, check=False)
    assert without.returncode != 0


def test_fr26_a_terminate_is_an_error_completion(responder, dial):
    """Not a hang: what is posted comes back, and the end is told."""
    port = listen(responder, "auto=accept recvs=3")
    raw = dial(port)
    number = established(responder, raw)
    raw.send(mpa.terminate(1, 2, 1))
    for _ in range(3):
        assert responder.expect("WC", opcode="?")["status"] == 5
    responder.expect("DISCONNECTED", id=number)


def test_fr27_two_ends_on_one_device_at_once(hosta):
    """Each connects to the other's listener at the same time, by one device."""
    with agents_on(hosta, 2) as agents:
        ports = []
        for agent in agents:
            agent.do(f"listen {hosta.address} 0 auto=accept recvs=4 size=8")
            ports.append(agent.expect("LISTENING")["port"])
        for agent, port in zip(agents, reversed(ports)):
            agent.tell(f"connect {hosta.address} {port} recvs=4 size=8 established=1")
        for agent in agents:
            for _ in range(2):
                agent.expect("ESTABLISHED", status=0)
            take(agent, "RECV", 1)
            take(agent, "SEND", 1)


def all_to_all(host, agents, options=""):
    """Every application connects to every other; the numbers of each one's connections."""
    ports = []
    for agent in agents:
        agent.do(f"listen {host.address} 0 auto=accept recvs=2 size=8 {options}")
        ports.append(agent.expect("LISTENING")["port"])
    for agent in agents:
        for other, port in zip(agents, ports):
            if other is not agent:
                agent.tell(f"connect {host.address} {port} recvs=2 size=8 {options}")
    return [[agent.expect("ESTABLISHED", status=0, timeout=30)["id"]
             for _ in range(2 * (len(agents) - 1))] for agent in agents]


def test_fr27_all_to_all_on_one_host(hosta):
    """Eight processes, each with a connection to each other one."""
    count = often(8, 8, 4)
    with agents_on(hosta, count) as agents:
        numbers = all_to_all(hosta, agents, "established=1")
        for agent, own in zip(agents, numbers):
            take(agent, "RECV", len(own))
            take(agent, "SEND", len(own))


@pytest.mark.parametrize("answer_", ["accept", "reject"])
def test_fr28_private_data_of_both_ends(initiator, responder, answer_):
    """As fabtests' fi_cm_data looks at it: in the request, the accept and the reject, every
    size from nothing to the most.
    """
    for length in [0, 1, 2, 51, 56, 147, 148, 196, 251, 252, 255]:
        ours, theirs = (bytes((seed + n) % 256 for n in range(length)).hex()
                        for seed in (1, 101))
        responder.do(f"listen 10.77.0.2 0 auto={answer_}" + (f" pd={theirs}" if length else ""))
        port = responder.expect("LISTENING")["port"]
        initiator.do(f"connect 10.77.0.2 {port}" + (f" pd={ours}" if length else ""))
        assert responder.expect("CONNECT_REQUEST")["private_data"] == ours
        event = initiator.expect("ESTABLISHED" if answer_ == "accept" else "REJECTED")
        assert event["private_data"] == theirs


def test_fr28_fi_pingpong(hosta, hostb):
    """libfabric's msg endpoints on verbs, with its data checked."""
    options = ("-p", "verbs", "-e", "msg", "-I", "10", "-S", "1024", "-c")
    server = hostb.popen("fi_pingpong", "-d", hostb.device, *options)
    try:
        wait_until(lambda: hostb.listens(47592), "fi_pingpong", 30)
        result = hosta.run("fi_pingpong", "-d", hosta.device, *options, hostb.address,
                           check=False)
        output, _ = server.communicate(timeout=seconds(30))
    finally:
        server.kill()
        server.communicate()
    assert result.returncode == 0 and server.returncode == 0, result.stdout + output
    assert re.search(r"^1k\s+10\s", result.stdout, re.MULTILINE)
