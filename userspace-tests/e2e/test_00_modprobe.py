# SPDX-License-Identifier: GPL-2.0
"""Loading from nothing, in both orders, before anything else uses the modules."""

import os

import pytest

from conftest import run


def present(module):
    return os.path.exists(f"/sys/module/{module}")


@pytest.mark.parametrize("first", ["siw", "iw_mpa2"])
def test_both_modprobe_orders_from_nothing(first):
    """Within a time limit: two modprobes that wait for each other would not end."""
    run("modprobe", "-q", "crc32c_generic", check=False)
    assert not present("siw") and not present("iw_mpa2")
    run("modprobe", first, timeout=20)
    run("modprobe", "iw_mpa2", timeout=20)
    assert present("siw") and present("iw_mpa2")
    run("rmmod", "iw_mpa2", "siw", timeout=20)
    for module in ("iw_cm", "ib_core"):
        run("rmmod", module, check=False)


def test_siw_is_pinned_while_we_are_loaded():
    """Its addresses are ours: it cannot go before us."""
    run("modprobe", "iw_mpa2", timeout=20)
    assert run("rmmod", "siw", check=False).returncode != 0
    run("rmmod", "iw_mpa2", "siw", timeout=20)
