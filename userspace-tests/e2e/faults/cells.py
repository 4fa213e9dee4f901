# SPDX-License-Identifier: GPL-2.0
"""The cells of the fault matrix and what has to happen in each: data alone.

test_matrix.py makes the tests of them, scripts/events-doc the document
Documentation/events.rst.
"""

import dataclasses

SETUPS = {
    "p2p-write": "peer-to-peer, RTR by RDMA Write",
    "p2p-read": "peer-to-peer, RTR by RDMA Read",
    "p2p-send": "peer-to-peer, RTR by Send",
    "client-server": "client-server",
    "rev1": "Rev 1",
}

# Seconds that an end may come later than it ought to, on Debian's kernel and on the
# debug one: both are emulated.  Where a timer has to find all states the connections
# are made one after the other, which a busy machine takes its time for.
LATE_S = {"at once": (2, 5), "timer": (2, 10)}

# The states of requirements 4.1 and 4.2 in which a fault can find a connection,
# and the timer that bounds each.  CHECK, BIND and RTR are passed within one step:
# there the fault comes together with what begins that step.
STATES = {
    "initiator": {
        "TCP": "SYN sent, no answer",
        "W_HDR": "Request sent, nothing of the Reply in",
        "W_PD": "a part of the Reply's private data is in",
        "CHECK": "(and RTR) the Reply comes in the same moment",
        "EST": "connection is up",
        "TERM": "a Reply was answered by a Terminate, which the application knows",
        "REJ": "a reject came, which the application knows",
    },
    "responder": {
        "W_HDR": "TCP is up, a part of the header is in",
        "W_PD": "a part of the private data is in",
        "ULP": "CONNECT_REQUEST delivered, the application has not answered",
        "BIND": "the application accepts in the same moment",
        "W_FPDU": "accepted, no FPDU has come",
        "RTR": "the first FPDU comes in the same moment",
        "EST": "connection is up",
        "TERM": "a first FPDU was answered by a Terminate, which the application knows",
        "REJ": "rejected by the application",
    },
}
TIMERS = {
    "initiator": {"TCP": "connect", "W_HDR": "reply", "W_PD": "reply", "CHECK": "reply",
                  "TERM": "close", "REJ": "close"},
    "responder": {"W_HDR": "request", "W_PD": "request", "BIND": "rtr", "W_FPDU": "rtr",
                  "RTR": "rtr", "TERM": "close", "REJ": "close"},
}
# A state that is passed: the one before it and the one behind it.
PASSED = {("initiator", "CHECK"): ("W_HDR", "EST"), ("responder", "BIND"): ("ULP", "W_FPDU"),
          ("responder", "RTR"): ("W_FPDU", "EST")}

FAULTS = {
    "fin": "the peer closes TCP by FIN",
    "rst": "the peer closes TCP by RST; in TCP: it refuses",
    "terminate": "the peer sends a Terminate",
    "silence": "the peer does nothing any more",
    "disconnect": "the application calls rdma_disconnect()",
    "destroy-qp": "the application calls rdma_destroy_qp()",
    "qp-error": "the application moves the QP to ERROR",
    "destroy-id": "the application calls rdma_destroy_id(), the QP left alone",
    "kill": "the application is ended by SIGKILL",
    "listener-closed": "the application closes the listener",
    "link-down": "ip link set down of the application's own netdev",
    "carrier-lost": "ip link set down at the other end of the cable",
    "rmmod": "rmmod iw_mpa2, which is refused",
    "link-del": "rdma link del, ib_uverbs loaded last",
    "link-del-us-first": "rdma link del, iw_mpa2 loaded last",
    "link-del-cm-first": "rdma link del, rdma_cm loaded last",
    "netdev-del": "ip link del of the netdev",
    "netns-del": "ip netns del, and SIGKILL of the last process in it",
}
# Faults that one connection meets alone, so that they can meet a step on its way.
ALONE = ("fin", "rst", "terminate", "disconnect", "destroy-qp", "qp-error", "destroy-id")

AT_ONCE, TIMER, LIVES, ACCEPT_FAILS = "at once", "timer", "lives on", "accept fails"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What each side gets.

    app: events of rdma_cm and their status.  peer: what comes on the wire.
    end: AT_ONCE; TIMER, when the state's timer fires; LIVES, it can be used as if
    nothing had been; ACCEPT_FAILS, which is how the application hears of it.
    """

    app: tuple = ()
    peer: tuple = ()
    end: str = AT_ONCE


def outcome(app="", peer="", end=AT_ONCE):
    """The two as text, parts separated by commas."""
    return Outcome(*(tuple(part.strip() for part in text.split(",") if part.strip())
                     for text in (app, peer)), end)


NOTHING = outcome()
REFUSED_ACCEPT = "rdma_accept fails: 104"
LIVE = outcome(end=LIVES)
FAILED_ACCEPT = "ESTABLISHED -104, DISCONNECTED"
OVER = {"TERM": NOTHING, "REJ": NOTHING}  # and close_timeout_ms or the peer's FIN ends it


def same(states, value):
    """One outcome for several states."""
    return dict.fromkeys(states.split(), value)


def fenced(peer, p2p_app=FAILED_ACCEPT, end=AT_ONCE):
    """W_FPDU: without peer-to-peer, ESTABLISHED has come with the accept already."""
    return {"p2p": outcome(p2p_app, peer, end), "": outcome("DISCONNECTED", peer, end)}


# No connection to be met in the states that are left out; see LEFT_OUT.
EXPECTED = {
    "initiator": {
        "fin": {**same("W_HDR W_PD", outcome("REJECTED -104", "FIN")),
                "EST": outcome("DISCONNECTED", "FIN"), **OVER},
        "rst": {**same("TCP W_HDR W_PD", outcome("REJECTED -104")),
                "EST": outcome("DISCONNECTED"), **OVER},
        "terminate": {"W_HDR": outcome("CONNECT_ERROR -71", "FIN"),
                      "EST": outcome("DISCONNECTED", "FIN"), **OVER},
        "silence": {"TCP": outcome("UNREACHABLE -110", "", TIMER),
                    **same("W_HDR W_PD", outcome("UNREACHABLE -110", "RST", TIMER)),
                    "EST": LIVE, **same("TERM REJ", outcome(end=TIMER))},
        **dict.fromkeys(("disconnect", "destroy-qp", "qp-error"), {
            "TCP": outcome("CONNECT_ERROR -103"),
            **same("W_HDR W_PD", outcome("CONNECT_ERROR -103", "FIN")),
            "EST": outcome("DISCONNECTED", "FIN"), **OVER}),
        # iw_cm lets the call wait for the end of the handshake, and tells no provider.
        "destroy-id": {"TCP": outcome(end=TIMER), **same("W_HDR W_PD", outcome("", "RST", TIMER)),
                       "EST": outcome("", "FIN"), **OVER},
        # The kernel closes the files of a process in such an order that its QPs go first.
        "kill": {"TCP": NOTHING, **same("W_HDR W_PD EST", outcome("", "FIN")), **OVER},
        # siw moves the QP to ERROR and tells nobody; what is being made ends by its timer.
        "link-down": {**same("TCP W_HDR W_PD", outcome("UNREACHABLE -110", "", TIMER)),
                      "EST": outcome("DISCONNECTED"), **OVER},
        "carrier-lost": {**same("TCP W_HDR W_PD", outcome("UNREACHABLE -110", "", TIMER)),
                         "EST": LIVE, **OVER},
        **dict.fromkeys(("rmmod", "link-del"), {**same("TCP W_HDR W_PD EST", LIVE), **OVER}),
        "link-del-us-first": {"TCP": outcome("CONNECT_ERROR -103"),
                              **same("W_HDR W_PD", outcome("CONNECT_ERROR -103", "FIN")),
                              "EST": LIVE, **same("TERM REJ", NOTHING)},
        "link-del-cm-first": {**same("TCP W_HDR W_PD", outcome("DEVICE_REMOVAL", "RST", TIMER)),
                              "EST": outcome("DEVICE_REMOVAL", "FIN"),
                              **same("TERM REJ", outcome("DEVICE_REMOVAL"))},
        # As carrier-lost; and the device goes once the application has closed it.
        "netdev-del": {**same("TCP W_HDR W_PD", NOTHING),
                       "EST": outcome("DISCONNECTED"), **OVER},
        "netns-del": {"TCP": NOTHING, **same("W_HDR W_PD EST", outcome("", "FIN")), **OVER},
    },
    "responder": {
        "fin": {**same("W_HDR W_PD", outcome("", "FIN")), "ULP": outcome(end=ACCEPT_FAILS),
                "W_FPDU": fenced("FIN"), "EST": outcome("DISCONNECTED", "FIN"), **OVER},
        "rst": {**same("W_HDR W_PD", NOTHING), "ULP": outcome(end=ACCEPT_FAILS),
                "W_FPDU": fenced(""), "EST": outcome("DISCONNECTED"), **OVER},
        "terminate": {**same("W_HDR W_PD", outcome("", "FIN")), "ULP": outcome(end=ACCEPT_FAILS),
                      "W_FPDU": fenced("FIN"), "EST": outcome("DISCONNECTED", "FIN"), **OVER},
        "silence": {**same("W_HDR W_PD", outcome("", "FIN", TIMER)), "ULP": LIVE,
                    "W_FPDU": {"p2p": outcome("ESTABLISHED -110, DISCONNECTED", "FIN", TIMER),
                               "": LIVE},
                    "EST": LIVE, **same("TERM REJ", outcome(end=TIMER))},
        "disconnect": {"ULP": LIVE, "W_FPDU": fenced("FIN"),
                       "EST": outcome("DISCONNECTED", "FIN"), **OVER},
        **dict.fromkeys(("destroy-qp", "qp-error"), {
            "W_FPDU": fenced("FIN"), "EST": outcome("DISCONNECTED", "FIN"), "TERM": NOTHING}),
        "destroy-id": {"ULP": outcome("", "reject, FIN"),
                       "W_FPDU": {"p2p": outcome("", "FIN", TIMER), "": outcome("", "FIN")},
                       "EST": outcome("", "FIN"), **OVER},
        "kill": {**same("W_HDR W_PD W_FPDU EST", outcome("", "FIN")),
                 "ULP": outcome("", "reject, FIN"), **OVER},
        # What was delivered is the application's and outlives its listener.
        "listener-closed": {**same("W_HDR W_PD", outcome("", "FIN")),
                            **same("ULP W_FPDU EST", LIVE), **OVER},
        "link-down": {**same("W_HDR W_PD", outcome(end=TIMER)), "ULP": LIVE,
                      "W_FPDU": fenced(""), "EST": outcome("DISCONNECTED"), **OVER},
        "carrier-lost": {**same("W_HDR W_PD", outcome(end=TIMER)), "ULP": LIVE,
                         "W_FPDU": {"p2p": outcome("ESTABLISHED -110, DISCONNECTED", "", TIMER),
                                    "": LIVE},
                         "EST": LIVE, **OVER},
        **dict.fromkeys(("rmmod", "link-del"),
                        {**same("W_HDR W_PD ULP W_FPDU EST", LIVE), **OVER}),
        "link-del-us-first": {**same("W_HDR W_PD", outcome("", "FIN")),
                              "ULP": outcome("", "FIN", ACCEPT_FAILS), "W_FPDU": fenced("FIN"),
                              "EST": LIVE, **same("TERM REJ", NOTHING)},
        "link-del-cm-first": {**same("W_HDR W_PD", outcome("", "FIN")),
                              # An id that was never accepted has no events in user space.
                              "ULP": outcome("", "reject, FIN"),
                              "W_FPDU": {"p2p": outcome("DEVICE_REMOVAL", "FIN", TIMER),
                                         "": outcome("DEVICE_REMOVAL", "FIN")},
                              "EST": outcome("DEVICE_REMOVAL", "FIN"),
                              "TERM": outcome("DEVICE_REMOVAL"), "REJ": NOTHING},
        "netdev-del": {**same("W_HDR W_PD ULP", NOTHING),
                       "W_FPDU": fenced(""), "EST": outcome("DISCONNECTED"), **OVER},
        "netns-del": {**same("W_HDR W_PD W_FPDU EST", outcome("", "FIN")),
                      "ULP": outcome("", "reject, FIN"), **OVER},
    },
}

# Why a fault does not meet a state: (role, fault): {state: reason}.
NO_TCP = "there is no TCP connection yet"
NO_ID = "the application has no id of it yet"
NO_QP = "there is no QP"
LEFT_OUT = {
    ("initiator", "fin"): {"TCP": NO_TCP},
    ("initiator", "terminate"): {
        "TCP": NO_TCP, "W_PD": "its octets are the private data that is waited for"},
    **{("responder", fault): {"W_HDR": NO_ID, "W_PD": NO_ID}
       for fault in ("disconnect", "destroy-id")},
    **{("responder", fault): {"W_HDR": NO_ID, "W_PD": NO_ID, "ULP": NO_QP, "REJ": NO_QP}
       for fault in ("destroy-qp", "qp-error")},
}


@dataclasses.dataclass(frozen=True)
class Cell:
    """One fault that meets one connection."""

    role: str
    setup: str
    state: str
    fault: str

    @property
    def p2p(self):
        """Model."""
        return self.setup.startswith("p2p")

    @property
    def timer(self):
        """Whose timer is short where the fault is met by timers."""
        if self.passed:
            return "none"  # it comes to an end by itself
        return TIMERS[self.role].get(self.state, "none")

    @property
    def passed(self):
        """(the state before, the state behind) of one that is passed."""
        return PASSED.get((self.role, self.state))

    @property
    def name(self):
        """For people."""
        return f"{self.role}-{self.setup}-{self.state}-{self.fault}"

    def _of_state(self, state):
        value = EXPECTED[self.role][self.fault].get(state)
        if isinstance(value, dict):
            value = value["p2p" if self.p2p else ""]
        return value

    @property
    def outcomes(self):
        """Every outcome that is right; one, unless a step is being passed."""
        if not self.passed:
            found = [self._of_state(self.state)]
            if self.state == "TCP" and self.fault in ("carrier-lost", "netdev-del", "link-down"):
                # TCP may learn sooner that there is no way, or no neighbour.
                found += [dataclasses.replace(found[0], app=(f"CONNECT_ERROR {why}",))
                          for why in (-113, -101)]
            return found
        before, behind = (self._of_state(state) for state in self.passed)
        app, peer = self._step()
        found = [Outcome(app + behind.app, peer + behind.peer, behind.end)]
        if self.fault == "destroy-id":
            # What is said while the id is being destroyed is not delivered.
            found.append(dataclasses.replace(found[0], app=()))
        if self.state == "BIND":
            found.append(outcome(REFUSED_ACCEPT, "FIN" if self.fault != "rst" else ""))
        elif self.fault not in ("fin", "terminate"):
            # These come behind the octets; any other may overtake them.
            found.append(before)
        if self.fault not in ("fin", "rst", "terminate"):
            # Octets that nobody has read make an RST of the FIN.
            found += [dataclasses.replace(each, peer=each.peer[:-1] + ("RST",))
                      for each in found if each.peer[-1:] == ("FIN",)]
        return found

    def _step(self):
        """(events, octets) of a step when the fault comes behind it."""
        if self.state == "CHECK":
            rtr = {"p2p-write": "RDMA Write", "p2p-read": "RDMA Read Request",
                   "p2p-send": "Send"}.get(self.setup)
            return ("ESTABLISHED",), (rtr,) if rtr and self.fault != "rst" else ()
        if self.state == "BIND":
            return () if self.p2p else ("ESTABLISHED",), \
                ("accept",) if self.fault != "rst" else ()
        answer = ("RDMA Read Response",) if self.setup == "p2p-read" and \
            self.fault != "rst" else ()
        return ("ESTABLISHED",) if self.p2p else (), answer


def cells():
    """All of them, by fault."""
    for fault in FAULTS:
        for role, states in STATES.items():
            for setup in SETUPS:
                for state in states:
                    if exists(role, state, fault):
                        yield Cell(role, setup, state, fault)


def exists(role, state, fault):
    """Whether the fault can meet the state."""
    passed = PASSED.get((role, state))
    table = EXPECTED[role].get(fault, {})
    if not passed:
        return state in table
    if state == "BIND":  # an application does one thing at a time
        return fault in ("fin", "rst", "terminate")
    return fault in ALONE and passed[1] in table
