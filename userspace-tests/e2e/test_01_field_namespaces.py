# SPDX-License-Identifier: GPL-2.0
"""Cases from the field that need a machine without the two hosts of the other tests: the RDMA
core changes its mode only while there is no network namespace, and rdma_cm takes a loopback
address as any device's. Behind the tests that need a machine without anything.
"""

import contextlib

import pytest

from conftest import TOP, Host, run, seconds, wait_until
from test_field_storage import ADDRESS, Target, device, disk_and_modules, loopback, nvme
from test_visibility import Counters

pytestmark = pytest.mark.slow

SETUP = str(TOP / "scripts/vm-setup-hosts")


def mode(name):
    """Whether the RDMA core could be put into it."""
    return run("rdma", "system", "set", "netns", name, check=False).returncode == 0


@contextlib.contextmanager
def two_hosts(shared):
    """As everywhere, with the RDMA core in one of its modes."""
    run("modprobe", "ib_core")
    assert mode("shared" if shared else "exclusive")
    try:
        run(SETUP, "--module", timeout=120)
        yield (Host("hosta", "siw_a", "10.77.0.1", "fd77::1"),
               Host("hostb", "siw_b", "10.77.0.2", "fd77::2"))
    finally:
        run(SETUP, "--down", timeout=60)
        # Namespaces go in their own time.
        wait_until(lambda: mode("shared"), "the shared mode", 30)
        run("rmmod", "iw_mpa2", timeout=30)


class Here(Host):
    """The first namespace, with siw on its loopback interface."""

    def __init__(self):
        super().__init__("first", "siw_store", ADDRESS, "::1")

    def words(self, *words):
        return words


def rping(server, client):
    """Three rounds from one to the other, and both ends are ours."""
    counters = {host.device: Counters(host.device) for host in (server, client)}
    words = ("rping", "-a", server.address, "-C", "3")
    serving = server.popen(*words, "-s")
    try:
        wait_until(lambda: server.listens(7174), "rping", 30)
        client.run(*words, "-c")
        assert serving.wait(timeout=seconds(20)) == 0
    finally:
        serving.kill()
        serving.communicate()
    for host, role in ((server, "responder"), (client, "initiator")):
        now = counters[host.device].read()[f"established_{role}"]
        assert now == counters[host.device].before[f"established_{role}"] + 1


def sees(host, name):
    """Whether a device is there."""
    return name in host.run("rdma", "link").stdout


def test_fr79_shared_devices_are_seen_everywhere():
    """And each works in the namespace of its link."""
    with two_hosts(shared=True) as hosts:
        for host in hosts:
            assert sees(host, "siw_a") and sees(host, "siw_b")
        rping(hosts[1], hosts[0])


def test_fr79_exclusive_devices_are_seen_in_one_namespace():
    """The case moves a device into the container. The RDMA core of 6.1 does not let siw be
    moved, which cannot take a device from those who have it open: it says so, in the
    container there is no device, and where the devices are they work.
    """
    with two_hosts(shared=False) as (hosta, hostb):
        moved = run("rdma", "dev", "set", "siw_a", "netns", "hosta", check=False)
        assert moved.returncode and "not supported" in moved.stdout
        assert not sees(hosta, "siw_a") and sees(Here(), "siw_a")
        alone = hosta.run("rping", "-c", "-a", hostb.address, "-C", "3", check=False)
        assert alone.returncode and alone.stdout.strip()
        with loopback(), device():
            rping(Here(), Here())


@pytest.mark.distro
def test_fr44_discovery_on_loopback():
    """Without a siw device it says so, at once. With one it works from an address of that
    device; without such an address rdma_cm picks a device for 127.0.0.1 by a partition key,
    which no iWARP device has, and it says so, too.
    """
    for module in ("crc32c_generic", "iw_mpa2", "rdma_cm"):
        run("modprobe", module, check=False)
    try:
        with loopback(), disk_and_modules():
            without = nvme("discover", address="127.0.0.1", check=False, timeout=10)
            assert without.returncode and without.stdout.strip()
            with device(), Target("127.0.0.1"):
                without = nvme("discover", address="127.0.0.1", check=False, timeout=10)
                assert without.returncode and "Invalid argument" in without.stdout
                found = nvme("discover", "-w", ADDRESS, address="127.0.0.1").stdout
                assert "trtype:  rdma" in found and "traddr:  127.0.0.1" in found
    finally:
        run("rmmod", "iw_mpa2")
