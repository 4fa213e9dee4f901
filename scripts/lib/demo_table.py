# SPDX-License-Identifier: GPL-2.0
"""The table of the demo: demo_table.py NAME FILE [NAME FILE...]"""

import json
import sys


def summary(path):
    """What an initiator of mpa2-cm passive-first said last."""
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return next(line for line in reversed(lines) if line["event"] == "SUMMARY")


def main():
    """Print it."""
    words = sys.argv[1:]
    print(f"{'':<14}{'up':>6}{'failed':>8}{'median time to ESTABLISHED':>30}")
    for name, path in zip(words[::2], words[1::2]):
        result = summary(path)
        median = f"{result['median_ms']:.1f} ms" if "median_ms" in result else "-"
        print(f"{name:<14}{result['up']:>6}{result['failed']:>8}{median:>30}")


if __name__ == "__main__":
    main()
