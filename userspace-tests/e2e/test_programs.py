# SPDX-License-Identifier: GPL-2.0
"""Unmodified applications, and our own that lets the passive side send first."""

import json
import os
import pathlib

import pytest

import mpa
import tcp_capture
from conftest import TOOLS, seconds, wait_until

RESULTS = pathlib.Path(os.environ.get("IW_RESULTS", "/tmp"))
COUNT = int(os.environ.get("IW_COUNT", "200"))


def pair(hosta, hostb, port, server, client, timeout=60):
    """A server on hostb and a client on hosta; both must end well."""
    serving = hostb.popen(*server)
    try:
        wait_until(lambda: hostb.listens(port), f"{server[0]} to listen", 30)
        result = hosta.run(*client, timeout=timeout, check=False)
        output, _ = serving.communicate(timeout=seconds(timeout))
    finally:
        serving.kill()
        serving.communicate()
    assert result.returncode == 0, result.stdout
    assert serving.returncode == 0, output
    return result.stdout


@pytest.mark.slow
@pytest.mark.parametrize("address", ["10.77.0.2", "fd77::2"], ids=["v4", "v6"])
def test_rping(hosta, hostb, address):
    output = pair(hosta, hostb, 7174, ("rping", "-s", "-a", address, "-C", "5"),
                  ("rping", "-c", "-a", address, "-C", "5", "-v"))
    assert output.count("ping data") == 5


@pytest.mark.slow
def test_ucmatose(hosta, hostb):
    pair(hosta, hostb, 7471, ("ucmatose", "-b", "10.77.0.2", "-c", "3"),
         ("ucmatose", "-s", "10.77.0.2", "-c", "3"))


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["rstream", "riostream"])
def test_rsockets(hosta, hostb, tool):
    """Small figures: both spin, which an emulated processor has little of."""
    options = ("-p", "7480", "-S", "1000", "-C", "5", "-I", "2")
    output = pair(hosta, hostb, 7480, (tool, "-b", hostb.address) + options,
                  (tool, "-s", hostb.address) + options)
    assert "custom" in output


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["ib_send_lat", "ib_write_bw", "ib_read_bw"])
def test_perftest_with_rdma_cm(hosta, hostb, tool):
    options = ("-R", "-n", "20", "-s", "1024", "-F")
    pair(hosta, hostb, 18515, (tool, "-d", hostb.device) + options,
         (tool, "-d", hosta.device) + options + ("10.77.0.2",))


def passive_first(hosta, hostb, count, server=(), client=(), address="10.77.0.2"):
    """The summaries of both ends."""
    tool = (str(TOOLS / "mpa2-cm"), "passive-first", "--count", str(count))
    serving = hostb.popen(*tool, "--listen", address, *server)
    try:
        wait_until(lambda: hostb.listens(7174), "the responder", 30)
        result = hosta.run(*tool, "--connect", address, *client, check=False,
                           timeout=30 + count)
        output, _ = serving.communicate(timeout=seconds(30))
    finally:
        serving.kill()
        serving.communicate()
    assert result.returncode == 0, result.stdout[-2000:]
    assert serving.returncode == 0, output[-2000:]
    summary = json.loads(result.stdout.splitlines()[-1])
    assert summary["up"] == count and summary["failed"] == 0
    return summary


@pytest.mark.parametrize("when", ["established", "accept"])
def test_fr01_passive_side_sends_first(hosta, hostb, when):
    """The RTR lets the responder speak; the fence holds what came too early."""
    passive_first(hosta, hostb, COUNT, ("--when", when))


def test_passive_first_v6(hosta, hostb):
    passive_first(hosta, hostb, min(COUNT, 20), address="fd77::2")


def test_private_data_of_every_length(hosta, hostb):
    count = 256 if COUNT >= 200 else 2 * COUNT
    passive_first(hosta, hostb, count, ("--private-sweep",), ("--private-sweep",))


@pytest.mark.parametrize("rtr", ["write", "read", "send"])
def test_passive_first_by_each_rtr(hosta, hostb, set_parameter, rtr):
    set_parameter(rtr=rtr)
    passive_first(hosta, hostb, min(COUNT, 20), ("--ird", "4", "--ord", "4"),
                  ("--ird", "4", "--ord", "0"))


def captured(path):
    """The one connection of a capture, once both FINs are in it."""
    connections = tcp_capture.read_connections(path)
    if connections and all(connections[0].has("FIN", way) for way in (0, 1)):
        return connections[0]
    return None


@pytest.mark.parametrize("rtr,kind", [("write", "C"), ("read", "D"), ("send", "B")])
def test_enh_rtr_capture_is_the_standards_octets(hosta, hostb, set_parameter, rtr, kind):
    """ENH-04, RTR-13, RTR-23: 1.1 and 1.5 of the requirements, on the wire.

    MPA-27, MPA-41, MPA-42: nothing before the startup frames, the RTR right behind.
    """
    set_parameter(rtr=rtr)
    path = RESULTS / f"rtr-{rtr}.pcap"
    path.unlink(missing_ok=True)
    dump = hostb.popen("tcpdump", "-Z", "root", "-i", "veth_b", "--immediate-mode", "-U",
                       "-w", str(path), "tcp port 7174")
    try:
        # The header of the file is written when the capture has begun.
        wait_until(lambda: path.exists() and path.stat().st_size >= 24, "tcpdump", 20)
        passive_first(hosta, hostb, 1)
        wait_until(lambda: captured(path), "the end in the capture")
    finally:
        dump.terminate()
        dump.communicate()
    connection = captured(path)
    initiator, responder = connection.stream(mpa.INITIATOR), connection.stream(mpa.RESPONDER)
    assert initiator[:24] == mpa.request("A" + kind, 1, 1)
    assert initiator[24:24 + len(mpa.RTR[kind])] == mpa.RTR[kind]
    assert responder[:24] == mpa.reply("A" + kind, 1, 1)
    if kind == "D":
        assert responder[24:44] == mpa.READ_RESPONSE


def test_passive_first_with_crc(hosta, hostb, set_parameter):
    set_parameter(crc="Y")
    passive_first(hosta, hostb, min(COUNT, 20))


def test_passive_first_from_many_processes(hosta, hostb):
    passive_first(hosta, hostb, min(COUNT, 32), (), ("--processes", str(min(COUNT, 8))))


def test_rejects_with_private_data(hosta, hostb):
    options = ("--reject", "--private-len", "255")
    passive_first(hosta, hostb, min(COUNT, 20), options, options)


@pytest.fixture(name="bad_link")
def fixture_bad_link(hosta, hostb):
    """Both directions lose, reorder and cut up what passes."""
    ends = ((hosta, "veth_a"), (hostb, "veth_b"))
    for host, link in ends:
        host.run("tc", "qdisc", "add", "dev", link, "root", "netem", "delay", "3ms", "1ms",
                 "loss", "5%", "reorder", "25%", "50%")
        host.run("ip", "link", "set", link, "mtu", "1280")
    yield
    for host, link in ends:
        host.run("tc", "qdisc", "del", "dev", link, "root")
        host.run("ip", "link", "set", link, "mtu", "1500")


@pytest.mark.slow
@pytest.mark.parametrize("rtr", ["write", "read", "send"])
def test_mpa36_loss_and_reordering_are_tcps_own_affair(hosta, hostb, set_parameter, bad_link,
                                                       rtr):
    """MPA-36: Request, Reply and RTR arrive whole, or late, but never wrong."""
    assert bad_link is None
    set_parameter(rtr=rtr)
    passive_first(hosta, hostb, min(COUNT, 25), ("--ird", "4", "--ord", "4"),
                  ("--ird", "4", "--ord", "4"))


@pytest.mark.slow
def test_amb20_rejects_arrive_whole_over_a_bad_link(hosta, hostb, bad_link):
    """MPA-12, AMB-20: closed by FIN, so that what was lost is sent again."""
    assert bad_link is None
    options = ("--reject", "--private-len", "255")
    passive_first(hosta, hostb, min(COUNT, 20), options, options)
