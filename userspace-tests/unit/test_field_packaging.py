# SPDX-License-Identifier: GPL-2.0
"""Cases from the field: kernels and hosts that the module is not for."""

import os
import pathlib
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]

# As much of a kernel's Makefile as an external module sees.
KERNEL = """VERSION = {version}
PATCHLEVEL = {patchlevel}
src := $(M)
srctree := .
include $(M)/Kbuild
modules:
	@echo would build $(obj-m)
"""


def run(*words, **environment):
    return subprocess.run(words, check=False, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env=os.environ | environment)


@pytest.mark.parametrize("release", ["4.19.0-27-amd64", "5.10.0-32-amd64", "6.12.0-1-amd64",
                                     "16.1.0", "6.10.3"])
def test_fr91_an_unsupported_release_is_one_line(release):
    for script in ("build-module", "build-siw"):
        result = run(str(TOP / f"scripts/{script}"), release)
        assert result.returncode == 1
        assert result.stdout == (f"{script}: error: kernel {release} is not supported: "
                                 "iw_mpa2 is for 6.1\n")


@pytest.mark.parametrize("version,patchlevel,fits", [(5, 10, False), (6, 10, False),
                                                     (7, 2, False), (6, 1, True)])
def test_fr91_an_unsupported_tree_is_one_line(tmp_path, version, patchlevel, fits):
    """Also for who builds by Kbuild alone: before any compiler runs."""
    (tmp_path / "Makefile").write_text(KERNEL.format(version=version, patchlevel=patchlevel))
    result = run("make", "-s", "--no-print-directory", "-C", str(tmp_path), f"M={TOP}",
                 "modules")
    if fits:
        assert result.returncode == 0 and result.stdout == "would build iw_mpa2.o\n"
    else:
        [line] = result.stdout.splitlines()
        assert result.returncode == 2
        assert line.endswith(f"kernel {version}.{patchlevel} is not supported: "
                             "iw_mpa2 is for 6.1.  Stop.")


def check_host(release="6.1.0-57-amd64", **environment):
    result = run(str(TOP / "scripts/check-host"), release, **environment)
    assert result.returncode == bool(result.stdout)
    return result.stdout.splitlines()


@pytest.fixture(name="commands")
def fixture_commands(tmp_path):
    """A PATH with an rdma of one's own: commands(what it prints), or none."""
    for name in ("bash", "dirname", "nproc", "date", "uname", "cut", "sed", "sort"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")

    def make(rdma=None):
        if rdma is not None:
            (tmp_path / "rdma").write_text(f"#!/usr/bin/bash\necho '{rdma}'\n")
            (tmp_path / "rdma").chmod(0o755)
        return str(tmp_path)

    return make


def test_fr92_a_good_host_lacks_nothing():
    assert not check_host()


def test_fr92_what_is_missing_is_named(tmp_path, commands):
    """An old iproute2, none at all, rdma-core without its drivers, another kernel."""
    assert check_host("5.10.0-32-amd64") == [
        "kernel 5.10.0-32-amd64 is not supported: iw_mpa2 is for 6.1"]
    assert check_host(LIBIBVERBS_CONF=str(tmp_path)) == [
        "libibverbs has no driver for siw: install the providers of rdma-core, 44 or later"]
    assert check_host(PATH=commands()) == [
        "no rdma command: install iproute2, 6.1 or later"]


def test_fr92_an_old_iproute2_is_named(commands):
    assert not check_host(PATH=commands("rdma utility, iproute2-6.10.0"))
    assert check_host(PATH=commands("rdma utility, iproute2-4.20.0")) == [
        "iproute2 is 4.20.0: install 6.1 or later, nothing older was tried"]


def test_fr92_readme_has_the_versions():
    """As the check has them."""
    text = " ".join((TOP / "README.md").read_text().split())
    assert "kernel 6.1, iproute2 6.1 (for `rdma link add`), rdma-core 44" in text
