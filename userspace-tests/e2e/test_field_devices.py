# SPDX-License-Identifier: GPL-2.0
"""Cases from the field: devices, addresses, IPv6, containers."""

import contextlib
import re
import socket

import pytest

import mpa
from conftest import TOP, run, seconds, wait_until
from field import both_up, exchange, often, take
from test_initiator import REFUSED, connect, the_request
from test_programs import pair
from test_responder import SETS, listen
from test_visibility import counters_at_rest

pytestmark = pytest.mark.slow

EINVAL, EADDRNOTAVAIL = 22, 99


# ---- listening on every kind of address ----

@pytest.fixture(name="many_addresses")
def fixture_many_addresses(hostb):
    """Eight more addresses on the link."""
    addresses = [f"fd77::1:{number}" for number in range(8)]

    def change(how, flags):
        hostb.run("ip", "-6", "-batch", "-", input="".join(
            f"address {how} {address}/64 dev veth_b {flags}\n" for address in addresses))

    change("add", "nodad")
    yield addresses
    change("del", "")


def link_local(host, link):
    """The link-local address of an interface."""
    shown = host.run("ip", "-6", "-br", "address", "show", "dev", link, "scope", "link").stdout
    return shown.split()[2].split("/")[0]


def reachable(initiator, responder, address, port):
    """One connection to it, used."""
    initiator.do(f"connect {address} {port} recvs=2 size=8")
    ours, theirs = both_up(initiator, responder)
    exchange(initiator, ours, responder, theirs)
    initiator.do(f"disconnect {ours}")
    responder.expect("DISCONNECTED", id=theirs)


def test_fr73_wildcard_is_reached_by_every_address(initiator, responder, many_addresses, hostb):
    responder.do("listen :: 7651 auto=accept recvs=2 size=8")
    # All at once: each has a neighbour to be resolved first.
    addresses = ["fd77::2", *many_addresses, f"{link_local(hostb, 'veth_b')}%veth_a"]
    for address in addresses:
        initiator.tell(f"connect {address} 7651 recvs=2 established=1 size=8")
    for address in addresses:
        both_up(initiator, responder)
    take(responder, "RECV", len(addresses))
    remote = {initiator.expect("ROUTE_RESOLVED")["remote"].split("%")[0].split()[0]
              for _ in addresses}
    assert remote == {address.split("%")[0] for address in addresses}


def test_fr73_single_addresses(initiator, responder, many_addresses, hostb):
    """Each is reached by itself. A link-local one needs its scope; what is no address of an
    interface, as IPv4 mapped into IPv6, rdma_cm has no device for. ::1 is another wildcard to
    it: a listener of every device.
    """
    local = link_local(hostb, "veth_b")
    addresses = [("fd77::2", "fd77::2"), (many_addresses[3],) * 2,
                 (f"{local}%veth_b", f"{local}%veth_a")]
    for port, (ours, theirs) in enumerate(addresses, 7652):
        responder.do(f"listen {ours} {port} auto=accept recvs=2 size=8")
        reachable(initiator, responder, theirs, port)
    responder.do("listen ::1 7659 auto=accept")
    assert hostb.listens(7659)
    responder.do(f"listen {local} 7660", errno=EINVAL)
    responder.do("listen ::ffff:10.77.0.2 7661", errno=EADDRNOTAVAIL)


# ---- a listener that one of several devices cannot have ----

@pytest.fixture(name="three_devices")
def fixture_three_devices(hostb):
    """siw_b and two more, on dummy links."""
    for number in (1, 2):
        link = f"field{number}"
        hostb.run("ip", "link", "add", link, "type", "dummy")
        hostb.run("ip", "link", "set", link, "up")
        hostb.run("ip", "address", "add", f"10.8{number}.0.1/24", "dev", link)
        hostb.run("rdma", "link", "add", f"siw_f{number}", "type", "siw", "netdev", link)
    yield
    for number in (1, 2):
        run("rdma", "link", "del", f"siw_f{number}")
        hostb.run("ip", "link", "del", f"field{number}")


def test_fr75_one_of_three_devices_cannot_listen(hosta, hostb, three_devices):
    """Its port is held by a plain TCP socket. rping ends, by itself or when it is killed, and
    the port is free for the next one.
    """
    assert three_devices is None
    plain = hostb.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"field1\0")
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    plain.bind(("", 7670))
    plain.listen(1)
    server = hostb.popen("rping", "-s", "-C", "1", "-p", "7670")
    try:
        with contextlib.suppress(Exception):
            server.wait(timeout=seconds(1))
    finally:
        server.kill()
        output, _ = server.communicate(timeout=seconds(10))
    assert server.returncode != 0, output
    plain.close()
    pair(hosta, hostb, 7670, ("rping", "-s", "-C", "1", "-p", "7670"),
         ("rping", "-c", "-a", hostb.address, "-C", "1", "-p", "7670"))


# ---- calls that nobody makes ----

def test_fr78_random_walk_over_ucma(hosta, hostb, initiator, responder):
    """The case asks for 12 hours of syzkaller's descriptions of rdma_cm; this is the nearest
    that goes into a check: two seeded walks at the same time, on ids and QPs that may be of
    any kind, in any state. The long run has a hundred seeds.
    """
    walker = str(TOP / "userspace-tests/e2e/ucma_walk.py")
    for seed in range(1, 1 + often(2, 100, 1)):
        walks = [host.popen("/usr/bin/python3", "-B", walker, str(seed + 1000 * number),
                            str(often(600, 20000, 300)), host.device, hosta.address,
                            hostb.address, hosta.address6, hostb.address6)
                 for number, host in enumerate((hosta, hostb))]
        try:
            for walk in walks:
                output, _ = walk.communicate(timeout=seconds(60))
                assert walk.returncode == 0, (seed, output)
                # Both have come far.
                assert "listen=" in output and "connect=" in output, output
        finally:
            for walk in walks:
                walk.kill()
                walk.communicate()
    for host in (hosta, hostb):
        counters_at_rest(host.device)
    port = listen(responder, "auto=accept recvs=2 size=8")
    reachable(initiator, responder, "10.77.0.2", port)


# ---- containers ----

CONTAINERS = {
    "no-device-files": ("unshare", "-m", "sh", "-c",
                        'mount -t tmpfs none /dev/infiniband; exec "$@"', "sh"),
    "no-locked-memory": ("setpriv", "--inh-caps=-ipc_lock", "--bounding-set=-ipc_lock",
                         "prlimit", "--memlock=0"),
    "locked-memory": ("setpriv", "--inh-caps=-ipc_lock", "--bounding-set=-ipc_lock",
                      "prlimit", "--memlock=unlimited"),
}


def contained(hosta, hostb, name):
    """How rping ends in it, and what it says, without addresses."""
    server = hostb.popen("rping", "-s", "-a", hostb.address, "-C", "2")
    try:
        wait_until(lambda: hostb.listens(7174), "rping", 30)
        result = hosta.run(*CONTAINERS[name], "rping", "-c", "-a", hostb.address, "-C", "2",
                           check=False)
    finally:
        server.kill()
        server.communicate()
    return result.returncode, re.sub(r"0x\w+|\d{3,}", "", result.stdout)


@pytest.mark.parametrize("name", CONTAINERS)
def test_fr80_a_container_fails_or_works_at_once(hosta, hostb, name):
    """Without device files or memory that it may lock an application is told so."""
    code, said = contained(hosta, hostb, name)
    assert (code == 0) == (name == "locked-memory"), said
    assert code == 0 or said.strip()


@pytest.mark.stock
def test_fr80_containers_see_what_they_see_on_stock_siw(hosta, hostb):
    with_it = [contained(hosta, hostb, name) for name in CONTAINERS]
    run("rmmod", "iw_mpa2")
    try:
        without = [contained(hosta, hostb, name) for name in CONTAINERS]
    finally:
        run("modprobe", "iw_mpa2")
    assert with_it == without


# ---- IPv6 ----

@pytest.fixture(name="ipv6_only")
def fixture_ipv6_only(hosta, hostb):
    """No IPv4 address anywhere."""
    ends = ((hosta, "veth_a"), (hostb, "veth_b"))
    for host, link in ends:
        host.run("ip", "address", "del", f"{host.address}/24", "dev", link)
        host.run("ip", "address", "del", "127.0.0.1/8", "dev", "lo")
    yield
    for host, link in ends:
        host.run("ip", "address", "add", "127.0.0.1/8", "dev", "lo")
        host.run("ip", "address", "add", f"{host.address}/24", "dev", link)


def test_fr81_responder_on_ipv6_only(ipv6_only, responder, dial):
    """What it answers to each offer is what it answers over IPv4."""
    assert ipv6_only is None
    port = listen(responder, "auto=accept ird=4 ord=4 pd=6f6b", socket.AF_INET6)
    for kinds in SETS:
        raw = dial(port, socket.AF_INET6)
        raw.send(mpa.request("A" + kinds, 4, 4))
        assert raw.receive(26) == mpa.reply("A" + kinds, 4, 4, b"ok")
        raw.send(mpa.RTR[kinds[0]])
        if kinds[0] == "D":
            assert raw.receive(20) == mpa.READ_RESPONSE
        responder.expect("ESTABLISHED", status=0)
    for request, reply in (
            (mpa.request("", 4, 4), mpa.reply("", 4, 4, b"ok")),
            (mpa.request_rev1(), mpa.reply_rev1(b"ok")),
            (mpa.frame(mpa.REQUEST_KEY, 0, 2), mpa.frame(mpa.REPLY_KEY, 0, 2, b"ok"))):
        raw = dial(port, socket.AF_INET6)
        raw.send(request)
        assert raw.receive(len(reply)) == reply
        responder.expect("ESTABLISHED", status=0)
    raw = dial(port, socket.AF_INET6)
    raw.send(mpa.frame(mpa.REQUEST_KEY, 0, 3))
    assert raw.ends() == b""
    port = listen(responder, "auto=reject pd=6e6f", socket.AF_INET6)
    raw = dial(port, socket.AF_INET6)
    raw.send(mpa.request("AC", 4, 4))
    assert raw.rest() == mpa.reply("AC", 4, 4, b"no", mpa.FLAG_S | mpa.FLAG_R)


def test_fr81_initiator_on_ipv6_only(ipv6_only, initiator, answer6, set_parameter):
    """The same Replies to the same Requests: RTR, Terminate, reject, fallback."""
    assert ipv6_only is None

    def dialled(length=24):
        initiator.do(f"connect fd77::2 {answer6.port} ird=4 ord=4")
        raw = answer6()
        assert raw.receive(length) == mpa.request("ABCD", 4, 4)
        return raw

    for kind in "BCD":
        raw = dialled()
        raw.send(mpa.reply("A" + kind, 4, 4))
        assert raw.receive(len(mpa.RTR[kind])) == mpa.RTR[kind]
        initiator.expect("ESTABLISHED", status=0)
    for reply, terminate in ((mpa.reply("A", 4, 4), mpa.TERMINATE_RTR),
                             (mpa.reply("AC", 4, 129), mpa.TERMINATE_IRD)):
        raw = dialled()
        raw.send(reply)
        assert raw.rest() == terminate
        initiator.expect("CONNECT_ERROR")
    raw = dialled()
    raw.send(mpa.reply("AC", 4, 4, b"no", mpa.FLAG_S | mpa.FLAG_R))
    assert initiator.expect("REJECTED", status=REFUSED)["private_data"] == b"no".hex()
    set_parameter(fallback="Y")
    dialled().close()
    raw = answer6()
    assert raw.receive(20) == mpa.request_rev1()
    raw.send(mpa.reply_rev1())
    initiator.expect("ESTABLISHED", status=0)


def test_fr82_programs_over_ipv6(hosta, hostb):
    """perftest where it can: 4.5 of Debian 12 resolves IPv4 addresses only, later ones know
    --ipv6-addr.
    """
    pair(hosta, hostb, 7471, ("ucmatose", "-b", "fd77::2", "-c", "2"),
         ("ucmatose", "-s", "fd77::2", "-c", "2"))
    pair(hosta, hostb, 7174, ("rping", "-s", "-a", "fd77::2", "-C", "2"),
         ("rping", "-c", "-a", "fd77::2", "-C", "2"))
    if "--ipv6-addr" in run("ib_send_bw", "--help", check=False).stdout:
        options = ("--ipv6-addr", "-R", "-n", "10", "-s", "1024", "-F")
        pair(hosta, hostb, 18515, ("ib_send_bw", "-d", hostb.device) + options,
             ("ib_send_bw", "-d", hosta.device) + options + ("fd77::2",))


# ---- addresses in events ----

@pytest.mark.parametrize("address,own", [("10.77.0.2", "10.77.0.1"), ("fd77::2", "fd77::1")],
                         ids=["v4", "v6"])
def test_fr83_every_event_has_its_addresses(initiator, responder, address, own):
    """Both ends agree on both."""
    responder.do(f"listen {address} 0 auto=accept")
    port = responder.expect("LISTENING")["port"]
    initiator.do(f"connect {address} {port}")
    for name in ("ADDR_RESOLVED", "ROUTE_RESOLVED"):
        event = initiator.expect(name)
        assert event["remote"] == f"{address} {port}"
        assert event["local"].split()[0] == own
    ours, theirs = both_up_events(initiator, responder)
    local = ours["local"]
    assert ours["remote"] == f"{address} {port}"
    assert local.split()[0] == own and int(local.split()[1])
    request = responder.expect("CONNECT_REQUEST")
    for event in (request, theirs):
        assert event["remote"] == local and event["local"] == f"{address} {port}"
    initiator.do(f"disconnect {ours['id']}")
    assert initiator.expect("DISCONNECTED")["local"] == local
    assert responder.expect("DISCONNECTED")["remote"] == local


def both_up_events(initiator, responder):
    """ESTABLISHED at both ends."""
    return initiator.expect("ESTABLISHED", status=0), responder.expect("ESTABLISHED", status=0)


def peer_of(raw):
    """The other end of a raw connection, as events have it."""
    return "{} {}".format(*raw.sock.getpeername()[:2])


def test_fr83_addresses_after_a_fallback(initiator, answer, set_parameter):
    """The second TCP connection's own port; and rejects and errors have addresses, too."""
    set_parameter(fallback="Y")
    raw = connect(initiator, answer)
    the_request(raw)
    raw.close()
    raw = answer()
    the_request(raw, 20)
    raw.send(mpa.reply_rev1())
    event = initiator.expect("ESTABLISHED", status=0)
    assert event["remote"] == f"10.77.0.2 {answer.port}"
    assert event["local"] == peer_of(raw)
    for octets, name in ((mpa.reply("AC", 1, 1, b"", mpa.FLAG_S | mpa.FLAG_R), "REJECTED"),
                         (mpa.reply("A", 1, 1), "CONNECT_ERROR")):
        raw = connect(initiator, answer)
        the_request(raw)
        raw.send(octets)
        event = initiator.expect(name)
        assert event["remote"] == f"10.77.0.2 {answer.port}"
        assert event["local"] == peer_of(raw)


# ---- what a distribution's tools see ----

def test_fr90_the_distributions_tools_see_the_device(hosta, hostb):
    """Not an empty ibv_devices, as people have got from a driver without its library."""
    assert hosta.device in hosta.run("ibv_devices").stdout
    assert "PORT_ACTIVE" in hosta.run("ibv_devinfo", "-d", hosta.device).stdout
    assert re.search(rf"link {hosta.device}/1 state ACTIVE", run("rdma", "link").stdout)
    pair(hosta, hostb, 7174, ("rping", "-s", "-a", hostb.address, "-C", "2"),
         ("rping", "-c", "-a", hostb.address, "-C", "2"))


# ---- SMB Direct ----

@pytest.mark.parametrize("peer_to_peer", ["Y", "N"])
def test_fr94_what_smb_direct_asks_for(initiator, responder, set_parameter, peer_to_peer):
    """The case is a mount over two kernels' SMB Direct, which Debian's kernel is built
    without. Here: its parameters from a program. 8 octets of private data with its own
    depths, 255 credits' worth of receives, 1364 octets a message, the client first.
    """
    set_parameter(peer_to_peer=peer_to_peer)
    port = listen(responder, "auto=accept recvs=255 depth=256 size=1364 ird=32 ord=32 "
                             "pd=0000002000000020")
    initiator.do(f"connect 10.77.0.2 {port} recvs=255 depth=256 size=1364 ird=32 ord=32 "
                 "pd=0000002000000020")
    request = responder.expect("CONNECT_REQUEST")
    assert request["private_data"] == "0000002000000020"
    ours, theirs = both_up(initiator, responder)
    for sender, number, receiver in ((initiator, ours, responder),
                                     (responder, theirs, initiator)):
        sender.do(f"send {number} n={often(100, 255, 20)} size=1364")
        for completion in take(receiver, "RECV", often(100, 255, 20)):
            assert len(completion["data"]) == 2 * 1364
        take(sender, "SEND", often(100, 255, 20))
