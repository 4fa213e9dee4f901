# SPDX-License-Identifier: GPL-2.0
"""The fault matrix as data: whole, and the same in its document."""

import pathlib
import subprocess
import sys

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "userspace-tests/e2e/faults"))

import cells  # noqa: E402  pylint: disable=wrong-import-position


def test_document_is_what_the_data_say():
    subprocess.run([TOP / "scripts/events-doc", "--check"], check=True)


@pytest.mark.parametrize("role", cells.STATES)
@pytest.mark.parametrize("fault", cells.FAULTS)
def test_every_state_has_an_outcome_or_a_reason(role, fault):
    """Each state is met, or passed, or it is said why not."""
    if (role, fault) == ("initiator", "listener-closed"):
        assert fault not in cells.EXPECTED[role]
        return
    for state in cells.STATES[role]:
        if (role, state) not in cells.PASSED:
            reason = cells.LEFT_OUT.get((role, fault), {}).get(state)
            assert cells.exists(role, state, fault) != bool(reason), state


def test_every_cell_has_what_is_right():
    for cell in cells.cells():
        assert cell.outcomes and all(outcome.end for outcome in cell.outcomes), cell.name


def test_a_document_of_other_data_is_found_out(tmp_path):
    """The comparison itself."""
    for part in ("scripts/lib/events_doc.py", "userspace-tests/e2e/faults/cells.py",
                 "Documentation/events.rst"):
        (tmp_path / part).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / part).write_bytes((TOP / part).read_bytes())
    data = tmp_path / "userspace-tests/e2e/faults/cells.py"
    data.write_text(data.read_text().replace("REJECTED -104", "REJECTED -111", 1))
    assert subprocess.run([sys.executable, "-B", tmp_path / "scripts/lib/events_doc.py", "--top",
                           tmp_path, "--check"], check=False).returncode
