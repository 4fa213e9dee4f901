# SPDX-License-Identifier: GPL-2.0
"""In the virtual machine: the data path without and with iw_mpa2, by turns."""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

TOP = os.environ["IW_TOP"]
RESULTS = pathlib.Path(os.environ["IW_RESULTS"])
ADDRESS = "10.77.0.2"

# name: (command, column of the result line, unit)
TOOLS = {
    "ib_send_lat": (["ib_send_lat", "-R", "-F", "-n", "500", "-s", "64"], 4, "us typical"),
    "ib_write_bw": (["ib_write_bw", "-R", "-F", "-n", "200", "-s", "65536"], 3, "MB/s average"),
}


def on(host, *words):
    """A command line that runs on a host."""
    return ["ip", "netns", "exec", host, *words]


def listens(port):
    """Whether hostb listens."""
    shown = subprocess.run(on("hostb", "ss", "-Htln", f"sport = :{port}"), check=True,
                           capture_output=True, text=True)
    return bool(shown.stdout)


def one(tool, port):
    """One run; its figure."""
    words, column, _ = TOOLS[tool]
    words = words + ["-p", str(port)]
    with open(RESULTS / "server.log", "w", encoding="utf-8") as log, \
            subprocess.Popen(on("hostb", *words, "-d", "siw_b"), stdout=log,
                             stderr=log) as server:
        end = time.monotonic() + 20
        while not listens(port):
            assert time.monotonic() < end and server.poll() is None, \
                f"{tool} does not listen, see server.log"
            time.sleep(0.02)
        client = subprocess.run(on("hosta", *words, "-d", "siw_a", ADDRESS), check=True, timeout=60,
                                capture_output=True, text=True)
        server.wait(timeout=60)
    lines = [line.split() for line in client.stdout.splitlines()]
    return float(next(line for line in reversed(lines) if line and line[0].isdigit())[column])


def module(with_it):
    """Load or unload."""
    subprocess.run(["modprobe", "iw_mpa2"] if with_it else ["rmmod", "iw_mpa2"], check=True)


def spread(values):
    """Median and quartiles."""
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:9.1f} [{low:.1f} .. {high:.1f}]"


def main():
    """Measure and print."""
    rounds = int(sys.argv[1])
    subprocess.run([f"{TOP}/scripts/vm-setup-hosts"], check=True)
    subprocess.run(on("hosta", "ping", "-q", "-c", "2", "-i", "0.2", ADDRESS), check=True,
                   stdout=subprocess.DEVNULL)
    found = {tool: {False: [], True: []} for tool in TOOLS}
    port = 18600
    for number in range(rounds):
        # The order changes, so that a drift favours neither.
        for with_it in ((False, True), (True, False))[number % 2]:
            if with_it:
                module(True)
            for tool in TOOLS:
                port += 1
                found[tool][with_it].append(one(tool, port))
            if with_it:
                module(False)
        print(f"round {number + 1} of {rounds}", flush=True)
    (RESULTS / "data-path.json").write_text(json.dumps(
        {tool: {"stock": values[False], "iw_mpa2": values[True]}
         for tool, values in found.items()}), encoding="utf-8")
    print(f"\nmedian [quartiles] of {rounds} runs each, by turns in one boot")
    print(f"{'':<14}{'unit':<14}{'stock siw':<28}{'with iw_mpa2':<28}ratio of medians")
    for tool, values in found.items():
        ratio = statistics.median(values[True]) / statistics.median(values[False])
        print(f"{tool:<14}{TOOLS[tool][2]:<14}{spread(values[False]):<28}"
              f"{spread(values[True]):<28}{ratio:.3f}")


if __name__ == "__main__":
    main()
