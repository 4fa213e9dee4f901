# SPDX-License-Identifier: GPL-2.0
"""What users can see: rdma resource, counters, trace events, log lines."""

import json
import os
import pathlib
import re

import pytest

import mpa
from conftest import TOP, run, seconds, wait_until
from counter_sums import ROLES
from test_initiator import connect, the_request
from test_responder import established, listen

COUNTERS = "/sys/class/infiniband/{}/ports/1/hw_counters"
RESULTS = pathlib.Path(os.environ.get("IW_RESULTS", "/tmp"))
TRACING = pathlib.Path("/sys/kernel/tracing")


class Counters:
    """How far counters have moved."""

    def __init__(self, device):
        self.path = pathlib.Path(COUNTERS.format(device))
        self.before = self.read()

    def read(self):
        return {file.name: int(file.read_text()) for file in self.path.iterdir()}

    def _changed(self, wanted):
        now = self.read()
        return now, {name: now[name] - value for name, value in self.before.items()
                     if now[name] != value and wanted(name)}

    def moved(self):
        """What has changed since the last look, gauges and the parts of the sums left out."""
        self.before, changed = self._changed(
            lambda name: name.startswith("established_") or
            "in_progress" not in name and not name.endswith(ROLES))
        return changed

    def ended(self, role):
        """The outcomes since the last look, once all handshakes of that role have one."""
        started = f"started_{role}"
        wait_until(lambda: self.read()[started] != self.before[started] and
                   not self.read()[f"in_progress_{role}"], "the outcome")
        self.before, changed = self._changed(
            lambda name: name.endswith(f"_{role}") and not name.startswith("in_progress"))
        assert changed.pop(started) == sum(changed.values())
        return {name.removesuffix(f"_{role}"): value for name, value in changed.items()}


def counters_at_rest(device):
    """Once nothing is left of an earlier test that would be counted in this one."""
    counters = Counters(device)
    wait_until(lambda: not counters.read()["handshakes_in_progress"], "no handshake to be left")
    counters.moved()
    return counters


@pytest.fixture(name="patience")
def fixture_patience(set_parameter):
    """Peers here close at the end of a test: on a slow machine that may be later than usual."""
    set_parameter(close_timeout_ms=int(seconds(2000)))


@pytest.fixture(name="counted")
def fixture_counted(hostb, patience):
    """The responder's counters."""
    assert patience is None
    return counters_at_rest(hostb.device)


@pytest.fixture(name="counting")
def fixture_counting(hosta, patience):
    """The initiator's counters."""
    assert patience is None
    return counters_at_rest(hosta.device)


@pytest.fixture(name="trace")
def fixture_trace():
    """The trace events of one test, as lines."""
    events = TRACING / "events/iw_mpa2/enable"
    (TRACING / "trace").write_text("")
    events.write_text("1")
    yield lambda: [line.split(": ", 1)[1] for line in
                   (TRACING / "trace").read_text().splitlines()
                   if not line.startswith("#")]
    events.write_text("0")


def resources(device, port):
    """What is shown of the ids of a device that have a port at one end."""
    shown = json.loads(run("rdma", "-dd", "-j", "resource", "show", "cm_id").stdout)
    return [entry for entry in shown if entry["ifname"] == device and
            any(entry.get(end, "").endswith(f":{port}") for end in ("src-addr", "dst-addr"))]


def details(device, port, state):
    """The driver's part of the one id in that state, without its prefix."""
    [entry] = [entry for entry in resources(device, port) if entry.get("drv_state") == state]
    return {key[4:]: value for key, value in entry.items() if key.startswith("drv_")}


def test_responder_is_counted(responder, dial, counted):
    port = listen(responder, "auto=accept")
    raw = dial(port)
    established(responder, raw)
    assert counted.moved() == {
        "requests_received_enhanced": 1, "accepts_sent_enhanced": 1, "fence_holds": 1,
        "rtr_received_write": 1, "established_responder": 1}
    raw = dial(port)
    raw.send(mpa.request_rev1())
    raw.receive(20)
    responder.expect("ESTABLISHED", status=0)
    raw.send(mpa.fpdu(mpa.send(1, b"x")))
    responder.expect("WC", opcode="RECV")
    assert counted.moved() == {
        "requests_received_rev1": 1, "accepts_sent_rev1": 1, "fence_holds": 1,
        "first_fpdu_no_rtr": 1, "established_responder": 1}


MALFORMED = {
    "malformed_key": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "malformed_rev": mpa.frame(mpa.REQUEST_KEY, 0, 3),
    "malformed_length": mpa.frame(mpa.REQUEST_KEY, 0, 2, length=513),
    "malformed_enhanced": mpa.frame(mpa.REQUEST_KEY, mpa.FLAG_S, 2, b"abc"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_requests_are_counted_and_told_once(responder, dial, counted, name):
    """One line with device, addresses and cause in words; the rate of lines is limited, so
    that earlier tests may have used up what this one gets at first.
    """
    port = listen(responder, "auto=accept")
    sent, lines = [], []

    def told():
        raw = dial(port)
        mine = raw.sock.getsockname()[1]
        raw.send(MALFORMED[name])
        assert raw.ends() == b""
        sent.append(mine)
        lines[:] = [line for line in run("dmesg").stdout.splitlines()
                    if f":{port}, " in line and f":{mine}: " in line]
        return lines

    wait_until(told, "the line", 20)
    assert len(lines) == 1
    assert re.search(rf"iw_mpa2: siw_b: responder 10\.77\.0\.2:{port}, "
                     rf"peer 10\.77\.0\.1:{sent[-1]}: [a-z ]+", lines[0], re.I), lines
    assert counted.moved() == {name: len(sent)}


def first_octets(raw, octets):
    raw.send(mpa.request("AC", 1, 1))
    raw.receive(24)
    raw.send(octets)


RESPONDER_OUTCOMES = {
    "established": lambda raw: first_octets(raw, mpa.RTR["C"]),
    "rejected": lambda raw: raw.send(mpa.request("AC", 1, 1, flags=mpa.FLAG_S | mpa.FLAG_M)),
    "failed_timeout": lambda raw: None,
    "failed_closed": lambda raw: raw.close(),
    "failed_reset": lambda raw: raw.reset(),
    "failed_malformed": lambda raw: raw.send(MALFORMED["malformed_rev"]),
    "failed_terminated": lambda raw: first_octets(raw, mpa.TERMINATE_RTR),
}


@pytest.mark.slow
@pytest.mark.parametrize("outcome", RESPONDER_OUTCOMES)
def test_outcomes_of_a_responder(responder, dial, counted, set_parameter, outcome):
    """Each handshake is in exactly one part of the sum."""
    set_parameter(request_timeout_ms=200)
    raw = dial(listen(responder, "auto=accept"))
    RESPONDER_OUTCOMES[outcome](raw)
    assert counted.ended("responder") == {outcome: 1}


@pytest.mark.slow
def test_outcomes_refused_and_aborted(responder, dial, counted, set_parameter):
    port = listen(responder, "")
    set_parameter(accept_enhanced="N")
    raw = dial(port)
    raw.send(mpa.request("AC", 1, 1))
    raw.ends()
    assert counted.ended("responder") == {"failed_refused": 1}
    raw = dial(port)
    raw.send(mpa.request_rev1())
    responder.expect("CONNECT_REQUEST")
    responder.do("reset")
    raw.ends()
    assert counted.ended("responder") in ({"failed_aborted": 1}, {"rejected": 1})


INITIATOR_OUTCOMES = {
    "established": lambda raw: raw.send(mpa.reply("AC", 1, 1)),
    "rejected": lambda raw: raw.send(mpa.reply("AC", 1, 1, flags=mpa.FLAG_S | mpa.FLAG_R)),
    "failed_timeout": lambda raw: None,
    "failed_closed": lambda raw: raw.close(),
    "failed_reset": lambda raw: raw.reset(),
    "failed_malformed": lambda raw: raw.send(bytes(20)),
    "failed_refused": lambda raw: raw.send(mpa.reply("AC", 1, 1,
                                                     flags=mpa.FLAG_S | mpa.FLAG_M)),
    "failed_negotiation": lambda raw: raw.send(mpa.reply("AC", 1, 129)),
}


@pytest.mark.parametrize("outcome", INITIATOR_OUTCOMES)
def test_outcomes_of_an_initiator(initiator, answer, counting, set_parameter, outcome):
    set_parameter(reply_timeout_ms=200, close_timeout_ms=200)
    raw = connect(initiator, answer)
    the_request(raw)
    INITIATOR_OUTCOMES[outcome](raw)
    assert counting.ended("initiator") == {outcome: 1}


def test_outcomes_of_connects_that_come_to_nothing(initiator, answer, counting):
    initiator.do("connect 10.77.0.2 9")
    assert counting.ended("initiator") == {"failed_connect": 1}
    raw = connect(initiator, answer)
    the_request(raw)
    initiator.do("reset")
    assert counting.ended("initiator") == {"failed_aborted": 1}


def test_a_probe_is_counted_and_not_told(responder, dial, counted):
    port = listen(responder, "auto=accept")
    raw = dial(port)
    mine = raw.sock.getsockname()[1]
    raw.close()
    wait_until(lambda: counted.read()["peer_closed"] > counted.before["peer_closed"],
               "the count")
    assert not [line for line in run("dmesg").stdout.splitlines()
                if f":{port}, " in line and f":{mine}: " in line]


def test_rejects_are_counted_by_reason(responder, dial, counted):
    port = listen(responder, "auto=reject")
    raw = dial(port)
    raw.send(mpa.request("AC", 1, 1))
    raw.rest()
    assert counted.moved() == {"requests_received_enhanced": 1, "rejects_sent_enhanced": 1,
                               "rejects_by_application": 1}
    raw = dial(port)
    raw.send(mpa.request("AC", 1, 1, bytes(256)))
    raw.rest()
    assert counted.moved() == {"requests_received_enhanced": 1, "rejects_sent_enhanced": 1,
                               "rejects_for_private_data": 1}
    raw = dial(port)
    raw.send(mpa.request("AC", 1, 1, flags=mpa.FLAG_S | mpa.FLAG_M))
    raw.rest()
    assert counted.moved() == {"requests_received_enhanced": 1, "rejects_sent_enhanced": 1,
                               "rejects_for_markers": 1}


def test_timeouts_are_counted_by_step(responder, initiator, answer, dial, counted, counting,
                                      set_parameter):
    set_parameter(request_timeout_ms=200, reply_timeout_ms=200, rtr_timeout_ms=200)
    port = listen(responder, "auto=accept")
    assert dial(port).ends() == b""
    assert counted.moved() == {"timeouts_request": 1}
    raw = dial(port)
    raw.send(mpa.request("AC", 1, 1))
    raw.receive(24)
    assert raw.ends() == b""
    assert counted.moved() == {"requests_received_enhanced": 1, "accepts_sent_enhanced": 1,
                               "fence_holds": 1, "timeouts_rtr": 1}
    the_request(connect(initiator, answer))
    initiator.expect("UNREACHABLE")
    assert counting.moved() == {"requests_sent_enhanced": 1, "timeouts_reply": 1}


@pytest.mark.parametrize("reply,name,terminate", [
    (mpa.reply("AC", 1, 129), "ird", "2/0/6"), (mpa.reply("", 1, 1), "rtr", "2/0/7"),
    (mpa.reply("AC", 1, 1, flags=mpa.FLAG_S | mpa.FLAG_M), "local", "2/0/5")])
def test_terminates_are_counted_and_traced(initiator, answer, counting, trace, reply, name,
                                           terminate):
    raw = connect(initiator, answer)
    the_request(raw)
    raw.send(reply)
    raw.rest()
    initiator.expect("CONNECT_ERROR")
    moved = counting.moved()
    assert moved[f"terminates_sent_{name}"] == 1
    assert moved["accepts_received_enhanced"] == 1
    assert any(f"terminate sent {terminate}" in line for line in trace())


def test_neg10_a_reject_is_traced_whole(initiator, answer, trace):
    """NEG-09, NEG-10, AMB-32, A-41: rdma_cm drops the depths of a reject, the trace has them."""
    data = bytes(n % 251 for n in range(508))
    raw = connect(initiator, answer)
    the_request(raw)
    raw.send(mpa.reply("ACD", 3, 64, data, mpa.FLAG_S | mpa.FLAG_R))
    raw.rest()
    initiator.expect("REJECTED")
    frames = [line for line in trace() if "frame_in" in line or " reply rev=2" in line]
    assert len(frames) == 1
    assert "r=1 s=1 a=1 rtr=write+read ird=3 ord=64" in frames[0]
    assert frames[0].replace(" ", "").endswith("pd=" + data.hex())


def test_a_handshake_is_traced_step_by_step(responder, dial, trace):
    port = listen(responder, "auto=accept")
    established(responder, dial(port))
    # The event reaches the application before the work item has traced it.
    wait_until(lambda: any("established status=0" in line for line in trace()), "the result")
    lines = trace()
    (RESULTS / "trace.txt").write_text("\n".join(lines) + "\n")
    wanted = [" request rev=2 m=0 c=0 r=0 s=1 a=1 rtr=send+write+read ird=1 ord=1",
              "wait-private-data -> ulp", "ulp -> bind",
              " reply rev=2 m=0 c=0 r=0 s=1 a=1 rtr=send+write+read ird=1 ord=1",
              "bind -> wait-first-fpdu", "rtr received write",
              "wait-first-fpdu -> established", "fence open after", "established status=0"]
    for text in wanted:
        found = [line for line in lines if text in line]
        assert found, (text, lines)
        assert "siw_b #" in found[0] and f"responder 10.77.0.2:{port}-10.77.0.1:" in found[0]
    positions = [next(n for n, line in enumerate(lines) if text in line) for text in wanted]
    assert positions == sorted(positions), lines


def test_resource_shows_each_stage(responder, initiator, dial, answer, hosta, hostb):
    """`rdma resource show cm_id -dd`: listener, pending, established, both roles."""
    port = listen(responder, "auto=accept ird=4 ord=4")
    assert details(hostb.device, port, "listening") == {"state": "listening", "requests": 0}
    raw = dial(port)
    raw.send(mpa.request("ACD", 4, 8))
    raw.receive(24)
    agreed = {"mpa_rev": 2, "enhanced": 1, "model": "peer-to-peer", "ird": 8, "ord": 4,
              "peer_ird": 4, "peer_ord": 8, "crc": 0, "fallback": 0}
    assert details(hostb.device, port, "wait-first-fpdu") == {
        "state": "wait-first-fpdu", "rtr": "none", **agreed}
    raw.send(mpa.RTR["C"])
    number = responder.expect("ESTABLISHED", status=0)["id"]
    assert details(hostb.device, port, "established") == {
        "state": "established", "rtr": "write", **agreed}
    raw.close()
    responder.expect("DISCONNECTED", id=number)
    # A connection that is over is not shown as one that is up.
    assert not [entry for entry in resources(hostb.device, port)
                if entry.get("drv_state") == "established"]
    raw = connect(initiator, answer, "ird=2 ord=2")
    the_request(raw)
    asked = {"mpa_rev": 2, "enhanced": 1, "model": "peer-to-peer", "ird": 2, "ord": 2,
             "crc": 0, "fallback": 0}
    assert details(hosta.device, answer.port, "wait-header") == {
        "state": "wait-header", "rtr": "none", **asked}
    raw.send(mpa.reply("AD", 2, 1))
    raw.receive(52)
    initiator.expect("ESTABLISHED", status=0)
    assert details(hosta.device, answer.port, "established") == {
        "state": "established", "rtr": "read", "peer_ird": 2, "peer_ord": 1, **asked}


def test_every_counter_is_documented(hostb):
    """Names are an interface: what is there is described, and the other way round."""
    text = (TOP / "Documentation/ABI/sysfs-class-infiniband-iw_mpa2").read_text()
    described = []
    for name in re.findall(r"^\t\t([a-z_0-9*]+)  +\S", text, re.M):
        described += [name.replace("*", role) for role in ROLES] if "*" in name else [name]
    there = Counters(hostb.device).read()
    assert sorted(described) == sorted(there)


def keys(line):
    """link DEVICE key value key value ...: the keys."""
    return line.split()[2::2]


@pytest.mark.slow
def test_documentation_shows_what_is_there(responder, dial):
    """What Documentation/visibility.rst shows of a live system has today's shape; the
    text to put there is written to the results.
    """
    port = listen(responder, "auto=accept ird=4 ord=4")
    established(responder, dial(port), "ABCD", "C")
    waiting = dial(port)
    waiting.send(mpa.request("ACD", 8, 2))
    waiting.receive(24)
    live = [line.rstrip() for line in
            run("rdma", "-dd", "resource", "show", "cm_id").stdout.splitlines()
            if line.startswith("link siw_b")]
    counters = [f"{name} {value}" for name, value in sorted(Counters("siw_b").read().items())]
    (RESULTS / "visibility.txt").write_text("\n".join(live + counters) + "\n")
    text = (TOP / "Documentation/visibility.rst").read_text()
    shown = [line.strip() for line in text.splitlines() if line.startswith("   link siw_b")]
    assert sorted(keys(line) for line in shown) == sorted(keys(line) for line in live)
    names = re.findall(r"^   ([a-z_0-9]+) \d+$", text, re.M)
    assert names == [line.split()[0] for line in counters]
