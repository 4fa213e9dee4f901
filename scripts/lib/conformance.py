# SPDX-License-Identifier: GPL-2.0
"""Which code and which tests name a requirement, and what nobody tests.

Only comments and docstrings count. A test names what stands in its docstring,
in comments inside it, and in the comment that ends on the line above it; the
headings of a file name nothing. Ids are written MPA-14, MPA-01..04,
TERM-01 to TERM-08, or RTR-06, -07.
"""

import argparse
import ast
import bisect
import collections
import csv
import io
import pathlib
import re
import sys
import tokenize

from junitparser import Error, Failure, Skipped

import results

FAMILIES = "MPA|ENH|NEG|RTR|TERM|SEC|SCTP"
ID = re.compile(rf"\b({FAMILIES})-(\d\d)(?!\d)")
RANGE = re.compile(rf"\s*(?:\.\.|to\b)\s*(?:({FAMILIES})-|-)?(\d\d)(?!\d)")
NEXT = re.compile(r"\s*(?:,|/|and\b)\s*-(\d\d)(?!\d)")

CODE = ("drivers", "include")
TESTS = ("kunit", "userspace-tests/core", "userspace-tests/e2e", "userspace-tests/unit")
REQUIREMENTS = "Documentation/requirements.csv"
EXCEPTIONS = "Documentation/conformance-exceptions.csv"
DOCUMENT = "Documentation/conformance.rst"
BEGIN = ".. The table begins here; scripts/conformance --write makes it."
END = ".. The table ends here."

# An exception that begins so leaves a part that holds, and needs a test.
IN_PART = "in part:"
# The exceptions have to fit on one screen.
SCREEN_LINES, SCREEN_COLUMNS = 24, 160

Requirement = collections.namedtuple("Requirement", "id level who phase text")
Comment = collections.namedtuple("Comment", "first last text")
Block = collections.namedtuple("Block", "first last name")
# kind: gtest, kunit, pytest or fuzz; group: suite or module, where there is one.
Test = collections.namedtuple("Test", "kind group name")


def ids_in(text):
    """The ids that a comment names, in their order, each once."""
    found = {}
    for match in ID.finditer(text):
        family, number, at = match[1], int(match[2]), match.end()
        found[f"{family}-{number:02d}"] = None
        while True:
            if (more := RANGE.match(text, at)) and more[1] in (None, family):
                for between in range(number + 1, int(more[2]) + 1):
                    found[f"{family}-{between:02d}"] = None
                number = int(more[2])
            elif more := NEXT.match(text, at):
                number = int(more[1])
                found[f"{family}-{number:02d}"] = None
            else:
                break
            at = more.end()
    return list(found)


# ---- C and C++ ----

C_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
GTEST = re.compile(r"^TEST(?:_F|_P)?\((\w+), *(\w+)\)", re.M)
KUNIT_CASE = re.compile(r"\bKUNIT_CASE\w*\((\w+)")
NAME_OF_FUNCTION = re.compile(r"([\w~]+(?:::[\w~]+)*)\s*\(")


def lines_of(text):
    """A function from an offset to its line, counted from 1."""
    ends = [match.start() for match in re.finditer("\n", text)]
    return lambda offset: bisect.bisect_left(ends, offset) + 1


def c_comments(text):
    """All comments of a C or C++ file."""
    line_of = lines_of(text)
    for match in C_TOKEN.finditer(text):
        if match[0].startswith(("/*", "//")):
            inner = re.sub(r"\n[ \t]*\*?", " ", match[0].strip("/*"))
            yield Comment(line_of(match.start()), line_of(match.end()), inner)


def c_functions(text):
    """Functions whose brace stands alone in the first column, headers included."""
    # Comments go, their lines stay: a header may have one above it.
    bare = C_TOKEN.sub(lambda m: "\n" * m[0].count("\n") if m[0][0] == "/" else m[0], text)
    lines = bare.split("\n")
    blocks, last = [], 0
    for at, line in enumerate(lines):
        if line != "{":
            continue
        first = at
        while first > last and lines[first - 1].strip() and \
                not lines[first - 1].startswith(("#", "}")) and \
                not lines[first - 1].rstrip().endswith((";", "{", "}")):
            first -= 1
        header = " ".join(lines[first:at])
        if "(" not in header:
            continue
        last = at
        while last < len(lines) - 1 and not lines[last].startswith("}"):
            last += 1
        name = GTEST.match(header)
        name = f"{name[1]}.{name[2]}" if name else NAME_OF_FUNCTION.search(header)[1]
        blocks.append(Block(first + 1, last + 1, name))
    return blocks


def owner(comment, blocks):
    """The block that a comment is in or directly above."""
    for block in blocks:
        if block.first <= comment.first <= block.last or comment.last + 1 == block.first:
            return block
    return None


def c_tests(path, text):
    """(Test, ids) of GoogleTest and KUnit, and of a whole fuzz target."""
    comments, blocks = list(c_comments(text)), c_functions(text)
    cases = set(KUNIT_CASE.findall(text))
    named = {}
    if path.name.startswith("fuzz_"):
        target = Test("fuzz", None, path.stem.removeprefix("fuzz_"))
        named[target] = [one for comment in comments for one in ids_in(comment.text)]
    for block in blocks:
        if block.name in cases:
            named[Test("kunit", None, block.name)] = []
        elif "." in block.name:
            named[Test("gtest", *block.name.split("."))] = []
    for comment in comments:
        block = owner(comment, blocks)
        for test in named:
            if block and block.name in (test.name, f"{test.group}.{test.name}"):
                named[test] += ids_in(comment.text)
    return named


# ---- Python ----

def python_comments(text):
    """Comments; those that follow each other line by line are one."""
    joined = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, words = token.start[0], token.string.lstrip("# ")
        if joined and joined[-1].last + 1 == line:
            joined[-1] = Comment(joined[-1].first, line, f"{joined[-1].text} {words}")
        else:
            joined.append(Comment(line, line, words))
    return joined


def python_tests(path, text):
    """(Test, ids) of pytest functions."""
    comments, named = python_comments(text), {}
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef) or not node.name.startswith("test"):
            continue
        first = min([node.lineno] + [one.lineno for one in node.decorator_list])
        block = Block(first, node.end_lineno, node.name)
        texts = [ast.get_docstring(node) or ""]
        texts += [comment.text for comment in comments if owner(comment, [block])]
        named[Test("pytest", path.stem, node.name)] = [
            one for each in texts for one in ids_in(" ".join(each.split()))]
    return named


# ---- the tree ----

class Tree:
    """What the sources under a directory say."""

    def __init__(self, top):
        self.top = pathlib.Path(top)
        self.requirements = {row[0]: Requirement(*row) for row in self._rows(REQUIREMENTS, 5)}
        self.exceptions = dict(self._rows(EXCEPTIONS, 2))
        self.code = {one: [] for one in self.requirements}
        self.tests = {one: [] for one in self.requirements}
        self.unknown = [(one, EXCEPTIONS) for one in self.exceptions
                        if one not in self.requirements]
        self._read_code()
        self._read_tests()

    def _rows(self, name, columns):
        with open(self.top / name, encoding="utf-8", newline="") as file:
            rows = list(csv.reader(line for line in file if not line.startswith("#")))[1:]
        for row in rows:
            if len(row) != columns:
                raise ValueError(f"{name}: {columns} columns wanted: {row}")
        return rows

    def _files(self, directories, suffixes):
        for directory in directories:
            for path in sorted((self.top / directory).rglob("*")):
                if path.suffix in suffixes and "generated" not in path.parts:
                    yield path, path.relative_to(self.top)

    def _note(self, where, ids, what, path):
        for one in ids:
            if one not in self.requirements:
                self.unknown.append((one, str(path)))
            elif what not in where[one]:
                where[one].append(what)

    def _read_code(self):
        for path, name in self._files(CODE, (".c", ".cc", ".h")):
            text = path.read_text(encoding="utf-8")
            blocks = c_functions(text)
            for comment in c_comments(text):
                block = owner(comment, blocks)
                place = f"{name}: {block.name}" if block else str(name)
                self._note(self.code, ids_in(comment.text), place, name)

    def _read_tests(self):
        for path, name in self._files(TESTS, (".c", ".cc", ".py")):
            read = python_tests if path.suffix == ".py" else c_tests
            for test, ids in read(path, path.read_text(encoding="utf-8")).items():
                self._note(self.tests, ids, test, name)

    def uncovered(self, must=True):
        """In force, with neither test nor exception; one in part excuses nothing."""
        return [one for one in self.requirements.values()
                if one.phase == "now" and ("MUST" in one.level) == must and
                not self.tests[one.id] and
                self.exceptions.get(one.id, IN_PART).startswith(IN_PART)]

    def later(self):
        """Not in force yet."""
        return [one for one in self.requirements.values() if one.phase == "later"]

    def faults(self):
        """(what is demanded, what is wrong with it or None), but for the document."""
        must = [one.id for one in self.uncovered()]
        yield "every MUST has a test or an exception", must and " ".join(must)
        yield "every id that is named exists", self.unknown and ", ".join(
            f"{one} in {where}" for one, where in self.unknown)
        lines = [f"{one} {why}" for one, why in self.exceptions.items()]
        fits = len(lines) <= SCREEN_LINES and max(map(len, lines), default=0) <= SCREEN_COLUMNS
        yield "the exceptions fit on one screen", None if fits else \
            f"{len(lines)} lines, the longest of {max(map(len, lines))} characters"


# ---- results of a run ----

class Results:
    """What became of each test; of several runs the worst counts."""

    ORDER = ("passed", "skipped", "failed")

    def __init__(self, directory):
        self.states = {}
        for path in sorted(pathlib.Path(directory).rglob("*.xml")):
            for case in results.cases_of(path):
                self._note(case)

    def _note(self, case):
        kinds = case.result
        state = "passed"
        if any(isinstance(kind, (Failure, Error)) for kind in kinds):
            state = "failed"
        elif any(isinstance(kind, Skipped) for kind in kinds):
            state = "skipped"
        group = (case.classname or "").rsplit(".", maxsplit=1)[-1]
        name = re.sub(r"\[.*", "", case.name or "", flags=re.S)
        # KUnit may give a case with parameters a group of its own.
        for key in ((group, name), (None, name), (None, group)):
            before = self.states.get(key, "passed")
            self.states[key] = max(before, state, key=self.ORDER.index)

    def of_test(self, test):
        """passed, skipped, failed, or not run."""
        group = {"kunit": None, "fuzz": "fuzz"}.get(test.kind, test.group)
        return self.states.get((group, test.name), "not run")

    def of(self, _, tests):
        """What became of a requirement's tests, by its id."""
        return self.of_tests(tests) or "no test"

    def of_tests(self, tests):
        """The same for some tests, with numbers where they differ."""
        count = collections.Counter(self.of_test(test) for test in tests)
        if len(count) <= 1:
            return next(iter(count), "")
        return ", ".join(f"{count[state]} {state}"
                         for state in ("failed", "skipped", "not run", "passed") if count[state])


class Recorded:
    """What the document says of an earlier run; that part of it is never stale."""

    def __init__(self, document):
        self.results = {}
        _, _, rest = document.partition(BEGIN)
        rows = re.split(r"^   \* - ", rest.partition(END)[0], flags=re.M)[2:]
        for row in rows:
            # The result is the last cell; what follows the table is not indented.
            cells = [line.strip() for line in row.splitlines() if line.startswith("     -")]
            self.results[row.splitlines()[0].strip()] = cells[-1].removeprefix("-").strip()

    def of(self, one, tests):
        """The same as Results.of()."""
        return self.results.get(one, "not run" if tests else "no test")


# ---- the document ----

def test_text(test):
    """A test as the table names it."""
    return f"{test.kind} ``{'.'.join(filter(None, (test.group, test.name)))}``"


def cell(entries):
    """Lines of a cell, one entry each."""
    return [f"| {entry}" for entry in entries] if len(entries) > 1 else entries or [""]


def row_of(cells):
    """One row of a list-table."""
    lines = []
    for number, entries in enumerate(cells):
        for index, entry in enumerate(cell(entries)):
            lead = ("* - " if not number else "  - ") if not index else "    "
            lines.append(f"   {lead}{entry}".rstrip())
    return lines


def table(tree, outcome):
    """The generated part of the document, between the two marks."""
    titles = ["Id", "Level", "What", "Code", "Tests", "Result"]
    lines = [".. list-table::", "   :header-rows: 1", "   :widths: 8 8 22 26 30 8", ""]
    lines += row_of([[title] for title in titles])
    for one in tree.requirements.values():
        if one.phase != "now":
            continue
        tests = [test_text(test) for test in tree.tests[one.id]]
        if one.id in tree.exceptions:
            in_part = tree.exceptions[one.id].startswith(IN_PART)
            tests.append("exception in part" if in_part else "exception")
        cells = [[one.id], [one.level], [one.text],
                 [f"``{place}``" for place in tree.code[one.id]], tests or ["none"],
                 [outcome.of(one.id, tree.tests[one.id])]]
        lines += row_of(cells)
    lines += ["", "Exceptions:", ""]
    lines += [f"{one}\n  {why}" for one, why in tree.exceptions.items()]
    later = tree.later()
    if later:
        lines += ["", f"Later: {later[0].id} to {later[-1].id}, {len(later)} requirements."]
    return "\n".join(lines)


def with_table(document, made):
    """The document with the table put between its marks."""
    before, mark, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"{DOCUMENT} has not got both marks: '{BEGIN}' and '{END}'")
    return f"{before}{BEGIN}\n\n{made}\n\n{END}{after}"


def summary(tree):
    """What to print: the number that counts first."""
    must, other, later = tree.uncovered(), tree.uncovered(must=False), tree.later()
    yield f"{len(must)} MUST without test or exception"
    yield from (f"  {one.id} {one.level}: {one.text}" for one in must)
    yield (f"{len(other)} others without: " + " ".join(one.id for one in other)).rstrip(": ")
    yield f"{len(tree.exceptions)} exceptions"
    yield f"{len(later)} later, not counted"


def check(tree, document, into, outcome):
    """Write results and the document with them; whether all is well."""
    into.mkdir(parents=True, exist_ok=True)
    target = into / "conformance.xml"
    target.unlink(missing_ok=True)
    stale = None
    if with_table(document, table(tree, Recorded(document))) != document:
        stale = "out of date; scripts/conformance --write brings it up to date"
    good = True
    for demand, fault in [*tree.faults(), (f"{DOCUMENT} is up to date", stale)]:
        results.add_case(str(target), "conformance", demand, failure=fault or None)
        if fault:
            print(f"{demand}: no: {fault}")
            good = False
    (into / "conformance.rst").write_text(with_table(document, table(tree, outcome)),
                                          encoding="utf-8")
    return good


def main(words=None):
    """Command line."""
    parser = argparse.ArgumentParser(prog="conformance", description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"bring {DOCUMENT} up to date")
    parser.add_argument("--check", action="store_true",
                        help="fail for a MUST without test or exception, and for a stale document")
    parser.add_argument("--results", metavar="DIR", type=pathlib.Path,
                        help="JUnit XML of the last run (default: that of scripts/check)")
    parser.add_argument("--into", metavar="DIR", type=pathlib.Path,
                        help="where --check writes its results, and the table with those of --results")
    parser.add_argument("--top", metavar="DIR", type=pathlib.Path, help="the tree to read",
                        default=pathlib.Path(__file__).resolve().parents[2])
    args = parser.parse_args(words)
    try:
        tree = Tree(args.top)
        document = (args.top / DOCUMENT).read_text(encoding="utf-8")
        if args.write:
            run = Results(args.results)
            outcome = run if run.states else Recorded(document)
            document = with_table(document, table(tree, outcome))
            (args.top / DOCUMENT).write_text(document, encoding="utf-8")
        print("\n".join(summary(tree)))
        for one, where in tree.unknown:
            print(f"no such requirement: {one} in {where}")
        if args.check:
            return 0 if check(tree, document, args.into, Results(args.results)) else 1
    except (OSError, ValueError) as error:
        print(f"conformance: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
