# SPDX-License-Identifier: GPL-2.0
"""The fault matrix: every cell of cells.py, that is of Documentation/events.rst.

Connections in all states are there at once and meet one kind of fault; each of them is
a cell.  T12, FR-54, FR-57, FR-64, FR-67: death in every state of the connection manager
gives each side what the document says, in time, and leaves nothing behind.
"""

import os
import pathlib
import time
import traceback

import pytest

import mpa
from cells import ACCEPT_FAILS, AT_ONCE, LATE_S, LIVES, TIMER, cells
from conftest import SCALE, SHARE, TOP, device_is_listed, has_its_turn, run, seconds, wait_until
from harness import Batch, handshakes_in_progress

TIMER_MS = 200
# Where all states must be there before one fault meets them.
LONG_ENOUGH_MS = 4000 if SCALE == 1 else 20000 if SHARE == 1 else 12000
NEVER_MS = 600000
LATE_AT_ONCE, LATE_TIMER = (LATE_S[end][SCALE != 1] for end in ("at once", "timer"))
RESULTS = pathlib.Path(os.environ.get("IW_RESULTS", "/tmp"))

COMMANDS = {"disconnect": "disconnect", "destroy-qp": "destroy_qp", "qp-error": "error",
            "destroy-id": "destroy_id"}
REMOVALS = ("link-del", "link-del-us-first", "link-del-cm-first", "netdev-del")
ORDERS = {"link-del-us-first": ("rdma_cm", "rdma_ucm", "ib_uverbs", "iw_mpa2"),
          "link-del-cm-first": ("ib_uverbs", "iw_mpa2", "rdma_cm", "rdma_ucm"),
          "": ("iw_mpa2", "rdma_cm", "rdma_ucm", "ib_uverbs")}


def unit_of(cell):
    """Which cells meet their fault together."""
    if cell.fault in ("link-down", "carrier-lost"):
        down = (cell.role == "initiator") == (cell.fault == "link-down")
        return "link-down of " + ("hosta" if down else "hostb")
    if cell.fault == "netns-del":
        return "netns-del of " + ("hosta" if cell.role == "initiator" else "hostb")
    return cell.fault


# A share leaves out the dearest units, of which another has nearly the same; a small one
# some more.
NOT_IN_A_SHARE = {"link-del-us-first", "link-del-cm-first", "netns-del of hostb",
                  "link-down of hostb"}
if SHARE > 8:
    NOT_IN_A_SHARE |= {"netdev-del", "listener-closed", "rst", "qp-error"}
ALL_CELLS = list(cells())
CELLS = [cell for cell in ALL_CELLS if SHARE == 1 or
         has_its_turn(cell.name) and unit_of(cell) not in NOT_IN_A_SHARE]
UNITS = list(dict.fromkeys(unit_of(cell) for cell in CELLS))


# ---- the faults ----

def meet_alone(batch, conn):
    """A fault of one connection."""
    fault = conn.cell.fault
    if conn.cell.passed:
        conn.step()
    conn.faulted = time.monotonic()
    if fault in COMMANDS:
        errno = conn.app.call(f"{COMMANDS[fault]} {conn.id}")
        # siw has no way from INIT to SQD, and says so once the handshake is over.
        assert not errno or fault == "disconnect", f"{fault}: errno {errno}"
    elif fault == "rst" and conn.wire:
        batch.wires.drop(conn.wire, reset=True)
    elif fault == "fin":
        if not conn.wire.end:
            conn.wire.raw.sock.shutdown(1)
        else:
            batch.wires.drop(conn.wire)
    elif fault == "terminate" and conn.wire.end != "RST":
        conn.send(mpa.TERMINATE_LOCAL)


def kill_apps(batch):
    for app in batch.apps.values():
        app.kill()


def close_listeners(batch):
    for number in batch.listeners.values():
        batch.apps["responder"].do(f"destroy {number}")


def link_down(batch):
    host, netdev = (batch.hosta, "veth_a") if batch.unit.endswith("a") else \
        (batch.hostb, "veth_b")
    host.run("ip", "link", "set", netdev, "down")


def rmmod(batch):
    """FR-85: refused while it is used."""
    assert batch
    assert run("rmmod", "iw_mpa2", check=False).returncode


def remove_devices(batch):
    """It waits for applications that have the device open, as with siw alone."""
    if batch.unit == "netdev-del":
        batch.removals = [batch.hosta.popen("ip", "link", "del", "veth_a")]
    else:
        batch.removals = [host.popen("rdma", "link", "del", host.device)
                          for host in (batch.hosta, batch.hostb)]


def delete_netns(batch):
    """The name first, which changes nothing, then its last user."""
    host, role = (batch.hosta, "initiator") if batch.unit.endswith("a") else \
        (batch.hostb, "responder")
    run("ip", "netns", "del", host.name)
    for conn in batch.conns:
        if conn.cell.state == "EST":
            conn.alive()
    now = time.monotonic()
    for conn in batch.conns:
        conn.faulted = now
    batch.apps[role].kill()


AT_ALL = {"kill": kill_apps, "listener-closed": close_listeners, "link-down": link_down,
          "rmmod": rmmod, "netdev-del": remove_devices, "netns-del": delete_netns,
          **dict.fromkeys(REMOVALS, remove_devices)}


def meet(batch):
    """The fault of a batch."""
    at_all = AT_ALL.get(batch.unit.partition(" ")[0])
    now = time.monotonic()
    for conn in batch.conns:
        conn.faulted = now
        if at_all or batch.unit == "silence":
            continue
        try:
            meet_alone(batch, conn)
        except (Exception, pytest.fail.Exception) as error:  # pylint: disable=broad-except
            conn.wrong = f"{type(error).__name__}: {error}"
    if at_all:
        at_all(batch)


# ---- what has to come of it ----

def as_seen(conn):
    """The outcome so far that is among the right ones, or None."""
    app, peer = conn.app_view(), conn.wire_view()
    for outcome in conn.cell.outcomes:
        if app == outcome.app and (peer == outcome.peer or conn.unseen or not conn.wire or
                                   conn.wire.end == "ours"):
            return outcome
    return None


def destroyed_after(conn):
    """Seconds that rdma_destroy_id() took, None while it does not return."""
    for event in conn.app.seen:
        if event["event"] == "ID_DESTROYED" and event["id"] == conn.id:
            assert event["errno"] == 0
            return event["ms"] / 1000
    return None


def pending(batch, role, used):
    return sum(bool(is_pending(conn, used)) for conn in batch.conns if conn.cell.role == role)


def all_is_said(batch):
    """And done, where nobody says it: in silence, and over a link that is down."""
    if batch.unit == "silence" or batch.unit.startswith("link-down"):
        for role, host in (("initiator", batch.hosta), ("responder", batch.hostb)):
            if handshakes_in_progress(host.device) != pending(batch, role, False):
                return False
    for conn in batch.conns:
        if not as_seen(conn) and not conn.wrong:
            return False
        if conn.cell.fault == "destroy-id" and destroyed_after(conn) is None:
            return False
    return True


def check_time(conn, outcome, timer_ms):
    at = conn.last_at()
    if conn.cell.fault == "destroy-id" and outcome.end == AT_ONCE:
        assert destroyed_after(conn) <= LATE_AT_ONCE
    if at is None:
        return
    if outcome.end == TIMER:
        # The RTR's begins with the accept, the others with the connection.
        assert at - conn.begun <= timer_ms / 1000 + LATE_TIMER, \
            f"after {at - conn.begun:.3f} s, the timer has {timer_ms} ms"
        if conn.cell.fault == "silence":
            assert at - conn.begun >= timer_ms / 1000
    else:
        assert at - conn.faulted <= LATE_AT_ONCE, f"after {at - conn.faulted:.3f} s"


def check(conn, timer_ms):
    """Assert all of a cell."""
    assert not conn.wrong, conn.wrong
    outcome = as_seen(conn)
    assert outcome, (f"application {conn.app_view()}, peer {conn.wire_view()}; right: "
                     f"{[(o.app, o.peer) for o in conn.cell.outcomes]}")
    check_time(conn, outcome, timer_ms)
    if outcome.end == ACCEPT_FAILS:
        assert conn.app.call(f"accept {conn.id}") == 104
    elif outcome.end == LIVES:
        conn.alive()


def is_pending(conn, used):
    """Whether its handshake, or its lingering, goes on after the fault; used: those that
    live on have been used, and those whose accept fails have failed.
    """
    cell = conn.cell
    if cell.state in ("TERM", "REJ"):
        return cell.fault not in ("fin", "rst", "silence")
    if "reject" in cell.outcomes[0].peer:
        return True  # what was rejected lingers for the peer's FIN
    if not used and cell.state != "EST":
        return {LIVES, ACCEPT_FAILS} & {outcome.end for outcome in cell.outcomes}
    return cell.state == "TCP" and LIVES in [o.end for o in cell.outcomes]


def link_up(batch):
    """Again, and what has lived through it works."""
    host, netdev = (batch.hosta, "veth_a") if batch.unit.endswith("a") else \
        (batch.hostb, "veth_b")
    host.run("ip", "link", "set", netdev, "up")
    # A link that goes takes its global IPv6 addresses along.
    number = 1 if netdev == "veth_a" else 2
    host.run("ip", "-6", "address", "replace", f"fd77::{number}/64", "dev", netdev, "nodad")
    batch.hosta.run("ping", "-c", "2", "-i", "0.2", ADDRESS_B, timeout=30)
    wait_until(lambda: all("ACTIVE" in pathlib.Path(
        f"/sys/class/infiniband/{device}/ports/1/state").read_text()
        for device in ("siw_a", "siw_b")), "the devices to be active")


ADDRESS_B = "10.77.0.2"


@pytest.fixture(autouse=True)
def fixture_counters_add_up():
    """Of a batch, not of each cell; see Batch.end()."""


# ---- hosts ----

class Hosts:
    """The two hosts, made again after what has destroyed them."""

    def __init__(self, hosts):
        self.hosts = hosts
        self.order = None  # other tests have loaded modules again

    def make(self, order):
        """From nothing, with the modules loaded in some order."""
        run(str(TOP / "scripts/vm-setup-hosts"), "--down", timeout=120)
        if order != self.order:
            for module in ("rdma_ucm", "rdma_cm", "ib_uverbs", "iw_mpa2"):
                run("rmmod", module, timeout=60)
            for module in ORDERS[order]:
                run("modprobe", module, timeout=60)
            self.order = order
        run(str(TOP / "scripts/vm-setup-hosts"), timeout=120)
        self.hosts[0].run("ping", "-c", "3", "-i", "0.2", ADDRESS_B, timeout=30)

    def gone(self, batch):
        """Devices that are being removed go with the applications."""
        for app in batch.apps.values():
            if app.process.poll() is None:
                app.kill()
        for removal in getattr(batch, "removals", []):
            assert removal.wait(timeout=seconds(20)) == 0, removal.communicate()
        for conn in batch.conns:
            if conn.wire:
                batch.wires.drop(conn.wire)
        for sock in batch.listening:
            sock.close()
        names = [host.device for host in self.hosts
                 if batch.unit != "netns-del of hosta" or host.name == "hosta"]
        wait_until(lambda: not any(device_is_listed(name) for name in names),
                   "the devices to go", 20)


@pytest.fixture(scope="module", name="remade")
def fixture_remade(hosts):
    """What can make the hosts again."""
    return Hosts(hosts)


class Result:
    """What a batch was worth."""

    def __init__(self):
        self.cells = {}
        self.wrong = []


def judge(batch, timer_ms, remade):
    """Meet the fault and look at every cell."""
    result = Result()
    batch.set_up()
    meet(batch)
    batch.settle(lambda: all_is_said(batch), timer_ms % NEVER_MS / 1000 + 2 * LATE_TIMER)
    if batch.unit.startswith("link-down"):
        link_up(batch)
    for conn in batch.conns:
        try:
            check(conn, timer_ms)
            result.cells[conn.cell] = None
        except (Exception, pytest.fail.Exception) as error:  # pylint: disable=broad-except
            result.cells[conn.cell] = f"{type(error).__name__}: {error}"
    # Nothing more was said meanwhile.
    for conn in batch.conns:
        ends = [outcome.end for outcome in conn.cell.outcomes]
        if not result.cells[conn.cell] and ACCEPT_FAILS not in ends and not as_seen(conn):
            result.cells[conn.cell] = f"later: {conn.app_view()}, {conn.wire_view()}"
    if batch.unit in REMOVALS or batch.unit.startswith("netns-del"):
        remade.gone(batch)
    else:
        for role, host in (("initiator", batch.hosta), ("responder", batch.hostb)):
            number = pending(batch, role, True)
            try:
                wait_until(lambda: handshakes_in_progress(host.device) == number,
                           f"{number} handshakes in progress", 2)
            except AssertionError:
                result.wrong.append(f"{handshakes_in_progress(host.device)} handshakes in "
                                    f"progress on {host.device} instead of {number}")
    return result


TIMER_OF = {"silence": TIMER_MS, "destroy-id": LONG_ENOUGH_MS, "link-down": LONG_ENOUGH_MS,
            "link-del-cm-first": LONG_ENOUGH_MS}
TOTAL = {"cells": 0, "failed": 0}
DONE = {}


@pytest.fixture(name="result")
def fixture_result(request, hosts, remade):
    """A batch, run once for all of its cells that are wanted."""
    unit = request.param
    if unit not in DONE:
        chosen = [item.callspec.params["cell"] for item in request.session.items
                  if hasattr(item, "callspec") and item.callspec.params.get("result") == unit and
                  "cell" in item.callspec.params]
        try:
            DONE[unit] = run_batch(unit, chosen, hosts, remade)
        except Exception as error:  # pylint: disable=broad-except
            DONE[unit] = Result()
            DONE[unit].cells = dict.fromkeys(chosen, f"no batch: {error!r}")
            DONE[unit].wrong = traceback.format_exception(error)
    return DONE[unit]


def run_batch(unit, chosen, hosts, remade):
    """All of one unit."""
    order = unit if unit in ORDERS else ""
    if unit in REMOVALS and remade.order != order:
        remade.make(order)
    timer_ms = TIMER_OF.get(unit.partition(" ")[0], NEVER_MS)
    begun = time.monotonic()
    batch = Batch(hosts, chosen, timer_ms, unit)
    destructive = unit in REMOVALS or unit.startswith("netns-del")
    try:
        result = judge(batch, timer_ms, remade)
    finally:
        wrong = batch.end(not destructive or unit.startswith("link-del"))
        if destructive:
            remade.make(remade.order)
    result.wrong += wrong
    print(f"\n{unit}: {len(chosen)} cells in {time.monotonic() - begun:.1f} s")
    return result


@pytest.mark.parametrize("result,cell", [
    pytest.param(unit_of(cell), cell, id=cell.name)
    for cell in sorted(CELLS, key=lambda cell: UNITS.index(unit_of(cell)))],
    indirect=["result"])
def test_cell(result, cell):
    TOTAL["cells"] += 1
    said = result.cells[cell]
    TOTAL["failed"] += bool(said)
    print(f"{'FAILED ' if said else ''}{cell.name} {said or ''}")
    assert not said, said


@pytest.mark.parametrize("result", UNITS, indirect=True)
def test_nothing_is_left(result):
    """Of a whole batch: handshakes, TCP connections, complaints of the kernel."""
    assert not result.wrong


def test_size_of_the_matrix():
    """The last one: what scripts/test-faults prints at its end."""
    assert TOTAL["cells"]
    (RESULTS / "matrix.txt").write_text(
        f"fault matrix: {TOTAL['cells']} cells of {len(ALL_CELLS)}, {TOTAL['failed']} failures\n",
        encoding="utf-8")
