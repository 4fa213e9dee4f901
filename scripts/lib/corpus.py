# SPDX-License-Identifier: GPL-2.0
"""Corpora of the fuzz targets as text: a line of hexadecimal digits per input.

    corpus.py pack DIRECTORY FILE      what libFuzzer has kept, into the repository
    corpus.py unpack FILE DIRECTORY    and back
"""

import argparse
import hashlib
import pathlib

HEADER = "# SPDX-License-Identifier: GPL-2.0\n# Inputs of a fuzz target, by scripts/fuzz-core --keep\n"


def pack(directory, file):
    """Sorted, so that a change of the corpus is a small change of the file."""
    inputs = {path.read_bytes() for path in directory.iterdir()}
    lines = sorted((data.hex() for data in inputs if data), key=lambda line: (len(line), line))
    file.write_text(HEADER + "".join(line + "\n" for line in lines), encoding="ascii")


def unpack(file, directory):
    """Under the names that libFuzzer gives."""
    directory.mkdir(parents=True, exist_ok=True)
    for line in file.read_text(encoding="ascii").splitlines():
        if line and not line.startswith("#"):
            data = bytes.fromhex(line)
            (directory / hashlib.sha1(data).hexdigest()).write_bytes(data)


def main():
    """One or the other."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for function, first, second in (pack, "directory", "file"), (unpack, "file", "directory"):
        command = commands.add_parser(function.__name__)
        command.add_argument(first, type=pathlib.Path)
        command.add_argument(second, type=pathlib.Path)
        command.set_defaults(function=function)
    args = parser.parse_args()
    if args.function is pack:
        pack(args.directory, args.file)
    else:
        unpack(args.file, args.directory)


if __name__ == "__main__":
    main()
