# SPDX-License-Identifier: GPL-2.0
"""What applications do wrong, alone or together with a peer. As in test_hostile.py a
listener and connections of others have to work on throughout.
"""

import os
import pathlib
import signal
import socket
import time

import pytest

import mpa
from conftest import Agent, seconds
from hostile import REQUEST_T9, talk
from test_initiator import connect, the_request
from test_responder import END, REQUEST_EVENT, listen

pytestmark = pytest.mark.slow

EINVAL, ECONNRESET = 22, 104
ROUNDS = int(os.environ.get("IW_ROUNDS", "20"))


class Asked:
    """An application of its own that decides by itself."""

    def __init__(self, host, address):
        self.agent = Agent(host)
        self.address = address
        self.agent.do(f"listen {address} 0")
        self.port = self.agent.expect("LISTENING")["port"]

    def request(self, raw, octets=REQUEST_T9):
        """The id of the request that comes of these octets."""
        raw.send(octets)
        return self.agent.expect(REQUEST_EVENT)["id"]

    def qpn(self, number):
        """The number of an id's QP."""
        self.agent.do(f"query {number}")
        return self.agent.expect("QP", id=number)["qp_num"]

    def established(self, raw, number, reply=mpa.reply("AC", 1, 1)):
        """The rest of a handshake whose accept has been given."""
        assert raw.receive(len(reply)) == reply
        raw.send(mpa.RTR["C"])
        self.agent.expect("ESTABLISHED", status=0, id=number)


@pytest.fixture(name="asked")
def fixture_asked(hostb):
    """Such an application on the responder's host."""
    asked = Asked(hostb, hostb.address)
    yield asked
    asked.agent.close()


def call_back(hostb, port):
    """A raw peer on hostb, connected to a port of hosta."""
    sock = hostb.socket()
    sock.settimeout(seconds(15))
    sock.connect(("10.77.0.1", port))
    return sock


# ---- two answers to one request ----

@pytest.mark.usefixtures("service")
def test_a14_a75_second_accept(asked, dial):
    """Before ESTABLISHED it is the end, without an event, and no reference of the QP is
    lost: the destroy comes back. Afterwards it disturbs nothing.
    """
    raw, other = dial(asked.port), dial(asked.port)
    number, second = asked.request(raw), asked.request(other)
    asked.agent.do(f"accept {number}")
    asked.agent.do(f"accept {number} qpn={asked.qpn(number)}", EINVAL)
    assert raw.receive(24) == mpa.reply("AC", 1, 1)
    assert raw.ends() == b""
    asked.agent.nothing("ESTABLISHED")
    assert asked.agent.do(f"destroy {number}")["ms"] < 1000 * seconds(5)
    asked.agent.do(f"accept {second}")
    asked.established(other, second)
    asked.agent.do(f"accept {second} qpn={asked.qpn(second)}", EINVAL)
    talk(asked.agent, other, second, 1)
    assert asked.agent.do(f"destroy {second}")["ms"] < 1000 * seconds(5)
    assert other.ends() == b""


@pytest.mark.usefixtures("service")
def test_a14_a75_second_accept_with_another_qp(asked, dial):
    """The end of the request, without an event; both QPs can be destroyed."""
    raw, other = dial(asked.port), dial(asked.port)
    number, spare = asked.request(raw), asked.request(other)
    asked.agent.do(f"prepare {spare}")
    asked.agent.do(f"accept {number}")
    asked.agent.do(f"accept {number} qpn={asked.qpn(spare)}", EINVAL)
    assert raw.receive(24) == mpa.reply("AC", 1, 1)
    assert raw.ends() == b""
    asked.agent.nothing("ESTABLISHED")
    asked.agent.do(f"accept {spare}")
    asked.established(other, spare)
    talk(asked.agent, other, spare, 1)
    for each in number, spare:
        assert asked.agent.do(f"destroy {each}")["ms"] < 1000 * seconds(5)


@pytest.mark.parametrize("whose", ["own", "another's"])
@pytest.mark.usefixtures("service")
def test_a14_a75_second_accept_beside_established(asked, dial, hostb, whose):
    """Right behind the first one, while its ESTABLISHED may be on its way: whichever comes
    first, the first accept counts and everything can be destroyed, the second QP while
    the connection lives on.
    """
    owner = asked if whose == "own" else Asked(hostb, hostb.address)
    for _ in range(ROUNDS):
        raw, other = dial(asked.port), dial(owner.port)
        number, spare = asked.request(raw, mpa.request_rev1()), owner.request(other)
        owner.agent.do(f"prepare {spare}")
        qpn = owner.qpn(spare)
        asked.agent.tell(f"accept {number}\naccept {number} qpn={qpn}")
        assert asked.agent.expect("done")["errno"] == 0
        assert asked.agent.expect("done")["errno"] in (0, EINVAL)
        assert raw.receive(20) == mpa.reply_rev1()
        asked.agent.expect("ESTABLISHED", status=0, id=number)
        assert owner.agent.do(f"destroy {spare}")["ms"] < 1000 * seconds(5)
        talk(asked.agent, raw, number, 1)
        assert asked.agent.do(f"destroy {number}")["ms"] < 1000 * seconds(5)
        raw.close()
        other.close()
    if owner is not asked:
        owner.agent.close()


@pytest.mark.usefixtures("service")
def test_a14_reject_after_accept(asked, dial):
    """The end, without an event. The QP can be destroyed while the id lives on, and what
    comes of the id later is nothing to a QP that was made meanwhile, maybe in its place.
    """
    for _ in range(3):
        raw, other = dial(asked.port), dial(asked.port)
        number, second = asked.request(raw), asked.request(other)
        asked.agent.do(f"accept {number}")
        asked.agent.tell(f"reject {number}")
        assert asked.agent.expect("done", command="reject")["errno"] in (0, ECONNRESET)
        assert raw.receive(24) == mpa.reply("AC", 1, 1)
        assert raw.ends() == b""
        asked.agent.nothing("ESTABLISHED")
        assert asked.agent.do(f"destroy_qp {number}")["ms"] < 1000 * seconds(5)
        asked.agent.do(f"accept {second}")
        asked.established(other, second)
        asked.agent.do(f"destroy {number}")
        talk(asked.agent, other, second, 1)
        assert asked.agent.do(f"destroy {second}")["ms"] < 1000 * seconds(5)
        assert other.ends() == b""


@pytest.mark.usefixtures("service")
def test_a13_peer_resets_beside_the_accept(asked, dial):
    """Accept fails, or ESTABLISHED says it; the QP takes no harm from work posted later."""
    for _ in range(ROUNDS):
        raw = dial(asked.port)
        number = asked.request(raw)
        asked.agent.tell(f"accept {number}")
        raw.reset()
        if not asked.agent.expect("done", command="accept")["errno"]:
            assert asked.agent.expect("ESTABLISHED", id=number)["status"] < 0
            asked.agent.expect(END, id=number)
        asked.agent.tell(f"send {number}")
        if not asked.agent.expect("done", command="send")["errno"]:
            while asked.agent.expect("WC", id=number)["wr_id"] != 1:
                pass
        asked.agent.do(f"destroy {number}")
    asked.agent.nothing("ESTABLISHED", 0.05)


# ---- other people's QPs ----

@pytest.mark.usefixtures("service")
def test_a70_a_qp_of_another_process_cannot_be_accepted_with(asked, hostb, dial):
    """Neither one that waits for its connection nor one that has it; both live on."""
    victim = Asked(hostb, hostb.address)
    try:
        raw, waiting = dial(victim.port), dial(victim.port)
        number, idle = victim.request(raw), victim.request(waiting)
        victim.agent.do(f"accept {number}")
        victim.established(raw, number)
        victim.agent.do(f"prepare {idle}")
        for qpn in victim.qpn(number), victim.qpn(idle):
            theirs = dial(asked.port)
            request = asked.request(theirs)
            asked.agent.do(f"accept {request} qpn={qpn}", EINVAL)
            asked.agent.do(f"destroy {request}")
            theirs.ends()
        talk(victim.agent, raw, number, 1)
        victim.agent.do(f"accept {idle}")
        victim.established(waiting, idle)
        talk(victim.agent, waiting, idle, 1)
    finally:
        victim.agent.close()


def test_a70_a_qp_of_another_process_cannot_be_connected(partner, hosta, hostb):
    victim = Asked(hosta, hosta.address)
    socks = []
    try:
        sock = call_back(hostb, victim.port)
        socks.append(sock)
        sock.sendall(REQUEST_T9)
        number = victim.agent.expect(REQUEST_EVENT)["id"]
        victim.agent.do(f"prepare {number}")
        qpn = victim.qpn(number)
        partner.initiator.do(f"connect 10.77.0.2 {partner.answer.port} qpn={qpn}")
        assert partner.initiator.expect("CONNECT_RETURNED", errno=EINVAL)
        victim.agent.do(f"accept {number}")
        assert sock.recv(24, socket.MSG_WAITALL) == mpa.reply("AC", 1, 1)
        sock.sendall(mpa.RTR["C"] + mpa.fpdu(mpa.send(1, b"mine")))
        victim.agent.expect("ESTABLISHED", status=0, id=number)
        assert victim.agent.expect("WC", id=number)["data"] == b"mine".hex()
        # And now that it has a connection.
        partner.initiator.do(f"connect 10.77.0.2 {partner.answer.port} qpn={qpn}")
        assert partner.initiator.expect("CONNECT_RETURNED", errno=EINVAL)
        sock.sendall(mpa.fpdu(mpa.send(2, b"mine")))
        assert victim.agent.expect("WC", id=number)["data"] == b"mine".hex()
    finally:
        for sock in socks:
            sock.close()
        victim.agent.close()


@pytest.mark.usefixtures("service")
def test_a70_a_qp_of_ones_own_can_be_named(asked, dial):
    """As programs do that make their QPs without rdma_cm."""
    raw, other = dial(asked.port), dial(asked.port)
    number, spare = asked.request(raw), asked.request(other)
    asked.agent.do(f"prepare {spare}")
    asked.agent.do(f"accept {number} qpn={asked.qpn(spare)}")
    asked.established(raw, number)
    raw.send(mpa.fpdu(mpa.send(1, b"a70!")))
    assert asked.agent.expect("WC", id=spare)["data"] == b"a70!".hex()


@pytest.mark.usefixtures("service")
def test_a71_one_qp_for_two_requests(asked, dial):
    """The second is refused, before and after the first is established."""
    raw, other, third = (dial(asked.port) for _ in range(3))
    number, second, last = (asked.request(each) for each in (raw, other, third))
    asked.agent.do(f"accept {number}")
    qpn = asked.qpn(number)
    asked.agent.do(f"accept {second} qpn={qpn}", EINVAL)
    asked.established(raw, number)
    asked.agent.do(f"accept {last} qpn={qpn}", EINVAL)
    assert other.ends() == b"" and third.ends() == b""
    talk(asked.agent, raw, number, 1)
    for each in number, second, last:
        assert asked.agent.do(f"destroy {each}")["ms"] < 1000 * seconds(5)


def test_a71_one_qp_for_two_connects(partner):
    raw = connect(partner.initiator, partner.answer)
    number = partner.initiator.expect("CONNECT_RETURNED", errno=0)["id"]
    partner.initiator.do(f"query {number}")
    qpn = partner.initiator.expect("QP", id=number)["qp_num"]
    partner.initiator.do(f"connect 10.77.0.2 {partner.answer.port} qpn={qpn}")
    partner.initiator.expect("CONNECT_RETURNED", errno=EINVAL)
    the_request(raw)
    raw.send(mpa.reply("AC", 1, 1))
    assert raw.receive(20) == mpa.RTR["C"]
    partner.initiator.expect("ESTABLISHED", status=0, id=number)


# ---- QPs in the wrong state ----

@pytest.mark.usefixtures("service")
def test_a72_a_qp_is_used_once(asked, dial):
    """One that had a connection is refused, rather than to come up dead."""
    raw = dial(asked.port)
    number = asked.request(raw)
    asked.agent.do(f"accept {number}")
    asked.established(raw, number)
    raw.close()
    asked.agent.expect(END, id=number)
    qpn = asked.qpn(number)
    for state in "ERR", "RESET", "INIT":
        asked.agent.tell(f"modify {number} state={state}")
        asked.agent.expect("done", command="modify")
    again = dial(asked.port)
    second = asked.request(again)
    asked.agent.do(f"accept {second} qpn={qpn}", EINVAL)
    asked.agent.do(f"destroy {second}")
    assert again.ends() == b""


def test_a72_a73_a_qp_is_not_connected_twice_or_drained(hosta, hostb, partner):
    """The same for the QP of a connect, which names one that its process has."""
    own = Asked(hosta, hosta.address)
    try:
        sock = call_back(hostb, own.port)
        sock.sendall(REQUEST_T9)
        number = own.agent.expect(REQUEST_EVENT)["id"]
        own.agent.do(f"prepare {number}")
        own.agent.tell(f"modify {number} state=SQD")
        own.agent.expect("done", command="modify")
        own.agent.do(f"connect 10.77.0.2 {partner.answer.port} qpn={own.qpn(number)}")
        own.agent.expect("CONNECT_RETURNED", errno=EINVAL)
        sock.close()

        own.agent.do(f"connect 10.77.0.2 {partner.answer.port}")
        raw = partner.answer()
        the_request(raw)
        raw.send(mpa.reply("AC", 1, 1))
        assert raw.receive(20) == mpa.RTR["C"]
        number = own.agent.expect("ESTABLISHED", status=0)["id"]
        raw.close()
        own.agent.expect(END, id=number)
        own.agent.do(f"connect 10.77.0.2 {partner.answer.port} qpn={own.qpn(number)}")
        own.agent.expect("CONNECT_RETURNED", errno=EINVAL)
    finally:
        own.agent.close()


@pytest.mark.usefixtures("service")
def test_a73_a_qp_that_was_drained_before_its_connection(asked, dial):
    """Refused, since it would never send."""
    raw = dial(asked.port)
    number = asked.request(raw)
    asked.agent.do(f"prepare {number}")
    asked.agent.tell(f"modify {number} state=SQD")
    asked.agent.expect("done", command="modify")
    asked.agent.do(f"accept {number} qpn={asked.qpn(number)}", EINVAL)
    assert raw.ends() == b""


MODIFIED = 15


def modified(agent, raw, number):
    """Messages that arrive while the QP is being changed, at various moments of that. Few
    of them meet siw's lock; KUnit sees to it that one does.
    """
    took = agent.do(f"modify {number} n=4000")["ms"] / 1000
    for msn in range(1, MODIFIED + 1):
        agent.tell(f"modify {number} n=4000")
        time.sleep(took * msn / (MODIFIED + 1))
        raw.send(mpa.fpdu(mpa.send(msn, b"a29!")))
        agent.expect("done", command="modify", errno=0)
        assert agent.expect("WC", id=number, timeout=3)["data"] == b"a29!".hex()


@pytest.mark.usefixtures("service")
def test_a29_modify_qp_beside_arriving_data(asked, dial):
    """No message waits for the next one because the QP was being changed."""
    raw = dial(asked.port)
    number = asked.request(raw)
    asked.agent.do(f"accept {number} recvs={MODIFIED}")
    asked.established(raw, number)
    modified(asked.agent, raw, number)


def test_a29_modify_qp_of_an_initiator(partner):
    raw, number = partner.connect(f"ird=4 ord=4 recvs={MODIFIED}")
    modified(partner.initiator, raw, number)


# ---- depths, private data, type of service ----

@pytest.mark.parametrize("ird,due", [(1, 1), (3, 2), (5, 4), (6, 4), (8, 8)])
def test_a40_never_more_reads_than_the_peer_takes(partner, responder, dial, ird, due):
    """What the QP shows, and what is on the wire at most; in both roles."""
    raw = connect(partner.initiator, partner.answer, "ird=8 ord=8")
    the_request(raw)
    raw.send(mpa.reply("AC", ird, 8))
    assert raw.receive(20) == mpa.RTR["C"]
    outstanding(partner.initiator, raw, due)

    raw = dial(listen(responder, "auto=accept ird=8 ord=8"))
    raw.send(mpa.request("AC", ird, 8))
    raw.receive(24)
    raw.send(mpa.RTR["C"])
    outstanding(responder, raw, due)


def outstanding(agent, raw, due):
    """So many Reads are under way, of ten; each answer lets one more go."""
    number = agent.expect("ESTABLISHED", status=0)["id"]
    agent.do(f"query {number}")
    assert agent.expect("QP", id=number)["max_dest_rd_atomic"] == due
    agent.do(f"read {number} n=10 size=8 addr=0 rkey=1")
    for msn in range(1, due + 1):
        assert int.from_bytes(raw.receive(52)[12:16], "big") == msn
    raw.silent()


LENGTHS = [0, 251, 252, 253, 254, 255]


@pytest.mark.parametrize("length", LENGTHS)
def test_t20_a53_private_data_of_a_connect(partner, length):
    data = bytes(n * 5 % 256 for n in range(length))
    raw = connect(partner.initiator, partner.answer, f"pd={data.hex()}" if length else "")
    assert raw.receive(24 + length) == mpa.request("ABCD", 1, 1, data)
    raw.send(mpa.reply("AC", 1, 1, data))
    assert raw.receive(20) == mpa.RTR["C"]
    assert partner.initiator.expect("ESTABLISHED", status=0)["private_data"] == data.hex()


@pytest.mark.parametrize("how", ["accept", "reject"])
@pytest.mark.parametrize("length", LENGTHS)
def test_t20_a53_private_data_of_an_answer(service, responder, dial, length, how):
    data = bytes(n * 5 % 256 for n in range(length))
    port = listen(responder, f"auto={how} pd={data.hex()}" if length else f"auto={how}")
    raw = dial(port)
    raw.send(REQUEST_T9)
    if how == "accept":
        assert raw.receive(24 + length) == mpa.reply("AC", 1, 1, data)
    else:
        assert raw.rest() == mpa.reply("AC", 1, 1, data, mpa.FLAG_S | mpa.FLAG_R)
    number = service.request()
    if how == "accept":
        raw.send(mpa.RTR["C"])
        responder.expect("ESTABLISHED", status=0, id=number)


@pytest.mark.usefixtures("service")
def test_a60_type_of_service(initiator, responder, maker, hostb):
    """On each segment of a connection, in both roles and both families."""
    raw = maker.responder()
    initiator.do(f"connect 10.77.0.2 {raw.own[1]} tos=0x28")
    assert raw.accept().tos == 0x28
    assert raw.expect_data().tos == 0x28

    port = listen(responder, "auto=accept tos=0x48")
    raw = maker.initiator(port)
    assert raw.connect().tos == 0x48
    raw.send(data=REQUEST_T9)
    assert raw.expect_data().tos == 0x48

    with hostb.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_TCP) as tap:
        tap.settimeout(seconds(15))
        tap.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS, 1)
        initiator.do("connect fd77::2 7997 tos=0x28")
        _, ancillary, _, _ = tap.recvmsg(2048, 64)
        [(_, kind, value)] = ancillary
        assert kind == socket.IPV6_TCLASS and int.from_bytes(value, "little") == 0x28


# ---- waiting and signals ----

def test_a17_signals_are_not_eaten(hostb, dial):
    """What is pending for the process before it is pending after each call."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        asked = Asked(hostb, hostb.address)  # inherits the mask
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        pid = asked.agent.process.pid

        def pending():
            lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
            [value] = [line.split()[1] for line in lines if line.startswith("ShdPnd:")]
            return bool(int(value, 16) & 1 << (signal.SIGUSR1 - 1))

        os.kill(pid, signal.SIGUSR1)
        assert pending()
        raws = [dial(asked.port) for _ in range(3)]
        numbers = [asked.request(raw) for raw in raws]
        asked.agent.do(f"accept {numbers[0]}")
        asked.established(raws[0], numbers[0])
        assert pending()
        asked.agent.do(f"reject {numbers[1]}")
        assert raws[1].rest()[16] & mpa.FLAG_R
        assert pending()
        asked.agent.do("destroy 0")
        assert pending()
        asked.agent.do(f"disconnect {numbers[0]}")
        asked.agent.expect(END, id=numbers[0])
        asked.agent.do(f"destroy {numbers[0]}")
        assert pending()
    finally:
        asked.agent.close()


def test_a24_a_target_that_says_nothing_holds_up_nobody(partner, hostb, set_parameter):
    """Neither the caller nor connections to others, while its SYNs are dropped."""
    set_parameter(connect_timeout_ms=4000)
    hostb.run("nft", "add table inet hole; add chain inet hole in "
              "{ type filter hook input priority 0; }; "
              "add rule inet hole in tcp dport 7999 drop")
    try:
        begun = time.monotonic()
        for _ in range(4):
            partner.initiator.do("connect 10.77.0.2 7999")
            assert partner.initiator.expect("CONNECT_RETURNED", errno=0)["ms"] < 1000 * seconds(0.1)
        partner.connect()
        assert time.monotonic() - begun < 4
        for _ in range(4):
            assert partner.initiator.expect("UNREACHABLE")["status"] == -110
    finally:
        hostb.run("nft", "delete table inet hole")
