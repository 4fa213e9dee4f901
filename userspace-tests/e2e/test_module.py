# SPDX-License-Identifier: GPL-2.0
"""Loading, unloading, and the races of standing in siw's path."""

import os
import subprocess

import pytest

import mpa
from conftest import Agent, device_is_listed, run, seconds, wait_until

ROUNDS = int(os.environ.get("IW_ROUNDS", "20"))


def unload(check=True):
    return run("rmmod", "iw_mpa2", check=check, timeout=30)


def load(*parameters, check=True):
    return run("modprobe", "iw_mpa2", *parameters, check=check, timeout=30)


def loaded():
    return os.path.exists("/sys/module/iw_mpa2")


def kernel_log():
    return run("dmesg").stdout


def test_fr85_unload_is_refused_while_used(agents, responder, dial):
    assert agents
    responder.do("listen 10.77.0.2 0 auto=accept")
    port = responder.expect("LISTENING")["port"]
    assert unload(check=False).returncode != 0 and loaded()
    raw = dial(port)
    raw.send(mpa.request("ACD", 1, 1))
    raw.receive(24)
    raw.send(mpa.RTR["C"])
    number = responder.expect("ESTABLISHED", status=0)["id"]
    responder.do("destroy 0")
    # An established connection holds nothing: it lives on without us.
    wait_until(lambda: unload(check=False).returncode == 0, "the module to be free")
    raw.send(mpa.fpdu(mpa.send(1, b"on")))
    assert responder.expect("WC", opcode="RECV")["data"] == b"on".hex()
    load()
    raw.close()
    responder.expect("DISCONNECTED", id=number)


@pytest.mark.stock
def test_listeners_from_before_loading_stay_and_are_named(agents, initiator, responder):
    assert agents
    unload()
    responder.do("listen 10.77.0.2 0 auto=accept")
    port = responder.expect("LISTENING")["port"]
    load()
    assert f"10.77.0.2:{port} is stock siw's" in kernel_log()
    initiator.do(f"connect 10.77.0.2 {port}")
    # Stock siw's listener takes a Write RTR; both ends come up.
    initiator.expect("ESTABLISHED", status=0)
    responder.expect("ESTABLISHED", status=0)


@pytest.mark.slow
def test_wrong_parameters_are_refused_at_load(hosts):
    assert hosts
    unload()
    for wrong in ("rev=3", "rtr=write,write", "rtr=", "fence=never", "crc=maybe",
                  "connect_timeout_ms=0", "reply_timeout_ms=999999999"):
        assert load(wrong, check=False).returncode != 0, wrong
        assert not loaded()
        name = wrong.split("=", maxsplit=1)[0]
        assert f"iw_mpa2: {name}=" in kernel_log()
    load("rev=2", "rtr=read, write", "fence=p2p", "crc=Y", "connect_timeout_ms=500")
    unload()
    load()


# Our initiator meets listeners of stock siw here, whose wait for an RTR takes the
# callback lock in a way that lockdep rightly reports.
@pytest.mark.parametrize("peer_to_peer", [
    "N", pytest.param("Y", marks=pytest.mark.stock)])
def test_load_and_unload_under_connects(hosta, hostb, tmp_path, peer_to_peer):
    """Also modify_qp, destroy_qp and resource dumps, all the time.  A listener
    holds the module, so after some tries in vain no new one is let in until the
    module is gone.
    """
    unload()
    gate = tmp_path / "gate"
    serve = f"while :; do [ -e {gate} ] || rping -s -a 10.77.0.2 -C 1; sleep 0.1; done"
    ask = f"while :; do timeout {seconds(5)} rping -c -a 10.77.0.2 -C 1; sleep 0.1; done"
    dump = "while :; do rdma resource show qp; rdma resource show cm_id; sleep 0.1; done"
    loops = [subprocess.Popen(host.words("bash", "-c", script), stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, start_new_session=True)
             for host, script in ((hostb, serve), (hosta, ask), (hosta, dump))]
    try:
        for _ in range(ROUNDS):
            load(f"peer_to_peer={peer_to_peer}")
            if not any(unload(check=False).returncode == 0 for _ in range(5)):
                gate.touch()
                wait_until(lambda: unload(check=False).returncode == 0,
                           "the module to be free", 30)
                gate.unlink()
    finally:
        for loop in loops:
            os.killpg(loop.pid, 9)
            loop.wait()
    load()


def test_device_comes_after_a_wildcard_listener(hosta, hostb):
    """rping -s on the wildcard, then rdma link add: the new device is served."""
    server = hostb.popen("rping", "-s", "-C", "2", "-p", "7200")
    try:
        wait_until(lambda: hostb.listens(7200), "rping")
        hostb.run("ip", "link", "add", "dummy0", "type", "dummy")
        hostb.run("ip", "link", "set", "dummy0", "up")
        hostb.run("rdma", "link", "add", "siw_late", "type", "siw", "netdev", "dummy0")
        hosta.run("rping", "-c", "-a", "10.77.0.2", "-C", "2", "-p", "7200")
        assert server.wait(timeout=seconds(20)) == 0
    finally:
        server.kill()
        server.communicate()
        run("rdma", "link", "del", "siw_late", check=False)
        hostb.run("ip", "link", "del", "dummy0", check=False)


def test_device_is_deleted_under_its_users(hosta, hostb):
    """The removal waits until applications have closed the device (siw cannot
    take it from them), with or without us; then all of it is gone.
    """
    hostb.run("ip", "link", "add", "dummy1", "type", "dummy")
    hostb.run("ip", "link", "set", "dummy1", "up")
    hostb.run("ip", "address", "add", "10.78.0.1/24", "dev", "dummy1")
    hostb.run("rdma", "link", "add", "siw_gone", "type", "siw", "netdev", "dummy1")
    agent = Agent(hostb)
    try:
        agent.do("listen 10.78.0.1 7300 auto=accept")
        wait_until(lambda: hostb.listens(7300), "the listener")
        removal = hostb.popen("rdma", "link", "del", "siw_gone")
        wait_until(lambda: not device_is_listed("siw_gone"), "the removal")
        assert removal.poll() is None
    finally:
        agent.close()
    removal.communicate(timeout=seconds(20))
    assert removal.returncode == 0
    hostb.run("ip", "link", "del", "dummy1")
    wait_until(lambda: not hostb.listens(7300), "the listener to go")
    assert hosta
