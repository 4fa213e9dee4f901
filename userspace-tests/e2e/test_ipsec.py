# SPDX-License-Identifier: GPL-2.0
"""Connections inside the host's IPsec (ESP, transport mode)."""

import pytest

import tcp_capture
from conftest import run, wait_until
from test_responder import listen

A, B = "10.77.0.1", "10.77.0.2"


def key(number):
    """A key and salt for rfc4106(gcm(aes)), different for each SA."""
    return "0x" + bytes((number * 16 + n) % 256 for n in range(20)).hex()


def add_sa(hosts, source, target, spi):
    """One security association on both hosts."""
    for host in hosts:
        host.run("ip", "xfrm", "state", "add", "src", source, "dst", target, "proto", "esp",
                 "spi", str(spi), "reqid", "1", "mode", "transport",
                 "aead", "rfc4106(gcm(aes))", key(spi), "128")


def delete_sa(host, source, target, spi):
    """On one host only: what rekeying does, one end after the other."""
    host.run("ip", "xfrm", "state", "delete", "src", source, "dst", target, "proto", "esp",
             "spi", str(spi))


def add_policies(host, here, there):
    """Only ESP between the two, in both directions."""
    for source, target, way in ((here, there, "out"), (there, here, "in")):
        host.run("ip", "xfrm", "policy", "add", "src", source, "dst", target, "dir", way,
                 "tmpl", "src", source, "dst", target, "proto", "esp", "reqid", "1",
                 "mode", "transport")


@pytest.fixture(name="ipsec")
def fixture_ipsec(hosta, hostb):
    """SAs 1 and 2, one per direction, and policies that let nothing else through."""
    hosts = (hosta, hostb)
    try:
        add_sa(hosts, A, B, 1)
        add_sa(hosts, B, A, 2)
        add_policies(hosta, A, B)
        add_policies(hostb, B, A)
        yield hosts
    finally:
        for host in hosts:
            host.run("ip", "xfrm", "policy", "flush", check=False)
            host.run("ip", "xfrm", "state", "flush", check=False)


@pytest.fixture(name="packets")
def fixture_packets(hostb, tmp_path):
    """What passes the wire: packets(proto) counts so far."""
    path = tmp_path / "ipsec.pcap"
    dump = hostb.popen("tcpdump", "-Z", "root", "-i", "veth_b", "--immediate-mode", "-U",
                       "-w", str(path), "ip")
    wait_until(lambda: path.exists() and path.stat().st_size >= tcp_capture.FILE_HEADER_LEN,
               "tcpdump", 20)

    def count(protocol):
        return int(run("tcpdump", "-r", str(path), "--count", f"ip proto {protocol}"
                       ).stdout.split()[-2])

    yield count
    dump.terminate()
    dump.communicate()


def exchange(initiator, responder, ours, theirs, text):
    """A Send each way."""
    for sender, number, receiver in ((initiator, ours, responder), (responder, theirs, initiator)):
        sender.do(f"send {number} size={len(text)}")
        assert sender.expect("WC", opcode="SEND")["status"] == 0
        assert receiver.expect("WC", opcode="RECV")["status"] == 0


@pytest.mark.slow
def test_connection_in_ipsec_survives_a_rekey(ipsec, packets, initiator, responder):
    """SEC-08: the host's IPsec carries it all.  SEC-09: SAs go, the stream stays."""
    hosta, hostb = ipsec
    port = listen(responder, "auto=accept recvs=8")
    initiator.do(f"connect {B} {port} recvs=8")
    theirs = responder.expect("ESTABLISHED", status=0)["id"]
    ours = initiator.expect("ESTABLISHED", status=0)["id"]
    exchange(initiator, responder, ours, theirs, "before")
    # New SAs at both ends, then the old ones go: first where they send.
    add_sa(ipsec, A, B, 3)
    add_sa(ipsec, B, A, 4)
    delete_sa(hosta, A, B, 1)
    delete_sa(hostb, B, A, 2)
    exchange(initiator, responder, ours, theirs, "during")
    delete_sa(hostb, A, B, 1)
    delete_sa(hosta, B, A, 2)
    exchange(initiator, responder, ours, theirs, "after")
    # All SAs gone: nothing passes, which is no reason to drop the stream.
    for host in ipsec:
        host.run("ip", "xfrm", "state", "flush")
    initiator.do(f"send {ours} size=8")
    responder.nothing("WC", 0.5)
    responder.nothing("DISCONNECTED", 0.05)
    add_sa(ipsec, A, B, 5)
    add_sa(ipsec, B, A, 6)
    assert responder.expect("WC", opcode="RECV")["status"] == 0
    initiator.do(f"disconnect {ours}")
    responder.expect("DISCONNECTED", id=theirs)
    initiator.expect("DISCONNECTED")
    assert packets(50) > 20  # ESP
    assert packets(6) == 0   # TCP in the clear
