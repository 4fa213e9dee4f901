# SPDX-License-Identifier: GPL-2.0
"""Rules in configfs: the settings of one connection, by what it is (ENH-13)."""

import os
import pathlib

import pytest

import mpa
import tcp_capture
from conftest import RULES, TOP, run, seconds, wait_until
from test_initiator import connect, the_request
from test_responder import established, listen

RESULTS = pathlib.Path(os.environ.get("IW_RESULTS", "/tmp"))

def kernel_log():
    return run("dmesg").stdout


def test_enh13_model_by_rule(initiator, answer, rule):
    """FR-13, A-34: the application says nothing, the administrator does."""
    rule("storage", remote="10.77.0.2", model="client-server")
    assert the_request(connect(initiator, answer)) == mpa.request("", 1, 1)
    rule("storage", model="peer-to-peer", rtr="read")
    assert the_request(connect(initiator, answer)) == mpa.request("AD", 1, 1)
    rule("storage", model="", rtr="")
    assert the_request(connect(initiator, answer)) == mpa.request("ABCD", 1, 1)


@pytest.mark.parametrize("attribute,fits,other", [
    ("device", "siw_a", "siw_b"), ("comm", "mpa2-cm", "rping"),
    ("local", "10.77.0.0/24", "10.78.0.0/16"), ("remote", "10.0.0.0/8", "fd77::/64"),
    ("remote", "0.0.0.0/0", "10.77.0.3")])
def test_each_match_attribute_decides(initiator, answer, rule, attribute, fits, other):
    rule("one", model="client-server", **{attribute: other})
    assert the_request(connect(initiator, answer)) == mpa.request("ABCD", 1, 1)
    rule("one", **{attribute: fits})
    assert the_request(connect(initiator, answer)) == mpa.request("", 1, 1)


def test_ports_are_ranges(initiator, answer, rule):
    port = answer.port
    rule("ports", model="client-server", remote_port=f"1-{port - 1}")
    assert the_request(connect(initiator, answer)) == mpa.request("ABCD", 1, 1)
    rule("ports", remote_port=f"{port - 1}-{port + 1}")
    assert the_request(connect(initiator, answer)) == mpa.request("", 1, 1)


def test_first_by_priority_wins_alone(initiator, answer, rule):
    rule("general", priority=200, rev=1, crc="Y")
    rule("special", priority=10, remote="10.77.0.2", model="client-server")
    assert the_request(connect(initiator, answer)) == mpa.request("", 1, 1)
    rule("special", priority=300)
    assert the_request(connect(initiator, answer), 20) == mpa.request_rev1(flags=mpa.FLAG_C)


def test_neg_depths_are_the_ulps_own(initiator, answer, rule):
    """N8: 0x3FFF in both fields, and the Reply's numbers change nothing."""
    rule("own", depths="ulp")
    raw = connect(initiator, answer, "ird=4 ord=4")
    assert the_request(raw) == mpa.request("ABCD", 0x3fff, 0x3fff)
    raw.send(mpa.reply("AC", 0x3fff, 0x3fff))
    assert raw.receive(20) == mpa.RTR["C"]
    event = initiator.expect("ESTABLISHED", status=0)
    # What was not negotiated shows as the local value.
    assert event["initiator_depth"] == 4 and event["responder_resources"] == 4


def test_neg05_required_ord(responder, dial, rule):
    """N16: a smaller IRD gets R=1, S=1 and the needed value; AMB-03."""
    rule("needs", require_ord=8)
    port = listen(responder, "auto=accept ird=4 ord=8")
    raw = dial(port)
    raw.send(mpa.request("AC", 4, 4))
    octets = raw.rest()
    assert octets[16] == mpa.FLAG_S | mpa.FLAG_R
    assert int.from_bytes(octets[22:24], "big") & 0x3fff == 8
    responder.nothing("ESTABLISHED", 0.05)
    raw = dial(port)
    raw.send(mpa.request("AC", 8, 4))
    assert raw.receive(24) == mpa.reply("AC", 4, 8)
    raw.send(mpa.RTR["C"])
    responder.expect("ESTABLISHED", status=0)


def test_listener_is_matched_by_its_own_port(responder, dial, rule):
    port = listen(responder, "auto=accept")
    rule("mine", local_port=port, comm="mpa2-cm", rtr="write")
    raw = dial(port)
    raw.send(mpa.request("ABCD", 1, 1))
    assert raw.receive(24) == mpa.reply("AC", 1, 1)
    established(responder, dial(port), "AC")


@pytest.mark.slow
@pytest.mark.parametrize("attribute,wrong,expected", [
    ("model", "p2p", "peer-to-peer or client-server"),
    ("rtr", "write,write", "a list of write, read and send"),
    ("rev", "3", "1 or 2"), ("fallback", "maybe", "Y or N"),
    ("depths", "both", "negotiate or ulp"), ("fence", "never", "always or p2p"),
    ("require_ord", "16383", "0 to 16382"), ("crc", "?", "Y or N"),
    ("reply_timeout_ms", "9", "10 to 600000 milliseconds"),
    ("local", "10.77.0.0/33", "an address, or address/prefix"),
    ("remote", "somewhere", "an address, or address/prefix"),
    ("local_port", "20-10", "a port, or first-last"),
    ("remote_port", "65536", "a port, or first-last"),
    ("priority", "high", "a number"), ("comm", "sixteen-octets-x", "the name of a task, 15 octets at most")])
def test_wrong_text_is_refused_in_words(rule, attribute, wrong, expected):
    path = rule("wrong")
    before = (path / attribute).read_text()
    with pytest.raises(OSError) as error:
        (path / attribute).write_text(wrong)
    assert error.value.errno == 22
    assert f"rule wrong: {attribute}={wrong}: expected {expected}" in kernel_log()
    assert (path / attribute).read_text() == before


def test_attributes_read_back(rule):
    values = {"device": "siw_a", "comm": "rping", "local": "10.77.0.0/24",
              "remote": "fd77::2/128", "local_port": "7174", "remote_port": "1-65000",
              "priority": "-5", "model": "client-server", "rtr": "send,write", "rev": "1",
              "fallback": "Y", "depths": "ulp", "fence": "p2p", "crc": "Y",
              "require_ord": "16", "rtr_timeout_ms": "250"}
    path = rule("all", **values)
    for name, value in values.items():
        assert (path / name).read_text() == value + "\n", name
    for name in os.listdir(path):
        if name not in values:
            assert (path / name).read_text() == "\n", name


def test_a_rule_keeps_the_module(rule):
    path = rule("keeper")
    assert run("rmmod", "iw_mpa2", check=False).returncode != 0
    path.rmdir()


def test_disabled_device_gives_new_work_to_stock_siw(responder, dial):
    """A host is drained: what is up stays, what is new is not ours."""
    enabled = pathlib.Path("/sys/class/infiniband/siw_b/ports/1/iw_mpa2/enabled")
    assert enabled.read_text() == "Y\n"
    port = listen(responder, "auto=accept")
    raw = dial(port)
    number = established(responder, raw)
    enabled.write_text("N")
    try:
        with pytest.raises(OSError):
            enabled.write_text("?")
        assert enabled.read_text() == "N\n"
        # The old listener is ours until it goes; a new one is stock siw's.
        established(responder, dial(port))
        responder.do("destroy 0")
        listen(responder, "auto=accept")
        raw.send(mpa.fpdu(mpa.send(1, b"on")))
        assert responder.expect("WC", opcode="RECV")["data"] == b"on".hex()
        responder.do(f"disconnect {number}")
    finally:
        enabled.write_text("Y")


def test_two_applications_at_once_each_with_its_model(hosta, hostb, initiator, responder,
                                                      rule):
    """One peer-to-peer, one client-server by rule, from one host, in one capture."""
    rule("ping", comm="rping", model="client-server")
    path = RESULTS / "two-models.pcap"
    path.unlink(missing_ok=True)
    port = listen(responder, "auto=accept")
    server = hostb.popen("rping", "-s", "-a", hostb.address, "-C", "20")
    dump = hostb.popen("tcpdump", "-Z", "root", "-i", "veth_b", "--immediate-mode", "-U",
                       "-w", str(path), f"tcp port {port} or tcp port 7174")
    try:
        wait_until(lambda: hostb.listens(7174), "rping", 30)
        wait_until(lambda: path.exists() and path.stat().st_size >= 24, "tcpdump", 20)
        client = hosta.popen("rping", "-c", "-a", hostb.address, "-C", "20")
        initiator.do(f"connect {hostb.address} {port}")
        responder.expect("ESTABLISHED", status=0)
        number = initiator.expect("ESTABLISHED", status=0)["id"]
        assert client.wait(seconds(60)) == 0, client.stdout.read()
        assert server.wait(seconds(60)) == 0, server.stdout.read()
        initiator.do(f"disconnect {number}")
        responder.expect("DISCONNECTED")

        def begun():
            """Both by their ports, once what is looked at below is in the capture."""
            by_port = {connection.responder[1]: connection
                       for connection in tcp_capture.read_connections(path)}
            return len(by_port) == 2 and all(len(connection.stream(mpa.INITIATOR)) >= 44
                                             for connection in by_port.values()) and by_port

        wait_until(begun, "both connections in the capture")
        by_port = begun()
    finally:
        for process in (server, dump):
            process.terminate()
            process.communicate()
    assert by_port[port].stream(mpa.INITIATOR).startswith(
        mpa.request("ABCD", 1, 1) + mpa.RTR["C"])
    # rping's client speaks first by itself: what follows the Request is its own Send.
    octets = by_port[7174].stream(mpa.INITIATOR)
    assert octets[:20] == mpa.request("")[:20]
    assert octets[20] & 0xc0 == 0 and octets[22] & 0xc0 == 0
    assert octets[26:28] == b"\x41\x43"


TOOL = str(TOP / "scripts/host/iw_mpa2-rules")


@pytest.mark.slow
def test_rules_are_saved_and_loaded_as_text(rule, tmp_path):
    rule("first", priority="5", remote="10.77.0.0/24", model="client-server")
    rule("second", comm="rping", rtr="read,write")
    saved = tmp_path / "iw_mpa2.conf"
    run(TOOL, "save", str(saved))
    assert saved.read_text() == (
        "[first]\nmodel = client-server\npriority = 5\nremote = 10.77.0.0/24\n\n"
        "[second]\ncomm = rping\npriority = 100\nrtr = read,write\n\n")
    run(TOOL, "clear")
    assert not list(RULES.iterdir())
    run(TOOL, "load", str(saved))
    assert run(TOOL, "save").stdout == saved.read_text()
    # A mistake leaves what was in force.
    wrong = tmp_path / "wrong.conf"
    wrong.write_text("[third]\nmodel = both\n")
    refused = run(TOOL, "load", str(wrong), check=False)
    assert refused.returncode == 1 and "rule third: model = both: Invalid" in refused.stdout
    assert run(TOOL, "save").stdout == saved.read_text()
    run(TOOL, "clear")


def test_the_example_is_a_valid_file(hosts):
    assert hosts
    run(TOOL, "load", str(TOP / "scripts/host/iw_mpa2.conf"))
    assert not list(RULES.iterdir())
