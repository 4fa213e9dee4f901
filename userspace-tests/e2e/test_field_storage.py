# SPDX-License-Identifier: GPL-2.0
"""Cases from the field: storage by kernel users of rdma_cm, NVMe over Fabrics and NFS.

nvmet and nvme live in the first network namespace, so target and host are one machine here:

    10.79.0.1  127.0.0.1  siw_store on lo

NFS goes between the two hosts.
"""

import contextlib
import pathlib
import subprocess
import uuid

import pytest

from conftest import run, seconds, wait_until
from field import often
from test_visibility import Counters

pytestmark = pytest.mark.distro

NVMET = pathlib.Path("/sys/kernel/config/nvmet")
NVME = pathlib.Path("/sys/class/nvme")
ADDRESS, PORT = "10.79.0.1", "4420"
MIB = often(8, 1024)


def write(path, value):
    path.write_text(f"{value}\n")


class Target:
    """One subsystem on a disk in memory, and ports that offer it."""

    def __init__(self, address):
        self.subsystem = NVMET / "subsystems/field"
        self.subsystem.mkdir()
        write(self.subsystem / "attr_allow_any_host", 1)
        self.space = self.subsystem / "namespaces/1"
        self.space.mkdir()
        write(self.space / "device_path", "/dev/ram0")
        write(self.space / "enable", 1)
        self.ports = {}
        self.offer(address)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.remove()

    def offer(self, address):
        """A port on an address, listening from now on."""
        port = NVMET / f"ports/{len(self.ports) + 1}"
        port.mkdir()
        for name, value in (("addr_trtype", "rdma"), ("addr_adrfam", "ipv4"),
                            ("addr_traddr", address), ("addr_trsvcid", PORT)):
            write(port / name, value)
        self.ports[address] = port
        self.start(address)

    def link(self, address):
        return self.ports[address] / "subsystems/field"

    def start(self, address):
        """Listen."""
        self.link(address).symlink_to(self.subsystem)

    def stop(self, address):
        """Neither listen nor serve."""
        self.link(address).unlink()

    def remove(self):
        """All of it."""
        for address, port in self.ports.items():
            if self.link(address).is_symlink():
                self.stop(address)
            port.rmdir()
        write(self.space / "enable", 0)
        self.space.rmdir()
        self.subsystem.rmdir()


@contextlib.contextmanager
def loopback():
    """ADDRESS on lo. That gets a hardware address: rdma_cm finds a siw device by it, and all
    zeros are none.
    """
    run("ip", "link", "set", "lo", "up", "address", "02:00:00:00:79:01")
    run("ip", "address", "add", f"{ADDRESS}/32", "dev", "lo")
    try:
        yield
    finally:
        run("ip", "address", "del", f"{ADDRESS}/32", "dev", "lo")


@contextlib.contextmanager
def disk_and_modules():
    """A disk of 16 MiB in memory, target and host."""
    run("modprobe", "brd", "rd_nr=1", "rd_size=16384")
    run("modprobe", "-a", "nvmet-rdma", "nvme-rdma")
    try:
        yield
    finally:
        run("modprobe", "-r", "nvmet-rdma", "nvme-rdma", "brd")


@contextlib.contextmanager
def device():
    """siw on lo."""
    run("rdma", "link", "add", "siw_store", "type", "siw", "netdev", "lo")
    try:
        yield
    finally:
        run("rdma", "link", "del", "siw_store")


@pytest.fixture(scope="module", name="store")
def fixture_store(nfs_server):
    """All that a target needs."""
    assert nfs_server is None  # begun by now, so that its first 10 s pass meanwhile
    with loopback(), disk_and_modules(), device():
        yield


@pytest.fixture(name="target")
def fixture_target(store):
    """A target on ADDRESS; whatever is connected to it afterwards is not any more."""
    assert store is None
    with Target(ADDRESS) as target:
        yield target
        run("nvme", "disconnect-all")


def nvme(verb, *words, address=ADDRESS, **kwargs):
    """nvme-cli, to a target."""
    return run("nvme", verb, "-t", "rdma", "-a", address, "-s", PORT, *words, **kwargs)


def controllers():
    """The connected ones, in the order of their names."""
    return sorted(NVME.iterdir()) if NVME.exists() else []


def nvme_connect(*options):
    """One more controller, of a host of its own. By the file that nvme-cli would write to: that
    takes the second controller of a subsystem for the first one.
    """
    host = uuid.uuid4()
    words = ("transport=rdma", f"traddr={ADDRESS}", f"trsvcid={PORT}", "nqn=field",
             f"hostnqn=nqn.2014-08.org.nvmexpress:uuid:{host}", f"hostid={host}", *options)
    with open("/dev/nvme-fabrics", "r+b", buffering=0) as fabrics:
        fabrics.write(",".join(words).encode())
        instance = fabrics.read(64).decode().split(",")[0].removeprefix("instance=")
    return NVME / f"nvme{instance}"


def state(controller):
    return (controller / "state").read_text().strip()


def disk():
    """The block device of a controller, by the name that multipath gives it."""
    found = []

    def there():
        found[:] = sorted(pathlib.Path("/dev").glob("nvme*n1"))
        return found

    wait_until(there, "the disk")
    return str(found[0])


def copy(source, target, mib):
    run("dd", f"if={source}", f"of={target}", "bs=1M", f"count={mib}", "conv=notrunc",
        *(("oflag=direct",) if target.startswith("/dev/nvme") else ()),
        *(("iflag=direct",) if source.startswith("/dev/nvme") else ()), timeout=600)


def test_fr32_nvme_over_siw(target, tmp_path):
    """nvmet-rdma reads its 32 octets of private data and refuses others; what was written is
    read again. 1 GiB and a hundred rounds in the long run.
    """
    assert target
    data, back = tmp_path / "data", tmp_path / "back"
    copy("/dev/urandom", str(data), 8)
    for round_ in range(often(2, 100)):
        nvme_connect()
        for _ in range(1 if round_ else MIB // 8):
            copy(str(data), disk(), 8)
        copy(disk(), str(back), 8)
        assert back.read_bytes() == data.read_bytes()
        assert "disconnected 1" in run("nvme", "disconnect", "-n", "field").stdout
        assert not controllers()


def test_fr42_target_away_and_back(target):
    """Each attempt is refused at once, none lasts; then the controller returns."""
    controller = nvme_connect("reconnect_delay=1", "ctrl_loss_tmo=600")
    counters = Counters("siw_store")
    established = counters.read()["established_initiator"]
    target.stop(ADDRESS)
    wait_until(lambda: state(controller) == "connecting", "the loss")
    before = counters.read()["connects_failed"]
    rounds = often(2, 10)
    wait_until(lambda: counters.read()["connects_failed"] >= before + rounds,
               f"{rounds} attempts", 5 + 2 * rounds)
    # The attempts are 1 s apart, and nothing of one is left when the next begins.
    wait_until(lambda: not counters.read()["handshakes_in_progress"], "no attempt to be left", 1)
    target.start(ADDRESS)
    wait_until(lambda: state(controller) == "live", "the return")
    assert counters.read()["established_initiator"] > established
    assert counters.read()["timeouts_connect"] == 0


def test_fr45_discover_connect_disconnect(target):
    """Again and again; each connection is a new one. 200 rounds in the long run."""
    assert target
    counters = Counters("siw_store")
    for _ in range(often(3, 200)):
        assert "subnqn:  field" in nvme("discover").stdout
        controller = nvme_connect()
        queues = int((controller / "queue_count").read_text())
        run("nvme", "disconnect", "-n", "field")
        # One for the discovery, and one for each queue.
        wait_until(lambda: not counters.read()["handshakes_in_progress"], "rest")
        moved = counters.moved()
        assert moved["established_initiator"] == moved["established_responder"] == 1 + queues
        assert "connects_failed" not in moved and "peer_reset" not in moved


def test_fr50_queues_connect_while_others_work(target, tmp_path):
    """As many queues as nvme allows on so many processors (the case has 64), while a first
    controller is written to; several such controllers in the long run.
    """
    assert target
    data = tmp_path / "data"
    copy("/dev/urandom", str(data), 8)
    nvme_connect()
    writing = subprocess.Popen(("sh", "-c", "while :; do dd if=$0 of=$1 bs=1M oflag=direct "
                                "conv=notrunc 2>/dev/null || exit 1; done", str(data), disk()))
    try:
        for _ in range(often(1, 10)):
            controller = nvme_connect("nr_io_queues=2", "nr_write_queues=2",
                                      "nr_poll_queues=2")
            assert state(controller) == "live"
            assert int((controller / "queue_count").read_text()) >= 7
        assert writing.poll() is None
    finally:
        writing.kill()
        writing.wait()


def test_fr56_reset_of_controllers(target):
    """As blktests' reconnect tests: every queue is torn down and made anew, 50 times in the
    long run.
    """
    assert target
    controller = nvme_connect()
    counters = Counters("siw_store")
    for _ in range(often(3, 50)):
        run("nvme", "reset", f"/dev/{controller.name}")
        wait_until(lambda: state(controller) == "live", "the controller")
    wait_until(lambda: not counters.read()["handshakes_in_progress"], "rest")
    moved = counters.moved()
    assert moved["established_initiator"] == moved["established_responder"]


# ---- NFS ----

SERVER = """set -e
mkdir -p /run/field_export
mount -t tmpfs tmpfs /run/field_export
mount -t nfsd nfsd /proc/fs/nfsd
# Version 4 alone: nobody has to be asked for ports.
rpc.nfsd -N 3 -L 10 -G 10 --rdma=20049 2
exportfs -o rw,fsid=0,no_root_squash,insecure "$1":/run/field_export
echo serving
exec rpc.mountd -F -N 3
"""
CLIENT = """set -e
mkdir -p /run/field_mount
mount -t nfs -o vers=4.2,rdma,port=20049 "$1":/ /run/field_mount
echo mounted
for n in $(seq "$2"); do
    dd if=/dev/urandom of=/run/$n bs=64k count=16 2>/dev/null
    dd if=/run/$n of=/run/field_mount/$n bs=64k conv=fsync 2>/dev/null
    cmp /run/$n /run/field_mount/$n
    rm /run/$n
    echo wrote $n
done
umount /run/field_mount
"""


@pytest.fixture(scope="module", name="nfs_server")
def fixture_nfs_server(hosts):
    """An export of hostb over RDMA. For its first 10 s it lets nobody open a file."""
    host = hosts[1]
    server = host.popen("bash", "-c", SERVER, "server", "10.77.0.0/24")
    try:
        line = server.stdout.readline()
        assert line == "serving\n", line + server.stdout.read()
        yield
    finally:
        run("nsenter", "-t", str(server.pid), "-n", "-m", "rpc.nfsd", "0", check=False)
        server.kill()
        server.communicate()


def test_fr69_nfs_over_rdma_survives_resets(hosta, hostb, nfs_server):
    """The TCP stream is reset under load, time and again: the mount recovers, all that was
    written is there.
    """
    assert nfs_server is None
    files, resets = often(8, 300), 0
    client = hosta.popen("bash", "-c", CLIENT, "client", hostb.address, str(files))
    try:
        said = [client.stdout.readline()]
        assert said == ["mounted\n"], said[0] + client.stdout.read()
        counters = Counters(hosta.device)
        for line in client.stdout:
            said.append(line)
            if line.startswith("wrote") and len(said) % 4 == 0:
                hosta.run("ss", "-K", "dst", hostb.address, "dport", "=", "20049")
                resets += 1
        assert client.wait(timeout=seconds(30)) == 0, said
    finally:
        client.kill()
        client.communicate()
    assert len(said) == files + 1, said
    assert counters.moved()["established_initiator"] >= resets > 0
    wait_until(lambda: not counters.read()["handshakes_in_progress"], "rest")
