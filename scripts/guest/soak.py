# SPDX-License-Identifier: GPL-2.0
"""In the virtual machine: good, bad and killed peers at the same time, while settings and
devices change; after each round everything has to be as before, and both modules go and
come back.

    soak.py SECONDS SEED
"""

import os
import pathlib
import random
import signal
import sys
import threading
import time

TOP = pathlib.Path(os.environ["IW_TOP"])
sys.path.insert(0, str(TOP / "userspace-tests/e2e"))

# pylint: disable=wrong-import-position
from conftest import PARAMETERS, RULES, TOOLS, Host, run, wait_until
from counter_sums import OUTCOMES, ROLES, counters_of, wrong_sums

ROUND_S = 25
GOOD_PORT, KILLED_PORT, EXTRA_PORT = 7301, 7302, 7303
HOSTA = Host("hosta", "siw_a", "10.77.0.1", "fd77::1")
HOSTB = Host("hostb", "siw_b", "10.77.0.2", "fd77::2")
DEVICES = HOSTA.device, HOSTB.device
# What may change under a connection that has to come up all the same.
CHOICES = {
    "crc": ("Y", "N"), "fallback": ("Y", "N"), "peer_to_peer": ("Y", "N"), "rev": ("1", "2"),
    "rtr": ("write,read,send", "read", "send,write", "read,send"), "fence": ("always", "p2p"),
    "request_timeout_ms": ("200", "1000"), "reply_timeout_ms": ("200", "1000"),
    "rtr_timeout_ms": ("200", "1000"), "close_timeout_ms": ("200", "1000"),
    "max_pending": ("8", "4096"),
}
PATIENT = {f"{step}_timeout_ms": 30000 for step in ("connect", "request", "reply", "rtr")}


class Round:
    """Everybody at work until stop() is called; who fails says so."""

    exchanges = 0    # with strangers, over all rounds

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.over = threading.Event()
        self.wrong = []
        self.done = dict.fromkeys(("good", "killed", "changes", "devices", "bad"), 0)
        self.threads = [threading.Thread(target=self._watch, args=(actor,)) for actor in
                        (self.good, self.bad, self.killed, self.changes, self.devices)]

    def _watch(self, actor):
        try:
            actor(random.Random(self.random.random()))
        except Exception as error:  # pylint: disable=broad-except
            output = getattr(error, "stdout", None) or getattr(error, "output", None) or ""
            self.wrong.append(f"{actor.__name__}: {error} {str(output)[-2000:]}")

    def start(self):
        """Begin."""
        for thread in self.threads:
            thread.start()

    def stop(self):
        """End, and wait for it."""
        self.over.set()
        for thread in self.threads:
            thread.join()

    def pause(self, some, least, most):
        """A while, or until the end of the round."""
        self.over.wait(some.uniform(least, most))

    @staticmethod
    def _listen(host, address, port):
        server = host.popen(str(TOOLS / "mpa2-cm"), "passive-first", "--listen", address,
                            "--port", str(port), "--count", "0", "--when", "accept")
        wait_until(lambda: host.listens(port), f"the listener on port {port}", timeout=30)
        return server

    def good(self, _):
        """All of them come up, whatever else happens."""
        server = self._listen(HOSTB, HOSTB.address, GOOD_PORT)
        try:
            while not self.over.is_set():
                HOSTA.run(str(TOOLS / "mpa2-cm"), "passive-first", "--connect", HOSTB.address,
                          "--port", str(GOOD_PORT), "--count", "8", "--processes", "2",
                          timeout=120)
                self.done["good"] += 8
        finally:
            end(server)

    def bad(self, some):
        """Whatever a stranger may send, in either role."""
        seed, count = str(some.getrandbits(32)), 100
        while not self.over.is_set():
            run(str(TOOLS / "wire-fuzz"), "--seed", seed, "--first", str(Round.exchanges),
                "--count", str(count), "--storm", "--scale", "10", timeout=300)
            Round.exchanges += count
            self.done["bad"] += count

    def killed(self, some):
        """Applications that die in the middle, at either end or at both."""
        while not self.over.is_set():
            server = self._listen(HOSTB, HOSTB.address6, KILLED_PORT)
            client = HOSTA.popen(str(TOOLS / "mpa2-cm"), "passive-first", "--connect",
                                 HOSTB.address6, "--port", str(KILLED_PORT), "--count",
                                 "1000", "--processes", "3")
            self.pause(some, 0.2, 2)
            for process in some.sample([server, client], 2):
                end(process)
                self.pause(some, 0, 0.2)
            self.done["killed"] += 2

    def changes(self, some):
        """Parameters, and rules that come and go."""
        made = []
        while not self.over.is_set():
            name = some.choice(sorted(CHOICES))
            (PARAMETERS / name).write_text(some.choice(CHOICES[name]))
            if made and some.random() < 0.5:
                made.pop(some.randrange(len(made))).rmdir()
            else:
                rule = RULES / f"rule{self.done['changes']}"
                rule.mkdir()
                made.append(rule)
                (rule / "priority").write_text(str(some.randrange(100, 1000)))
                (rule / "remote").write_text(some.choice(("10.77.0.0/16", "fd77::/64")))
                (rule / "model").write_text(some.choice(("peer-to-peer", "client-server")))
            self.done["changes"] += 1
            self.pause(some, 0.05, 0.4)
        for rule in made:
            rule.rmdir()

    def devices(self, some):
        """A third pair of devices comes, is used, and goes."""
        while not self.over.is_set():
            run("ip", "link", "add", "veth_c", "netns", "hosta", "type", "veth", "peer",
                "name", "veth_d", "netns", "hostb")
            for host, side, last in ((HOSTA, "c", 1), (HOSTB, "d", 2)):
                host.run("ip", "addr", "add", f"10.78.0.{last}/24", "dev", f"veth_{side}")
                host.run("ip", "link", "set", f"veth_{side}", "up")
                host.run("rdma", "link", "add", f"siw_{side}", "type", "siw", "netdev",
                         f"veth_{side}")
            make_nodes()
            HOSTA.run("ping", "-q", "-c", "2", "-i", "0.2", "10.78.0.2")
            server = self._listen(HOSTB, "10.78.0.2", EXTRA_PORT)
            client = HOSTA.popen(str(TOOLS / "mpa2-cm"), "passive-first", "--connect",
                                 "10.78.0.2", "--port", str(EXTRA_PORT), "--count", "1000")
            self.pause(some, 0.5, 3)
            end(client)
            end(server)
            for side in "cd":
                wait_until(lambda side=side: not wrong_sums(f"siw_{side}"), "the sums",
                           explain=lambda side=side: wrong_sums(f"siw_{side}"))
                run("rdma", "link", "del", f"siw_{side}", timeout=120)
            HOSTA.run("ip", "link", "del", "veth_c")
            self.done["devices"] += 1


def end(process):
    """By SIGKILL, with all that it has started."""
    children = run("pgrep", "-P", str(process.pid), check=False).stdout.split()
    process.kill()
    process.wait()
    for child in children:
        try:
            os.kill(int(child), signal.SIGKILL)
        except ProcessLookupError:
            pass


def make_nodes():
    """What udev would do."""
    for node in pathlib.Path("/sys/class/infiniband_verbs").glob("uverbs*"):
        path = pathlib.Path("/dev/infiniband") / node.name
        number = os.makedev(*map(int, (node / "dev").read_text().split(":")))
        if path.exists() and path.stat().st_rdev != number:
            path.unlink()
        if not path.exists():
            os.mknod(path, 0o20666, number)


def set_up():
    """Both modules, both hosts, and a rule for those who must come up."""
    run(str(TOP / "scripts/vm-setup-hosts"), "--module", timeout=180)
    for address in (HOSTB.address, HOSTB.address6):
        HOSTA.run("ping", "-q", "-c", "2", "-i", "0.2", address)
    for name, attribute in (("good", "remote_port"), ("good-too", "local_port")):
        (RULES / name).mkdir()
        for setting, value in {attribute: GOOD_PORT, "priority": 1, "model": "peer-to-peer",
                               "rev": 2, "rtr": "write,read,send", **PATIENT}.items():
            (RULES / name / setting).write_text(str(value))


def take_down():
    """Both modules go."""
    for name in ("good", "good-too"):
        (RULES / name).rmdir()
    run(str(TOP / "scripts/vm-setup-hosts"), "--down", timeout=180)
    for module in ("iw_mpa2", "siw"):
        wait_until(lambda module=module: not run("rmmod", module, check=False).returncode,
                   f"{module} to be unused", timeout=60)


def nothing_is_left():
    """The counters of both devices, once nothing is in progress; what is wrong."""
    for device in DEVICES:
        wait_until(lambda device=device: not counters_of(device)["handshakes_in_progress"],
                   f"{device} to be at rest", timeout=90, explain=lambda device=device:
                   {name: value for name, value in counters_of(device).items() if value})
    return [line for device in DEVICES for line in wrong_sums(device)]


def unreclaimable_kib():
    """What the kernel has allocated in small pieces and cannot give back."""
    lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
    [value] = [int(line.split()[1]) for line in lines if line.startswith("SUnreclaim:")]
    return value


def add_up(totals):
    """What the counters of both devices say to each outcome."""
    for device in DEVICES:
        counters = counters_of(device)
        for role in ROLES:
            for name in ("started",) + OUTCOMES:
                totals[role][name] = totals[role].get(name, 0) + counters[f"{name}_{role}"]


def grows(sizes):
    """Whether the second half of the rounds ended with more than the first; the first
    rounds fill caches, and the debug kernel keeps what was freed for a while.
    """
    if len(sizes) < 8:
        return False
    half = len(sizes) // 2
    early, late = sorted(sizes[2:half + 1]), sorted(sizes[half + 1:])
    return late[len(late) // 2] > early[len(early) // 2] * 1.1 + 4096


def main():
    """Rounds until the time is over."""
    limit, seed = int(sys.argv[1]), int(sys.argv[2])
    begun = time.monotonic()
    totals = {role: {} for role in ROLES}
    done, sizes, number, wrong = {}, [], 0, []
    while not wrong and (not number or time.monotonic() - begun < limit):
        number += 1
        set_up()
        work = Round(f"{seed}-{number}")
        work.start()
        left = limit - (time.monotonic() - begun)
        work.over.wait(max(10, min(ROUND_S, left)))
        work.stop()
        wrong = work.wrong + nothing_is_left()
        add_up(totals)
        take_down()
        sizes.append(unreclaimable_kib())
        for name, value in work.done.items():
            done[name] = done.get(name, 0) + value
        print(f"round {number}, {time.monotonic() - begun:.0f} s: {work.done}, "
              f"{sizes[-1]} KiB unreclaimable", flush=True)
    for role in ROLES:
        print(f"{role}: " + ", ".join(f"{name} {value}" for name, value in
                                      totals[role].items() if value))
        if not totals[role].get("established"):
            wrong.append(f"no connection as {role}")
    if grows(sizes):
        wrong.append(f"memory grows: {sizes}")
    for name, value in done.items():
        if not value:
            wrong.append(f"nothing was done: {name}")
    for line in wrong:
        print("WRONG:", line)
    print(f"seed {seed}: {number} rounds in {time.monotonic() - begun:.0f} s, {done}: "
          + ("FAILED" if wrong else "passed"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
