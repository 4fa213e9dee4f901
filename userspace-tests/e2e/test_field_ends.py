# SPDX-License-Identifier: GPL-2.0
"""Cases from the field: rejects, private data, timeouts, blocked ports."""

import contextlib
import pathlib
import time

import pytest

import mpa
from conftest import PARAMETERS, Agent, run, seconds
from field import LONG, often
from test_initiator import REFUSED, RESET, TIMEDOUT, connect, ends_with, the_request
from test_responder import established, listen
from test_transparency import SCRIPTS, expected, play
from test_visibility import counters_at_rest

pytestmark = pytest.mark.slow

LENGTHS = [0, 1, 32, 148, 251, 252, 255]


def pattern(length):
    return bytes(n * 3 % 256 for n in range(length))


@pytest.mark.parametrize("length", LENGTHS)
def test_fr34_reject_data_over_ipv6(initiator, answer6, length):
    initiator.do(f"connect fd77::2 {answer6.port}")
    raw = answer6()
    the_request(raw)
    raw.send(mpa.reply("AC", 1, 64, pattern(length), mpa.FLAG_S | mpa.FLAG_R))
    assert raw.rest() == b""
    assert ends_with(initiator, "REJECTED", REFUSED)["private_data"] == pattern(length).hex()


@pytest.mark.parametrize("length", LENGTHS)
def test_fr34_reject_data_after_a_fallback(initiator, answer, set_parameter, length):
    """No enhanced data is there to be stripped, and none is."""
    set_parameter(fallback="Y")
    raw = connect(initiator, answer)
    the_request(raw)
    raw.close()
    raw = answer()
    assert the_request(raw, 20) == mpa.request_rev1()
    raw.send(mpa.reply_rev1(pattern(length), mpa.FLAG_R))
    event = ends_with(initiator, "REJECTED", REFUSED)
    assert event["private_data"] == pattern(length).hex()


@pytest.mark.parametrize("family", ["v4", "v6"])
@pytest.mark.parametrize("length", LENGTHS)
def test_fr34_reject_data_between_two_of_us(initiator, responder, family, length):
    address = "10.77.0.2" if family == "v4" else "fd77::2"
    data = f"pd={pattern(length).hex()}" if length else ""
    responder.do(f"listen {address} 0 auto=reject {data}")
    port = responder.expect("LISTENING")["port"]
    initiator.do(f"connect {address} {port}")
    assert ends_with(initiator, "REJECTED", REFUSED)["private_data"] == pattern(length).hex()


@pytest.mark.parametrize("who", ["nobody", "plain", "other-family"])
def test_fr35_where_no_such_listener_is(initiator, responder, answer, who):
    """No listener, one that does not speak MPA and hangs up, one of IPv4 alone that is asked by
    IPv6: rejected at once.
    """
    port = {"nobody": 7627, "plain": answer.port}.get(who) or listen(responder, "auto=accept")
    begun = time.monotonic()
    initiator.do(f"connect {'fd77::2' if who == 'other-family' else '10.77.0.2'} {port}")
    if who == "plain":
        answer().close()
    ends_with(initiator, "REJECTED", RESET)
    assert time.monotonic() - begun < seconds(1)
    initiator.nothing("REJECTED", 0.05)


def test_fr35_a_full_backlog(initiator, hostb, set_parameter):
    """TCP drops what has no room: it is tried again, for as long as the step may take, and then
    there is one event.
    """
    set_parameter(connect_timeout_ms=int(1000 * seconds(0.5)))
    with contextlib.ExitStack() as stack:
        plain = stack.enter_context(hostb.socket())
        plain.bind((hostb.address, 7628))
        plain.listen(0)
        full = stack.enter_context(hostb.socket())
        full.connect((hostb.address, 7628))
        initiator.do("connect 10.77.0.2 7628")
        ends_with(initiator, "UNREACHABLE", TIMEDOUT)
        initiator.nothing("UNREACHABLE", 0.05)


FINAL = ("ESTABLISHED", "REJECTED", "UNREACHABLE", "CONNECT_ERROR", "ROUTE_ERROR", "ADDR_ERROR")


def final_event(initiator, number):
    """The one event by which a connect ends."""
    while True:
        event = next((event for event in initiator.seen if event.get("id") == number and
                      event["event"] in FINAL), None)
        if event:
            initiator.seen.clear()
            return event
        event = initiator.lines.get(timeout=seconds(15))
        assert event, "the agent has died"
        initiator.seen.append(event)


def slab_kib():
    """Memory of the kernel's objects."""
    [line] = [line for line in pathlib.Path("/proc/meminfo").read_text().splitlines()
              if line.startswith("Slab:")]
    return int(line.split()[1])


def test_fr38_a_client_retries_while_the_server_dies_and_returns(hosta, hostb, initiator):
    """Every attempt ends in one event; the memory stays where it was. For 10 minutes in the
    long run.
    """
    ended = {}
    end = time.monotonic() + seconds(often(4, 600, 1))
    memory = None
    while time.monotonic() < end:
        server = Agent(hostb)
        server.do("listen 10.77.0.2 7620 auto=accept")
        for attempt in range(8):
            if attempt == 5:
                server.process.kill()
                server.process.wait()
            initiator.do("connect 10.77.0.2 7620")
            number = initiator.expect("CONNECTING")["id"]
            name = final_event(initiator, number)["event"]
            ended[name] = ended.get(name, 0) + 1
            initiator.do(f"destroy {number}")
            time.sleep(0.05)
        initiator.reset()
        memory = memory or slab_kib()  # after a first round, which fills caches
    assert set(ended) <= {"ESTABLISHED", "REJECTED"} and ended["ESTABLISHED"], ended
    for host in (hosta, hostb):
        counters_at_rest(host.device)
    assert slab_kib() - memory < 8192


DELAY_MS = 40


@pytest.fixture(name="slow_link")
def fixture_slow_link(hosta):
    """DELAY_MS more on one of the two ways: so long is a round trip, at least."""
    hosta.run("tc", "qdisc", "add", "dev", "veth_a", "root", "netem", "delay", f"{DELAY_MS}ms")
    yield
    hosta.run("tc", "qdisc", "del", "dev", "veth_a", "root")


def times_to_established(initiator, responder, port, count):
    """Milliseconds from the connect to the later ESTABLISHED, sorted. The programs' own
    clock, which is the machine's, says when.
    """
    times = []
    for _ in range(count):
        initiator.do(f"connect 10.77.0.2 {port}")
        resolved = initiator.expect("ROUTE_RESOLVED")["t"]
        times.append(max(agent.expect("ESTABLISHED", status=0)["t"]
                         for agent in (initiator, responder)) - resolved)
        initiator.reset()
        responder.expect("DISCONNECTED")
    return sorted(times)


def test_fr39_peer_to_peer_costs_a_round_trip_at_most(initiator, responder, set_parameter,
                                                      slow_link):
    """And no connect takes a second. The first way of the exchange is the slow one, so that
    a message more from the initiator costs just DELAY_MS.
    """
    assert slow_link is None
    medians = {}
    for peer_to_peer in ("N", "Y"):
        set_parameter(peer_to_peer=peer_to_peer)
        port = listen(responder, "auto=accept")
        times = times_to_established(initiator, responder, port, often(11, 1000, 3))
        assert times[-1] < 1000 * seconds(1)
        medians[peer_to_peer] = times[len(times) // 2]
        responder.reset()
    # TCP's handshake and the Request take the slow way twice, the RTR once more.
    assert medians["N"] >= 2 * DELAY_MS
    assert medians["Y"] - medians["N"] < DELAY_MS + 15 * seconds(1)


DOCUMENTED_MS = {"connect": 10000, "request": 5000, "reply": 10000, "rtr": 10000,
                 "close": 2000}


@pytest.fixture(name="timeouts")
def fixture_timeouts(set_parameter):
    """timeouts(step) sets a short one and returns its seconds; the long run has those that
    are documented.
    """
    def choose(step):
        if LONG:
            return DOCUMENTED_MS[step] / 1000
        set_parameter(**{f"{step}_timeout_ms": int(1000 * seconds(0.4))})
        return seconds(0.4)

    return choose


def test_fr40_the_documented_timeouts_are_in_force(hosts):
    assert hosts
    assert {step: int((PARAMETERS / f"{step}_timeout_ms").read_text())
            for step in DOCUMENTED_MS} == DOCUMENTED_MS


def ends_after(raw, timeout, begun):
    """The peer gives up when it said so, not before and not much later."""
    raw.sock.settimeout(timeout + seconds(15))
    assert raw.ends() == b""
    assert timeout * 0.95 <= time.monotonic() - begun < timeout + seconds(2)


@pytest.mark.parametrize("octets", [0, 12], ids=["silent", "half"])
def test_fr40_responder_waits_for_the_whole_request(responder, dial, timeouts, octets):
    timeout = timeouts("request")
    port = listen(responder, "auto=accept")
    begun = time.monotonic()
    raw = dial(port)
    raw.send(mpa.request()[:octets])
    ends_after(raw, timeout, begun)
    responder.nothing("CONNECT_REQUEST", 0.05)
    established(responder, dial(port))


@pytest.mark.parametrize("octets", [0, 23], ids=["silent", "short"])
def test_fr40_initiator_waits_for_the_whole_reply(initiator, answer, timeouts, octets):
    timeout = timeouts("reply")
    begun = time.monotonic()
    raw = connect(initiator, answer)
    the_request(raw)
    raw.send(mpa.reply()[:octets])
    ends_after(raw, timeout, begun)
    ends_with(initiator, "UNREACHABLE", TIMEDOUT)
    initiator.nothing("UNREACHABLE", 0.05)


def test_fr40_the_rtr_has_a_bound_of_its_own(responder, dial, timeouts):
    """Late within it, and never."""
    timeout = timeouts("rtr")
    port = listen(responder, "auto=accept")
    raws = dial(port), dial(port)
    begun = time.monotonic()
    for raw in raws:
        raw.send(mpa.request("AC", 1, 1))
        raw.receive(24)
    while time.monotonic() < begun + (timeout - 1 if LONG else timeout / 2):
        time.sleep(0.01)
    raws[0].send(mpa.RTR["C"])
    responder.expect("ESTABLISHED", status=0)
    ends_after(raws[1], timeout, begun)
    with contextlib.suppress(OSError):
        raws[1].send(mpa.RTR["C"])
    number = responder.expect("ESTABLISHED", status=TIMEDOUT)["id"]
    responder.expect("DISCONNECTED", id=number)
    responder.nothing("DISCONNECTED", 0.05)


def test_fr41_a_reject_is_rejected(initiator, responder):
    """With -ECONNREFUSED: the requirements (Annex A, L4) go before the case, which asks for
    the status of stock siw, -ECONNRESET.
    """
    port = listen(responder, "auto=reject pd=6e6f")
    initiator.do(f"connect 10.77.0.2 {port}")
    initiator.expect("CONNECT_RETURNED", errno=0)
    assert ends_with(initiator, "REJECTED", REFUSED)["private_data"] == b"no".hex()
    initiator.nothing("REJECTED", 0.05)


@pytest.mark.stock
def test_fr41_a_reject_is_what_it_is_on_stock_siw(initiator, responder):
    """But for that number, which expected() turns into ours."""
    ends = {"initiator": initiator, "responder": responder}
    with_it = play(ends, SCRIPTS["reject"])
    run("rmmod", "iw_mpa2")
    try:
        without = expected(play(ends, SCRIPTS["reject"]))
    finally:
        run("modprobe", "iw_mpa2")
    assert with_it == without
    assert [event["event"] for event in with_it["initiator"]["events"]].count("REJECTED") == 1


@pytest.fixture(name="wall")
def fixture_wall(hostb):
    """wall(verdict) stands before port 7630 of hostb."""
    made = []

    def build(verdict):
        hostb.run("nft", "add table inet wall; add chain inet wall in "
                  "{ type filter hook input priority 0; }; "
                  f"add rule inet wall in tcp dport 7630 {verdict}")
        made.append(True)

    yield build
    if made:
        hostb.run("nft", "delete table inet wall")


@pytest.mark.parametrize("verdict,name,status,counter", [
    ("drop", "UNREACHABLE", TIMEDOUT, "timeouts_connect"),
    ("reject with tcp reset", "REJECTED", RESET, "connects_failed")],
    ids=["drop", "reset"])
def test_fr43_a_blocked_port_says_why(hosta, initiator, wall, set_parameter, verdict, name,
                                      status, counter):
    """By its event, and by a counter."""
    set_parameter(connect_timeout_ms=int(1000 * seconds(0.5)))
    wall(verdict)
    counters = counters_at_rest(hosta.device)
    initiator.do("connect 10.77.0.2 7630")
    initiator.expect("CONNECT_RETURNED", errno=0)
    ends_with(initiator, name, status)
    assert counters.moved() == {counter: 1}
