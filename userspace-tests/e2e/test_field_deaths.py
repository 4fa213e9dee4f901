# SPDX-License-Identifier: GPL-2.0
"""Cases from the field: ends that come from two sides at once, and processes that die.

Each state and each fault by itself, with what each side gets, is in faults/test_matrix.py;
here two of them meet.
"""

import itertools
import json

import pytest

import mpa
from conftest import Agent, run, seconds, wait_until
from field import both_up, link_down, often
from test_initiator import REFUSED, RESET, connect, the_request
from test_responder import established, listen
from test_visibility import counters_at_rest

pytestmark = pytest.mark.slow

# What the peer has sent when the QP goes: of its Reply, and of its RTR.
REPLY = mpa.reply("AC", 1, 1, b"data")
STATES = {"reply-due": ("initiator", b""), "half-a-reply": ("initiator", REPLY[:22]),
          "replied": ("initiator", REPLY), "rtr-due": ("responder", b""),
          "half-an-rtr": ("responder", mpa.RTR["C"][:7]), "rtr-sent": ("responder", mpa.RTR["C"])}


@pytest.fixture(name="bring_to")
def fixture_bring_to(initiator, responder, dial, answer):
    """bring_to(state) makes a connection: its application, its number there, the raw peer."""
    port = listen(responder, "auto=accept sends=1 size=8")

    def bring(state):
        role, octets = STATES[state]
        if role == "initiator":
            raw = connect(initiator, answer)
            number = initiator.expect("CONNECTING")["id"]
            the_request(raw)
            raw.send(octets)
            return initiator, number, raw
        raw = dial(port)
        raw.send(mpa.request("AC", 1, 1))
        number = responder.expect("CONNECT_REQUEST")["id"]
        raw.receive(24)
        raw.send(octets)
        return responder, number, raw

    bring.port = port
    return bring


def all_is_well(hosta, hostb, responder, dial, port):
    """Nothing is left of what was there, and the next one is served."""
    for host in (hosta, hostb):
        counters_at_rest(host.device)
    raw = dial(port)
    established(responder, raw)
    raw.close()


@pytest.mark.parametrize("state", STATES)
def test_fr54_peer_ends_while_the_qp_is_destroyed(hosta, hostb, responder, dial, bring_to, state):
    """By a FIN or an RST, just before and just after."""
    for how, first in itertools.product(["close", "reset"] * often(2, 2000, 1), [True, False]):
        agent, number, raw = bring_to(state)
        if first:
            getattr(raw, how)()
        agent.tell(f"destroy {number}")
        if not first:
            getattr(raw, how)()
        agent.expect("done", command="destroy", errno=0)
    all_is_well(hosta, hostb, responder, dial, bring_to.port)


@pytest.mark.parametrize("pulled", ["hosta", "hostb"])
def test_fr54_cable_is_pulled_while_qps_are_destroyed(hosta, hostb, responder, dial, bring_to,
                                                      pulled):
    """Connections of all states at the same time, and at either end of the cable."""
    ends = (hosta, hostb) if pulled == "hosta" else (hostb, hosta)
    for _ in range(often(1, 100)):
        there = [bring_to(state) for state in STATES]
        with link_down(*ends):
            for agent, number, raw in there:
                agent.do(f"destroy {number}")
                raw.close()
        for host in ends:
            counters_at_rest(host.device)
    all_is_well(hosta, hostb, responder, dial, bring_to.port)


STAGES = [None, "address resolved 0", "connect 0", "established 0"]


def test_fr55_an_id_goes_while_its_work_runs(ulp, responder, answer, set_parameter):
    """As blktests' NVMe and SRP groups do it, which Debian does not have: a kernel user is
    unloaded while its id is resolved, connects, or has connected just now. On the debug kernel
    a queue that is flushed by its own work would be reported.
    """
    # iw_cm lets rdma_disconnect() wait for a handshake that is under way.
    set_parameter(reply_timeout_ms=int(1000 * seconds(0.3)))
    port = listen(responder, "auto=accept")
    for stage in STAGES * often(3, 200, 1):
        # The one never answers, the other one does.
        ulp("a", addr="10.77.0.2", in_handler="Y",
            port=port if stage == "established 0" else answer.port)
        if stage:
            ulp.says(stage)
        ulp.unload()
    # And an id whose connect was refused.
    for _ in range(often(3, 200, 1)):
        ulp("a", addr="10.77.0.2", port=7695, in_handler="Y")
        ulp.unload()


def test_fr57_an_id_goes_at_the_same_time_as_its_last_event(hosta, hostb, responder, dial,
                                                            bring_to):
    """rdma_destroy_id() in one thread, the end of the connection in another."""
    for state in ["replied", "rtr-sent"] * often(4, 5000, 2):
        agent, number, raw = bring_to(state)
        agent.expect("ESTABLISHED", id=number, status=0)
        agent.tell(f"destroy_id {number}")
        raw.close()
        agent.expect("ID_DESTROYED", id=number, errno=0)
        agent.expect("done", command="destroy_id", errno=0)
    for agent in (bring_to("reply-due")[0], responder):
        agent.reset()
    all_is_well(hosta, hostb, responder, dial, listen(responder, "auto=accept"))


def test_fr57_a_kernel_users_id_goes_at_the_same_time(ulp, dial):
    """It is unloaded while the end of its connection is on its way to it."""
    for _ in range(often(3, 500, 2)):
        ulp("b", addr="10.77.0.2", port=7696, listen="Y")
        raw = dial(7696)
        raw.send(mpa.request("AC", 1, 1))
        raw.receive(24)
        raw.send(mpa.RTR["C"])
        ulp.says("established 0")
        raw.close()
        ulp.unload()


def objects_of(pid):
    """What the RDMA core still has of a process."""
    return [entry for kind in ("cm_id", "qp", "cq", "pd")
            for entry in json.loads(run("rdma", "-j", "resource", "show", kind).stdout or "[]")
            if entry.get("pid") == pid]


@pytest.fixture(name="two")
def fixture_two(hosta, hostb):
    """Two applications that may be killed: initiator and responder."""
    agents = Agent(hosta), Agent(hostb)
    yield agents
    for agent in agents:
        if agent.process.poll() is None:
            agent.close()


@pytest.mark.parametrize("victim", ["initiator", "responder"])
@pytest.mark.parametrize("state", ["request-unanswered", "up", "used", "disconnecting"])
def test_fr64_one_process_is_killed(hosta, hostb, two, state, victim):
    """The other one is told once, and all that the dead one had is gone within 10 s."""
    initiator, responder = two
    responder.do("listen 10.77.0.2 7697" +
                 (" recvs=1" if state == "request-unanswered" else " auto=accept recvs=1"))
    initiator.do("connect 10.77.0.2 7697 recvs=1 size=8")
    theirs = responder.expect("CONNECT_REQUEST")["id"]
    if state != "request-unanswered":
        ours, theirs = both_up(initiator, responder)
    if state == "used":
        initiator.do(f"send {ours} n=1 size=8")
    dead, other = two if victim == "initiator" else two[::-1]
    if state == "disconnecting":
        other.tell(f"disconnect {ours if victim == 'responder' else theirs}")
    pid = dead.process.pid
    dead.process.kill()
    dead.process.wait()
    if state != "request-unanswered":
        other.expect("DISCONNECTED", status=0)
    elif victim == "responder":
        other.expect("REJECTED", status=REFUSED)
    else:
        other.tell(f"accept {theirs}")
        other.expect("done", command="accept", errno=-RESET)
    for name in ("DISCONNECTED", "REJECTED"):
        other.nothing(name, 0.05)
    wait_until(lambda: not objects_of(pid), "its objects to go", 10, lambda: objects_of(pid))
    for host in (hosta, hostb):
        counters_at_rest(host.device)


def pulled_and_disconnected(hosta, hostb, initiator, responder):
    """What each end of a connection is told when the cable is pulled and both disconnect."""
    port = listen(responder, "auto=accept")
    initiator.do(f"connect 10.77.0.2 {port}")
    ours, theirs = both_up(initiator, responder)
    said = []
    with link_down(hosta, hostb):
        for agent, number in ((initiator, ours), (responder, theirs)):
            agent.tell(f"disconnect {number}")
            agent.expect("done", command="disconnect")
            event = agent.expect("DISCONNECTED", id=number)
            agent.nothing("DISCONNECTED", 0.05)
            said.append((event["event"], event["status"]))
    for agent in (initiator, responder):
        agent.reset()
    return said


def test_fr67_status_of_a_disconnect_behind_a_pulled_cable(hosta, hostb, initiator, responder):
    assert pulled_and_disconnected(hosta, hostb, initiator, responder) == \
        [("DISCONNECTED", 0)] * 2


@pytest.mark.stock
def test_fr67_that_status_is_stock_siws(hosta, hostb, initiator, responder):
    with_it = pulled_and_disconnected(hosta, hostb, initiator, responder)
    run("rmmod", "iw_mpa2")
    try:
        without = pulled_and_disconnected(hosta, hostb, initiator, responder)
    finally:
        run("modprobe", "iw_mpa2")
    assert with_it == without
