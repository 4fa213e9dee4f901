# SPDX-License-Identifier: GPL-2.0
"""Run rdma-core's own rdmacm tests over a siw device: pyverbs_rdmacm.py DEVICE NETDEV TEST...

They come with Debian's python3-pyverbs, packed. They find a device's interface
through its PCI parent, which siw has not, so that one function is given the
answer. Prints one JSON object: test -> "ok", "skipped", or the last line of why not.
"""

import gzip
import json
import pathlib
import sys
import tempfile
import unittest

SOURCE = pathlib.Path("/usr/share/doc/rdma-core/tests")


def unpack(target):
    """The test package as Python wants it."""
    target.mkdir()
    for file in SOURCE.iterdir():
        octets = file.read_bytes()
        if file.suffix == ".gz":
            octets = gzip.decompress(octets)
        (target / file.name.removesuffix(".gz")).write_bytes(octets)


class Outcomes(unittest.TestResult):
    """Which test ended how."""

    def __init__(self):
        super().__init__()
        self.found = {}

    def note(self, test, outcome):
        """Take one result."""
        self.found[test.id().rsplit(".", 1)[-1]] = outcome

    def addSuccess(self, test):
        self.note(test, "ok")

    def addSkip(self, test, reason):
        self.note(test, f"skipped: {reason}")

    def addError(self, test, err):
        self.note(test, f"error: {err[1]}".splitlines()[0])

    addFailure = addError


def main():
    """Run them."""
    device, netdev, *wanted = sys.argv[1:]
    with tempfile.TemporaryDirectory() as place:
        unpack(pathlib.Path(place) / "tests")
        sys.path[:0] = [place, f"{place}/tests"]
        from args_parser import parser  # pylint: disable=import-error
        parser.args = {"dev": device, "port": 1, "gid": 0}
        from tests import base, test_rdmacm  # pylint: disable=import-error,no-name-in-module
        base.RDMATestCase._get_ip_mac = lambda case, dev, port, index: case.args.append(
            [dev, port, index, *case.get_ip_mac_address(netdev)])
        outcomes = Outcomes()
        for name in wanted:
            test_rdmacm.CMTestCase(f"test_rdmacm_{name}").run(outcomes)
    print(json.dumps(outcomes.found))


if __name__ == "__main__":
    main()
