# SPDX-License-Identifier: GPL-2.0
"""What has to survive whatever the tests of hostile peers and applications do: a
listener and connections that were made before, and that a new one comes up at once.
"""

import time

import pytest

import mpa
from conftest import seconds
from segments import Maker
from test_initiator import connect, ends_with, the_request
from test_responder import END, REQUEST_EVENT, established, listen

RESET, TIMEDOUT, PROTOCOL, REFUSED = -104, -110, -71, -111
QUICKLY = 1  # seconds, for what must not have to wait for another connection's timer
REQUEST_T9 = mpa.REQUEST_KEY + bytes.fromhex("10020004 80018001")


def talk(agent, raw, number, msn, crc=False):
    """One message each way; they have that number on either side."""
    raw.send(mpa.fpdu(mpa.send(msn, b"ping"), crc))
    assert agent.expect("WC", id=number, opcode="RECV")["data"] == b"ping".hex()
    agent.do(f"send {number} size=4")
    octets = raw.receive(28)
    assert octets == mpa.fpdu(octets[2:24], crc) and octets[2:4] == b"\x41\x43"
    assert agent.expect("WC", id=number, opcode="SEND")["status"] == 0


class Service:
    """A listener with a connection to it."""

    def __init__(self, responder, dial):
        self.responder, self.dial = responder, dial
        self.port = listen(responder, "auto=accept backlog=64")
        self.raw, self.number = self.connect()
        talk(responder, self.raw, self.number, 1)

    def connect(self):
        """One more connection, which has to come up at once."""
        raw = self.dial(self.port)
        begun = time.monotonic()
        number = established(self.responder, raw)
        assert time.monotonic() - begun < seconds(QUICKLY)
        self.responder.expect(REQUEST_EVENT, id=number)
        return raw, number

    def works(self):
        """The old connection does, and so does a new one."""
        talk(self.responder, self.raw, self.number, 2)
        raw, number = self.connect()
        talk(self.responder, raw, number, 1)

    def request(self, timeout=15):
        """The id of the next request that the application has got."""
        return self.responder.expect(REQUEST_EVENT, timeout)["id"]

    def unasked(self):
        """The application was asked nothing."""
        self.responder.nothing(REQUEST_EVENT, 0.05)

    def dies(self, status):
        """One accepted request ends before its first FPDU."""
        event = self.responder.expect("ESTABLISHED")
        assert event["status"] == status
        self.responder.expect(END, id=event["id"])
        return event["id"]


@pytest.fixture(name="service")
def fixture_service(responder, dial):
    """A responder that has to survive the test."""
    service = Service(responder, dial)
    yield service
    service.works()


class Partner:
    """A connection of the initiator's."""

    def __init__(self, initiator, answer):
        self.initiator, self.answer = initiator, answer
        self.raw, self.number = self.connect()
        talk(initiator, self.raw, self.number, 1)

    def connect(self, options="ird=4 ord=4"):
        """One more, which has to come up at once."""
        raw = connect(self.initiator, self.answer, options)
        begun = time.monotonic()
        the_request(raw)
        raw.send(mpa.reply("AC", 4, 4))
        assert raw.receive(20) == mpa.RTR["C"]
        number = self.initiator.expect("ESTABLISHED", status=0)["id"]
        assert time.monotonic() - begun < seconds(QUICKLY)
        self.initiator.expect("CONNECT_RETURNED", id=number, errno=0)
        return raw, number

    def works(self):
        """The old connection does, and so does a new one."""
        talk(self.initiator, self.raw, self.number, 2)
        raw, number = self.connect()
        talk(self.initiator, raw, number, 1)

    def asks(self, options=""):
        """A connection of which the Request has arrived."""
        raw = connect(self.initiator, self.answer, options)
        the_request(raw)
        return raw

    def ends(self, name, status):
        """The one event of a connect that fails; nothing of the peer's octets in it."""
        event = ends_with(self.initiator, name, status)
        assert event["private_data"] == "" and event["private_data_len"] == 0


@pytest.fixture(name="partner")
def fixture_partner(initiator, answer):
    """An initiator that has to survive the test."""
    partner = Partner(initiator, answer)
    yield partner
    partner.works()


@pytest.fixture(name="maker")
def fixture_maker(hosta, hostb):
    """Peers that are made of single segments."""
    maker = Maker(hosta, hostb)
    yield maker
    maker.end()
