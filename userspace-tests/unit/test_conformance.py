# SPDX-License-Identifier: GPL-2.0
"""The reader of requirement ids: what is a name, whose it is, what is missing."""

import pathlib

import conformance
import pytest
from conformance import Test as Named
from junitparser import JUnitXml

IDS = [
    ("MPA-14", "MPA-14"),
    ("MPA-14, ENH-02; T3 (RTR-15).", "MPA-14 ENH-02 RTR-15"),
    ("MPA-01..04", "MPA-01 MPA-02 MPA-03 MPA-04"),
    ("TERM-07 to TERM-09, SEC-01", "TERM-07 TERM-08 TERM-09 SEC-01"),
    ("TERM-07 to -08", "TERM-07 TERM-08"),
    ("RTR-06, -07, MPA-20/-21 and -23", "RTR-06 RTR-07 MPA-20 MPA-21 MPA-23"),
    ("RTR-01, -03..05", "RTR-01 RTR-03 RTR-04 RTR-05"),
    ("NEG-01 to RTR-02", "NEG-01 RTR-02"),
    ("MPA-14, A-40, FR-03, AMB-02, 5044:7.1.2-4", "MPA-14"),
    ("MPA-14 to be sent, MPA-14 again", "MPA-14"),
    ("MPA-140, XMPA-14, MPA-1, SCTP-36", "SCTP-36"),
]


@pytest.mark.parametrize("text, ids", IDS, ids=[text for text, _ in IDS])
def test_ids_ranges_and_lists(text, ids):
    assert conformance.ids_in(text) == ids.split()


GTEST = """// SPDX-License-Identifier: GPL-2.0
/* A heading: MPA-01. */
#include <gtest/gtest.h>

/* MPA-02: of no test, for a line is between. */

/* MPA-03,
 * MPA-04 */
TEST(Suite, HasAComment)
{
\tconst char *const text = "/* MPA-05 is text */";

\tif (text) {
\t\tuse(text); // MPA-06
\t}
}

/* MPA-07 */
TEST_F(Fixture,
       HasALongHeader)
{
}

/* MPA-08: a helper's. */
static int helper(int value)
{
\treturn value;
}
TEST(Suite, HasNone)
{
\tint brace = '"'; /* MPA-09 */
}
"""


def test_gtest_names_what_is_above_and_inside():
    assert conformance.c_tests(pathlib.Path("some_test.cc"), GTEST) == {
        Named("gtest", "Suite", "HasAComment"): ["MPA-03", "MPA-04", "MPA-06"],
        Named("gtest", "Fixture", "HasALongHeader"): ["MPA-07"],
        Named("gtest", "Suite", "HasNone"): ["MPA-09"],
    }


KUNIT = """
/* ---- RTR-01 is a heading ---- */

static int helper(void)
{
\treturn 0; /* RTR-02 */
}

/* RTR-03 */
static void one_case(struct kunit *test)
{
\thelper(); /* RTR-04 */
}

/* RTR-05 */
static void with_parameters(struct kunit *test)
{
}

static struct kunit_case cases[] = {
\tKUNIT_CASE(one_case), /* RTR-06 */
\tKUNIT_CASE_PARAM(with_parameters, gen_params),
\t{}
};
"""


def test_kunit_names_are_of_the_cases():
    assert conformance.c_tests(pathlib.Path("some_test.c"), KUNIT) == {
        Named("kunit", None, "one_case"): ["RTR-03", "RTR-04"],
        Named("kunit", None, "with_parameters"): ["RTR-05"],
    }


PYTEST = '''"""A heading: NEG-01."""

import pytest


def helper():
    """NEG-02."""


# NEG-03
@pytest.mark.parametrize("text", ["NEG-04"])
def test_one(text):
    """NEG-05 to
    NEG-06.
    """
    assert text == "NEG-07"  # NEG-08


def test_two():
    pass
'''


def test_pytest_names_are_of_docstrings_and_comments():
    assert conformance.python_tests(pathlib.Path("test_some.py"), PYTEST) == {
        Named("pytest", "test_some", "test_one"): ["NEG-05", "NEG-06", "NEG-03", "NEG-08"],
        Named("pytest", "test_some", "test_two"): [],
    }


def test_fuzz_target_is_one_test():
    assert conformance.c_tests(pathlib.Path("fuzz_frame.cc"), "/* SEC-01. */\n") == {
        Named("fuzz", None, "frame"): ["SEC-01"]}


REQUIREMENTS = """# comment
id,level,who,phase,text
MPA-01,MUST,I,now,"a key, first"
MPA-02,MUST NOT,R,now,no word
MPA-03,SHOULD,R,now,not demanded
SCTP-01,MUST,B,later,not in force
"""

CODE = """
/* How it begins (MPA-01). */
static int begin(struct thing *thing,
\t\t int value)
{
\treturn value; /* MPA-02 */
}

struct thing {
\tint value; /* MPA-03 */
};
"""

KEY_TEST = "/* MPA-01 */\nTEST(Key, First)\n{\n}\n"
WORD_TEST = 'def test_word():\n    """MPA-02."""\n'


@pytest.fixture(name="tree")
def make_tree(tmp_path):
    """A small tree in which all is well."""
    for name, text in {
            "Documentation/requirements.csv": REQUIREMENTS,
            "Documentation/conformance-exceptions.csv": "id,reason\n",
            "Documentation/conformance.rst":
                f"Before.\n\n{conformance.BEGIN}\n{conformance.END}\n\nAfter.\n",
            "drivers/core/begin.cc": CODE,
            "userspace-tests/core/key_test.cc": KEY_TEST,
            "userspace-tests/e2e/test_word.py": WORD_TEST}.items():
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "last").mkdir()
    assert call(tmp_path / "tree", "--write") == 0
    return tmp_path / "tree"


def call(tree, *words):
    """The exit status."""
    return conformance.main(["--top", str(tree), "--results", str(tree.parent / "last"),
                             "--into", str(tree.parent / "new"), *words])


def change(tree, name, old, new):
    """Change a file of the tree."""
    path = tree / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def failures(tree):
    """What --check wrote as failed."""
    xml = JUnitXml.fromfile(str(tree.parent / "new" / "conformance.xml"))
    return [case.name for suite in xml for case in suite if case.result]


def test_table_has_code_and_tests_and_keeps_what_is_around(tree, capsys):
    assert call(tree, "--check") == 0
    assert not failures(tree)
    assert "0 MUST without test or exception" in capsys.readouterr().out
    document = (tree / "Documentation/conformance.rst").read_text()
    assert document.startswith("Before.\n") and document.endswith("\nAfter.\n")
    rows = document.split("   * - ")
    assert "MUST\n     - a key, first\n     - ``drivers/core/begin.cc: begin``\n" \
        "     - gtest ``Key.First``" in rows[2]
    assert "``drivers/core/begin.cc: begin``\n     - pytest ``test_word.test_word``" in rows[3]
    assert "``drivers/core/begin.cc``\n     - none" in rows[4]
    assert "Later: SCTP-01" in document
    assert rows[2].endswith("     - not run\n") and "     - no test\n" in rows[4]


def test_writing_twice_changes_nothing(tree):
    before = (tree / "Documentation/conformance.rst").read_text()
    assert call(tree, "--write") == 0
    assert (tree / "Documentation/conformance.rst").read_text() == before


def test_must_without_a_test_fails(tree, capsys):
    change(tree, "userspace-tests/e2e/test_word.py", "MPA-02", "nothing")
    assert call(tree, "--write", "--check") == 1
    assert failures(tree) == ["every MUST has a test or an exception"]
    assert "1 MUST without test or exception\n  MPA-02 MUST NOT: no word" in \
        capsys.readouterr().out


@pytest.mark.parametrize("reason, status", [("cannot be", 0), ("in part: the rest", 1)])
def test_exception_stands_for_a_test_unless_in_part(tree, reason, status):
    change(tree, "userspace-tests/e2e/test_word.py", "MPA-02", "nothing")
    change(tree, "Documentation/conformance-exceptions.csv", "id,reason\n",
           f"id,reason\nMPA-02,{reason}\n")
    assert call(tree, "--write", "--check") == status


def test_stale_table_fails(tree):
    change(tree, "userspace-tests/e2e/test_word.py", "test_word", "test_sentence")
    assert call(tree, "--check") == 1
    assert failures(tree) == ["Documentation/conformance.rst is up to date"]
    assert call(tree, "--write", "--check") == 0


def test_id_that_does_not_exist_fails(tree):
    change(tree, "drivers/core/begin.cc", "MPA-03", "MPA-03, MPA-99")
    assert call(tree, "--write", "--check") == 1
    assert failures(tree) == ["every id that is named exists"]


def test_too_many_exceptions_fail(tree):
    rows = "".join(f"MPA-{n:02d},why\n" for n in range(1, 26))
    change(tree, "Documentation/requirements.csv", "MPA-01,", "".join(
        f"MPA-{n:02d},MUST,B,now,more\n" for n in range(4, 26)) + "MPA-01,")
    change(tree, "Documentation/conformance-exceptions.csv", "id,reason\n", "id,reason\n" + rows)
    assert call(tree, "--write", "--check") == 1
    assert failures(tree) == ["the exceptions fit on one screen"]


def test_document_without_marks_is_an_error(tree):
    change(tree, "Documentation/conformance.rst", conformance.END, "")
    assert call(tree, "--write") == 2


def write_results(directory, name, *cases):
    """JUnit XML of some cases: (classname, name, child element)."""
    (directory / name).write_text("<testsuites><testsuite name='s'>" + "".join(
        f"<testcase classname='{group}' name='{case}'>{child}</testcase>"
        for group, case, child in cases) + "</testsuite></testsuites>")


def test_copy_has_the_worst_result_of_all_runs(tree):
    last = tree.parent / "last"
    write_results(last, "one.xml", ("Key", "First", ""), ("test_word", "test_word[a]", ""),
                  ("userspace-tests.e2e.test_word", "test_word[b]", "<skipped/>"))
    write_results(last, "two.xml", ("test_word", "test_word[a]", "<failure/>"))
    assert call(tree, "--check") == 0
    rows = (tree.parent / "new" / "conformance.rst").read_text().split("   * - ")
    assert rows[2].endswith("     - passed\n")
    assert rows[3].endswith("     - failed\n")
    assert "     - no test\n" in rows[4]


def test_table_keeps_the_results_of_an_earlier_run(tree):
    last = tree.parent / "last"
    write_results(last, "one.xml", ("Key", "First", "<failure/>"), ("test_word", "test_word", ""))
    assert call(tree, "--write") == 0
    document = (tree / "Documentation/conformance.rst").read_text()
    assert document.split("   * - ")[2].endswith("     - failed\n")
    (last / "one.xml").unlink()
    assert call(tree, "--check") == 0
    assert call(tree, "--write") == 0
    assert (tree / "Documentation/conformance.rst").read_text() == document


def test_results_are_found_by_kind(tmp_path):
    write_results(tmp_path, "kunit.xml", ("KUnit Test Group.suite", "one_case", ""),
                  ("KUnit Test Group.suite.with_parameters", "first", "<failure/>"),
                  ("fuzz", "frame", ""))
    outcome = conformance.Results(tmp_path)
    assert outcome.of_test(Named("kunit", None, "one_case")) == "passed"
    assert outcome.of_test(Named("kunit", None, "with_parameters")) == "failed"
    assert outcome.of_test(Named("fuzz", None, "frame")) == "passed"
    assert outcome.of_test(Named("gtest", "Suite", "one_case")) == "not run"
    assert outcome.of_tests([Named("kunit", None, "one_case"), Named("gtest", "S", "x")]) == \
        "1 not run, 1 passed"


def test_without_results_nothing_was_run(tree):
    assert call(tree, "--check") == 0
    assert "     - not run\n" in (tree.parent / "new" / "conformance.rst").read_text()
