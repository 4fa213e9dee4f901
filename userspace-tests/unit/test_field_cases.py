# SPDX-License-Identifier: GPL-2.0
"""Every case from the field has the tests that the document names."""

import ast
import csv
import pathlib
import re

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = TOP / "Documentation/field-cases.rst"
# The cases as they were collected; numbers in between were duplicates or not for us.
CASES = {f"FR-{number:02}" for number in (
    *range(1, 9), 10, 11, 12, 14, 16, *range(18, 23), *range(25, 29), *range(32, 36),
    *range(38, 46), 47, 48, 50, 51, 52, *range(54, 58), 62, 63, 64, *range(66, 70), 71, 72, 73, 75,
    *range(77, 84), *range(85, 89), 90, 91, 92, 94)} | {
        f"FS-{number:02}" for number in (1, 2, 3, 5, 6, 7, 10, 12)}


def cases_of(text):
    """{id: its tests} of the document's table."""
    lines = [line.strip() for line in text.splitlines() if re.match(r'   "F[RS]-\d\d"', line)]
    rows = list(csv.reader(lines, skipinitialspace=True))
    assert len({row[0] for row in rows}) == len(rows), "a case stands there twice"
    return {case: set(tests.split()) for case, _, tests in rows}


def ids_of(name):
    """The cases that a test's name has."""
    prefix = re.match(r"test((?:_f[rs]\d\d)*)_", name)
    return re.sub(r"_(f[rs])(\d\d)", lambda match: f"{match[1].upper()}-{match[2]} ",
                  prefix[1] if prefix else "").split()


def named_after_cases(trees):
    """{id: the tests that are named after it}."""
    found = {}
    for tree in trees:
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                for case in ids_of(node.name):
                    found.setdefault(case, set()).add(node.name)
    return found


@pytest.fixture(scope="module", name="tests")
def fixture_tests():
    return named_after_cases(ast.parse(path.read_text()) for folder in ("e2e", "unit")
                             for path in (TOP / "userspace-tests" / folder).rglob("*.py"))


@pytest.mark.parametrize("name,ids", [
    ("test_fr01_x", ["FR-01"]), ("test_fr10_fs12_x", ["FR-10", "FS-12"]), ("test_from_fr01", []),
    ("test_fr1_x", []), ("fr01_x", []), ("test_fr01x", [])])
def test_ids_of_a_name(name, ids):
    assert ids_of(name) == ids


def test_every_case_is_in_the_document():
    assert set(cases_of(DOCUMENT.read_text())) == CASES


@pytest.mark.parametrize("case", sorted(CASES))
def test_case_has_its_tests(case, tests):
    """All that are named are there, and named after it."""
    named = cases_of(DOCUMENT.read_text())[case]
    assert named and not named - tests.get(case, set())
