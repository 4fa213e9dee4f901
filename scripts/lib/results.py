# SPDX-License-Identifier: GPL-2.0
"""Results of tests as JUnit XML: write a case, convert KUnit's, add all up.

    results.py case FILE SUITE NAME [--failure TEXT | --skip TEXT]
    results.py cases FILE SUITE < lines of NAME, or NAME <tab> WHY IT FAILED
    results.py kunit KTAP.json FILE
    results.py verdict VM_LOG_DIRECTORY FILE
    results.py sum DIRECTORY
"""

import argparse
import json
import os
import pathlib
import sys

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

TEXT_MAX = 400


def add_case(path, suite_name, name, failure=None, skip=None):
    """Append one case to a file, which may not be there yet."""
    xml = JUnitXml.fromfile(path) if os.path.exists(path) else JUnitXml()
    suite = TestSuite(suite_name)
    case = TestCase(name, classname=suite_name)
    if failure:
        case.result = [Failure(failure)]
    if skip:
        case.result = [Skipped(skip)]
    suite.add_testcase(case)
    xml.add_testsuite(suite)
    xml.update_statistics()
    xml.write(path)


def kunit_cases(group, names):
    """(names of groups, name, status) of all cases in what `kunit.py parse --json` wrote."""
    names = names + ([group["name"]] if group["name"] else [])
    for case in group["test_cases"]:
        yield names, case["name"], case["status"]
    for inner in group["sub_groups"]:
        yield from kunit_cases(inner, names)


def convert_kunit(source, target):
    """KUnit's results as JUnit XML."""
    with open(source, encoding="utf-8") as file:
        groups = json.load(file)
    suite = TestSuite("kunit")
    for names, name, status in kunit_cases(groups, []):
        case = TestCase(name, classname=".".join(names) or "kunit")
        if status == "SKIP":
            case.result = [Skipped("skipped")]
        elif status != "PASS":
            case.result = [Failure(status)]
        suite.add_testcase(case)
    xml = JUnitXml()
    xml.add_testsuite(suite)
    xml.update_statistics()
    xml.write(target)


def convert_verdict(directory, target):
    """What a run of the virtual machine was worth, apart from its command."""
    try:
        with open(os.path.join(directory, "verdict.json"), encoding="utf-8") as file:
            verdict = json.load(file)
    except (OSError, ValueError) as error:
        add_case(target, "vm", "verdict", failure=f"no verdict: {error}")
        return
    reasons = [why for why in verdict["reasons"] if "exit status" not in why]
    add_case(target, "vm", "the kernel has nothing to complain about, modules unload, no leak",
             failure="; ".join(reasons))


def cases_of(path):
    """All cases of a file; one that cannot be read is a failed case itself."""
    try:
        xml = JUnitXml.fromfile(str(path))
    except Exception as error:  # pylint: disable=broad-except
        broken = TestCase(path.name, classname="results")
        broken.result = [Error(f"not to be read: {error}")]
        return [broken]
    suites = [xml] if isinstance(xml, TestSuite) else list(xml)
    return [case for suite in suites for case in suite]


def reason(results):
    """The first line of why."""
    for result in results:
        text = (result.message or result.text or "").strip()
        if text:
            return text.splitlines()[0][:TEXT_MAX]
    return "no reason given"


def add_up(directory):
    """Print what did not pass and the sum; the exit status."""
    passed, failed, skipped = 0, [], []
    for path in sorted(pathlib.Path(directory).rglob("*.xml")):
        for case in cases_of(path):
            name = f"{case.classname}: {case.name}"
            kinds = case.result
            if any(isinstance(kind, (Failure, Error)) for kind in kinds):
                failed.append((name, reason(kinds), path))
            elif any(isinstance(kind, Skipped) for kind in kinds):
                skipped.append((name, reason(kinds), path))
            else:
                passed += 1
    for title, some in (("failed", failed), ("skipped", skipped)):
        for name, why, path in some:
            print(f"{title}: {name}: {why} ({path})")
    # A run in which no test ran has shown nothing.
    if not passed:
        failed.append(("no test ran", "", directory))
    print(f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped", flush=True)
    return 1 if failed or skipped else 0


def main():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    case = commands.add_parser("case")
    case.add_argument("file")
    case.add_argument("suite")
    case.add_argument("name")
    case.add_argument("--failure")
    case.add_argument("--skip")
    cases = commands.add_parser("cases")
    cases.add_argument("file")
    cases.add_argument("suite")
    kunit = commands.add_parser("kunit")
    kunit.add_argument("source")
    kunit.add_argument("target")
    verdict = commands.add_parser("verdict")
    verdict.add_argument("source")
    verdict.add_argument("target")
    total = commands.add_parser("sum")
    total.add_argument("directory")
    args = parser.parse_args()
    if args.command == "case":
        add_case(args.file, args.suite, args.name, args.failure, args.skip)
    elif args.command == "cases":
        for line in sys.stdin.read().splitlines():
            name, _, why = line.partition("\t")
            add_case(args.file, args.suite, name, why)
    elif args.command == "kunit":
        convert_kunit(args.source, args.target)
    elif args.command == "verdict":
        convert_verdict(args.source, args.target)
    else:
        return add_up(args.directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
