# SPDX-License-Identifier: GPL-2.0
"""The sums that a device's counters obey, for each role:

    started = established + rejected + failed, by cause + in progress
"""

import pathlib

ROLES = ("initiator", "responder")
OUTCOMES = ("established", "rejected", "failed_connect", "failed_timeout", "failed_closed",
            "failed_reset", "failed_malformed", "failed_refused", "failed_negotiation",
            "failed_terminated", "failed_aborted", "failed_local")


def counters_of(device):
    """All of its counters by name; {} where iw_mpa2 does not have the device."""
    port = pathlib.Path("/sys/class/infiniband") / device / "ports/1"
    for name in ("hw_counters", "iw_mpa2_counters"):
        if (port / name / "started_initiator").exists():
            return {path.name: int(path.read_text()) for path in (port / name).iterdir()
                    if path.name != "lifespan"}
    return {}


def wrong_sums(device):
    """One line for each sum that does not hold at this moment."""
    counters = counters_of(device)
    lines = []
    for role in ROLES if counters else ():
        parts = {name: counters[f"{name}_{role}"] for name in OUTCOMES + ("in_progress",)}
        if counters[f"started_{role}"] != sum(parts.values()):
            some = ", ".join(f"{name} {value}" for name, value in parts.items() if value)
            lines.append(f"{device}: {counters[f'started_{role}']} started as {role}, "
                         f"but {some or 'nothing of them'}")
    return lines
