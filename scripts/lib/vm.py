# SPDX-License-Identifier: GPL-2.0
"""Boot one virtual machine, run one command in it, and judge the run.

Called by scripts/vm, which has prepared everything that is named here.
"""

import argparse
import fcntl
import os
import shlex
import subprocess
import sys
import time

from verdict import Verdict

# After the command the guest unloads modules and looks for leaks.
GRACE_S = 600
HEARTBEAT_S = 20
KVM_GET_API_VERSION = 0xAE00
KVM_CREATE_VM = 0xAE01


def has_virtualization():
    """Whether the processor can do it. A host without may still offer /dev/kvm
    and then interpret every instruction, far slower than QEMU translates."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = next((line for line in file if line.startswith("flags")), "")
    return bool({"vmx", "svm"} & set(flags.split()))


def kvm_usable():
    """Whether the host can run the guest's code on its own processor."""
    if not has_virtualization():
        return False
    try:
        with open("/dev/kvm", "rb+", buffering=0) as kvm:
            if fcntl.ioctl(kvm, KVM_GET_API_VERSION) != 12:
                return False
            os.close(fcntl.ioctl(kvm, KVM_CREATE_VM, 0))
            return True
    except OSError:
        return False


def accelerator(emulated):
    """QEMU's options for it."""
    if emulated:
        return ["-accel", "tcg,thread=multi", "-cpu", "max"]
    return ["-accel", "kvm", "-cpu", "host"]


def kernel_command_line(flavour, interactive, emulated):
    """What the guest's kernel is told."""
    words = [
        "console=ttyS0", "loglevel=5", "rdinit=/init", "panic=-1", "oops=panic",
        "random.trust_cpu=on", "log_buf_len=8M", "printk.devkmsg=on", "audit=0",
        # Seconds without progress before a CPU counts as stuck. An emulated
        # one shares the host's with others.
        "watchdog_thresh=30", "rcupdate.rcu_cpu_stall_timeout=60",
        # Or each trace event that is switched patches the scheduler, and an
        # emulated processor that is just there may never come out of it.
        "trace_options=norecord-cmd",
    ]
    if emulated:
        # The guest finds the emulated counters unsynchronized, which they are
        # not, and then asks the HPET for the time: a third of all its cycles.
        words += ["tsc=reliable", "clocksource=tsc"]
    if flavour.endswith("-debian"):
        words.append("apparmor=0")
    else:
        words.append("kunit.enable=1")
    if interactive:
        words.append("quiet")
    return " ".join(words)


class Machine:
    """One virtual machine and the directory where its traces stay."""

    def __init__(self, args):
        self.args = args
        self.log = args.log
        self.process = None
        self.output_seen = 0

    def path(self, name):
        """A file of this run."""
        return os.path.join(self.log, name)

    def port(self, name, backend):
        """QEMU's options for one port."""
        return ["-chardev", f"{backend},id={name}",
                "-device", f"virtserialport,chardev={name},name={name}"]

    def command(self):
        """QEMU's command line."""
        args = self.args
        emulated = not kvm_usable()
        shared = "security_model=none,multidevs=remap"
        words = [
            "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none",
            "-no-reboot", "-machine", "q35", *accelerator(emulated),
            "-smp", str(args.smp), "-m", args.memory,
            "-kernel", args.kernel, "-initrd", os.path.join(args.image, "initramfs.cpio"),
            "-append", kernel_command_line(args.flavour, args.interactive, emulated),
            "-chardev", f"file,id=console,path={self.path('console.log')}",
            "-serial", "chardev:console",
            "-virtfs", f"local,path=/,mount_tag=hostroot,readonly=on,{shared}",
            "-virtfs", f"local,path={self.log},mount_tag=results,{shared}",
            "-device", "virtio-rng-pci",
            "-device", "virtio-serial-pci",
            *self.port("kernel", f"file,path={self.path('kernel.log')}"),
            *self.port("result", f"file,path={self.path('result.txt')}"),
        ]
        if args.interactive:
            words += ["-chardev", "stdio,id=hvc,signal=off",
                      "-device", "virtconsole,chardev=hvc"]
        else:
            words += [*self.port("output", f"file,path={self.path('output.log')}"),
                      *self.port("control", "stdio,signal=off")]
        return words

    def write_environment(self):
        """What the guest's second stage sources."""
        args = self.args
        top = os.environ["IW_TOP"]
        values = {
            "IW_TOP": top,
            "IW_CACHE": os.environ["IW_CACHE"],
            "IW_FLAVOUR": args.flavour,
            "IW_PYTHON": os.environ["IW_PYTHON"],
            "IW_RESULTS": "/run/iw_mpa2",
            "IW_MODULES": os.path.join(args.image, "modules"),
            "IW_MODULE_KO": args.module or "",
            "IW_INTERACTIVE": "1" if args.interactive else "0",
            "IW_CHECK": "0" if args.interactive else "1",
            "IW_COMMAND": shlex.join(args.command),
        }
        values.update(pair.split("=", 1) for pair in args.env)
        with open(self.path(".environment"), "w", encoding="utf-8") as file:
            for name, value in values.items():
                file.write(f"export {name}={shlex.quote(value)}\n")
        with open(self.path(".stage2"), "w", encoding="utf-8") as file:
            file.write(f"{top}/scripts/guest/run\n")

    def start(self):
        """Begin."""
        self.write_environment()
        with open(self.path("qemu.log"), "w", encoding="utf-8") as log:
            log.write(shlex.join(self.command()) + "\n")
            log.flush()
            self.process = subprocess.Popen(
                self.command(), stderr=log,
                stdin=None if self.args.interactive else subprocess.PIPE,
                stdout=None if self.args.interactive else subprocess.DEVNULL)

    def show_output(self):
        """Pass on what the command has printed since the last call."""
        try:
            with open(self.path("output.log"), "rb") as file:
                file.seek(self.output_seen)
                new = file.read()
        except FileNotFoundError:
            return False
        self.output_seen += len(new)
        sys.stdout.buffer.write(new)
        sys.stdout.buffer.flush()
        return bool(new)

    def has_fact(self, name):
        """Whether the guest has reported this much."""
        try:
            with open(self.path("result.txt"), encoding="utf-8") as file:
                return any(line.split(" ")[0].strip() == name for line in file)
        except FileNotFoundError:
            return False

    def wait(self):
        """Until the machine ends or its time is over; whether it is over."""
        start = last_word = time.monotonic()
        limit = start + self.args.timeout
        command_over = False
        while True:
            try:
                self.process.wait(0.2)
                self.show_output()
                return False
            except subprocess.TimeoutExpired:
                pass
            now = time.monotonic()
            if self.show_output():
                last_word = now
            if not command_over and self.has_fact("exit"):
                command_over = True
                limit = now + GRACE_S
            if now > limit:
                return True
            if now - last_word > HEARTBEAT_S:
                last_word = now
                what = "checking the kernel after the command" if command_over else \
                    "the command runs in the virtual machine"
                print(f"  still: {what}, {now - start:.0f} s", file=sys.stderr, flush=True)

    def dump_tasks(self):
        """Ask a guest that hangs where it hangs; it may not answer."""
        try:
            self.process.stdin.write(b"dump\n")
            self.process.stdin.flush()
        except OSError:
            return
        size = 0
        for _ in range(30):
            try:
                self.process.wait(1)
                return
            except subprocess.TimeoutExpired:
                pass
            now = os.path.getsize(self.path("kernel.log"))
            if now == size:
                return
            size = now

    def stop(self):
        """End the machine that was started here, whatever it is doing."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def parse(argv):
    """Command line; scripts/vm has the one for people."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flavour", required=True)
    parser.add_argument("--kernel", required=True)
    parser.add_argument("--image", required=True)
    parser.add_argument("--log", required=True)
    parser.add_argument("--module")
    parser.add_argument("--memory", default="2G")
    parser.add_argument("--smp", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=600)
    parser.add_argument("--env", action="append", default=[])
    parser.add_argument("--interactive", action="store_true")
    parser.add_argument("--no-kernel-verdict", action="store_true")
    parser.add_argument("--allocations-fail", action="store_true")
    parser.add_argument("command", nargs="+")
    return parser.parse_args(argv)


def report(verdict, log, seconds):
    """The verdict, for a person and for scripts."""
    with open(os.path.join(log, "verdict.json"), "w", encoding="utf-8") as file:
        file.write(verdict.as_json() + "\n")
    for reason in verdict.reasons:
        print(f"verdict: {reason}", file=sys.stderr)
    if not verdict.kernel_counts:
        for finding in verdict.kernel:
            print(f"not counted: {finding}", file=sys.stderr)
    word = "FAILED" if verdict.reasons else "passed"
    print(f"verdict: {word} in {seconds:.0f} s, log in {log}", file=sys.stderr, flush=True)


def main():
    """Run it."""
    args = parse(sys.argv[1:])
    os.makedirs(args.log, exist_ok=True)
    for name in ("console.log", "kernel.log", "kernel-end.log", "result.txt", "output.log", "kmemleak.txt",
                 "verdict.json"):
        if os.path.exists(os.path.join(args.log, name)):
            os.unlink(os.path.join(args.log, name))
    machine = Machine(args)
    begun = time.monotonic()
    machine.start()
    timed_out = False
    try:
        if args.interactive:
            machine.process.wait()
        else:
            timed_out = machine.wait()
            if timed_out:
                machine.dump_tasks()
    finally:
        machine.stop()
    if args.interactive:
        return 0
    verdict = Verdict(args.log, timed_out, not args.no_kernel_verdict, args.allocations_fail)
    report(verdict, args.log, time.monotonic() - begun)
    return verdict.exit_status


if __name__ == "__main__":
    sys.exit(main())
