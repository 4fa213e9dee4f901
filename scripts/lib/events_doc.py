# SPDX-License-Identifier: GPL-2.0
"""Documentation/events.rst from the data of the fault matrix.

    events_doc.py --top DIRECTORY [--check]
"""

import argparse
import pathlib
import sys

HEAD = """\
.. SPDX-License-Identifier: GPL-2.0
.. Written by scripts/events-doc from userspace-tests/e2e/faults/cells.py; do not edit.

======
Events
======

What each side gets when something goes wrong, by role, fault and state of the
connection.  ``scripts/test-faults`` tests every line for each model and each kind of
RTR that it holds for: {cells} cells.

*Application* is the one whose host runs this module: events of rdma_cm and their
status, in their order.  *Peer* is what the other end of the TCP connection gets from
us: frames, then FIN or RST.  Nothing else comes on either side.  *When*:

{ends}

A timer is the parameter ``<name>_timeout_ms``; the test has 200 ms for silence, and
some seconds where one fault has to find all states.  It allows {late[0]} s more than what is
written here, on the debug kernel {late[1]} s and {timer[1]} s behind a timer: both are
emulated.  Where a link is down, what is sent comes when it is up again, so the peer's
side is not looked at for ``link-down``, ``carrier-lost`` and ``netdev-del``.

In ``TERM`` and ``REJ`` the application knows the end already; what is left of the
connection goes with the peer's FIN, its RST or ``close_timeout_ms``.

``{passed}`` are passed in one step.  There the fault comes together with what
begins that step, and each side gets either what the state before would give, or the
step and then what the state behind it gives; of the peer's own faults only an RST can
overtake its octets.  Octets that nobody has read turn the FIN of that end into an
RST.

Closing a device waits for the applications that have it open, if ib_uverbs is the
first to be asked: the last that was loaded is.  So the order of loading decides what
``rdma link del`` does to connections; the device goes with the last application in
any case.

States
======

{states}
Faults
======

{faults}
"""
ENDS = {
    "at once": "nothing has to be waited for",
    "timer": "when the timer of the state fires",
    "lives on": "nothing happens; the connection is finished and used afterwards",
    "accept fails": "nothing happens, but rdma_accept() fails with ECONNRESET",
}


def table(columns, rows):
    """A csv-table."""
    lines = [".. csv-table::", "   :header: " + ", ".join(f'"{name}"' for name in columns), ""]
    lines += ["   " + ", ".join('"{}"'.format(str(cell).replace('"', '""')) for cell in row)
              for row in rows]
    return "\n".join(lines) + "\n\n"


def definitions(pairs):
    """A definition list."""
    return "\n".join(f"``{name}``\n  {text}" for name, text in pairs) + "\n"


class Document:
    """The text, made from the module with the data."""

    def __init__(self, cells):
        self.cells = cells
        self.all = list(cells.cells())

    def states(self):
        """All states, with the timer of each."""
        text = ""
        for role, states in self.cells.STATES.items():
            timers = self.cells.TIMERS[role]
            text += f"The {role}'s:\n\n" + table(
                ("state", "what it is", "timer"),
                [(state, what, timers.get(state, "none")) for state, what in states.items()])
        return text

    def models_text(self, setups):
        """Which models and kinds a line holds for, in few words."""
        known = self.cells.SETUPS
        p2p = [setup for setup in known if setup.startswith("p2p")]
        if list(setups) == list(known):
            return "all"
        if list(setups) == p2p:
            return "peer-to-peer"
        if list(setups) == [setup for setup in known if setup not in p2p]:
            return "client-server, Rev 1"
        return "; ".join(known[setup] for setup in setups)

    @staticmethod
    def outcome_row(outcomes):
        """Application, peer and when, of one or several right outcomes."""
        apps = dict.fromkeys(", ".join(o.app) or "nothing" for o in outcomes)
        peers = dict.fromkeys(", ".join(o.peer) or "nothing" for o in outcomes)
        return " | ".join(apps), " | ".join(peers), outcomes[0].end

    def rows(self, role, fault):
        """The lines of one table."""
        rows = {}
        for cell in self.all:
            if (cell.role, cell.fault) == (role, fault) and not cell.passed:
                key = (cell.state,) + self.outcome_row(cell.outcomes)
                rows.setdefault(key, []).append(cell.setup)
        return [(key[0], self.models_text(setups)) + key[1:] for key, setups in rows.items()]

    def left_out(self, role, fault):
        """Why states are missing in a table."""
        return "".join(f"Not in {state}: {why}.\n" for state, why in
                       self.cells.LEFT_OUT.get((role, fault), {}).items())

    def role_text(self, role):
        """The chapter of a role."""
        title = f"The {role}"
        text = f"{title}\n{'=' * len(title)}\n\n"
        for fault, what in self.cells.FAULTS.items():
            rows = self.rows(role, fault)
            if not rows:
                continue
            text += f"{fault}\n{'-' * len(fault)}\n\n{what[0].upper()}{what[1:]}.\n"
            text += self.left_out(role, fault) + "\n"
            text += table(("state", "model", "application", "peer", "when"), rows)
        return text

    def text(self):
        """All of it."""
        passed = "``, ``".join(dict.fromkeys(state for _, state in self.cells.PASSED))
        return HEAD.format(
            cells=len(self.all), ends=definitions(ENDS.items()), passed=passed,
            late=self.cells.LATE_S["at once"], timer=self.cells.LATE_S["timer"],
            states=self.states(), faults=definitions(self.cells.FAULTS.items()).rstrip()) + \
            "\n" + "".join(self.role_text(role) for role in self.cells.STATES).rstrip() + "\n"


def main():
    """Write the document, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--top", type=pathlib.Path, required=True)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    sys.path.insert(0, str(args.top / "userspace-tests/e2e/faults"))
    import cells  # pylint: disable=import-outside-toplevel
    text = Document(cells).text()
    path = args.top / "Documentation/events.rst"
    if not args.check:
        path.write_text(text, encoding="utf-8")
    elif not path.exists() or path.read_text(encoding="utf-8") != text:
        sys.exit(f"{path} is not what the fault matrix says: run scripts/events-doc")


if __name__ == "__main__":
    main()
