# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What every script here shares: where things are, progress, packages, cache.
# Sourced, never run. A script sources it right after `set -euo pipefail`.

IW_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
IW_CACHE=${IW_MPA2_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/iw_mpa2}
IW_JOBS=${IW_JOBS:-$(nproc)}
export IW_FLAVOURS="6.1-debian 6.1-debug"
# Progress counts from the start of the outermost script.
export IW_T0=${IW_T0:-$(date +%s)}
export IW_TOP IW_CACHE
export LC_ALL=C.UTF-8

# The Debian interpreter, also where another python3 comes first in PATH.
export IW_PYTHON=/usr/bin/python3

elapsed() {
    local s=$(($(date +%s) - IW_T0))
    printf '%d:%02d' $((s / 60)) $((s % 60))
}

# say TEXT: one progress line, with the time since the outermost script began.
say() {
    printf '[%6s] %s\n' "$(elapsed)" "$*" >&2
}

# die TEXT [ADVICE]: what went wrong, and what to do about it.
die() {
    printf '%s: error: %s\n' "${0##*/}" "$1" >&2
    [ -z "${2:-}" ] || printf '%s: advice: %s\n' "${0##*/}" "$2" >&2
    exit 1
}

# core_fuzz_targets: the names of the core's fuzz targets; CMakeLists.txt has the list.
core_fuzz_targets() {
    sed -n 's/^set(TARGETS \(.*\))$/\1/p' "$IW_TOP/userspace-tests/core/CMakeLists.txt"
}

# quietly LABEL LOG COMMAND...: run with the output in LOG; a line every 15 s
# while it lasts; the end of LOG is shown when it fails.
quietly() {
    local label=$1 log=$2 t0 rc=0 pid beat=0
    shift 2
    mkdir -p "$(dirname "$log")"
    t0=$(date +%s)
    say "$label ..."
    "$@" >"$log" 2>&1 </dev/null &
    pid=$!
    while kill -0 "$pid" 2>/dev/null; do
        # Wakes at once when the command ends, else after a second.
        timeout 1 tail --pid="$pid" -s 0.2 -f /dev/null >/dev/null 2>&1 || :
        beat=$((beat + 1))
        if [ $((beat % 15)) -eq 0 ]; then
            say "  still: $label, $(($(date +%s) - t0)) s"
        fi
    done
    wait "$pid" || rc=$?
    if [ "$rc" -ne 0 ]; then
        say "$label: FAILED, exit $rc, after $(($(date +%s) - t0)) s; the end of $log:"
        tail -n 25 "$log" | sed 's/^/    /' >&2
        return "$rc"
    fi
    say "$label: done in $(($(date +%s) - t0)) s"
}

have_package() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

package_version() {
    dpkg-query -W -f='${Version}' "$1" 2>/dev/null
}

# Refresh the package lists, at most once per outermost script.
apt_refresh() {
    local mark="$IW_CACHE/log/apt-update.$IW_T0"

    [ ! -e "$mark" ] || return 0
    quietly "refreshing the package lists" "$IW_CACHE/log/apt-update.log" \
        apt-get -q -o DPkg::Lock::Timeout=300 update
    rm -f "$IW_CACHE"/log/apt-update.[0-9]*
    : >"$mark"
}

apt_install() {
    DEBIAN_FRONTEND=noninteractive apt-get -y -q --no-install-recommends \
        -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 install "$@"
}

# need_packages NAME...: install what is missing, and only that.
need_packages() {
    local p missing=()

    for p in "$@"; do
        have_package "$p" || missing+=("$p")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    [ "$(id -u)" -eq 0 ] || die "packages are missing: ${missing[*]}" \
        "install them, or run this as root"
    mkdir -p "$IW_CACHE/log"
    (
        flock 9
        apt-cache show "${missing[@]}" >/dev/null 2>&1 || apt_refresh
        if ! quietly "installing ${missing[*]}" "$IW_CACHE/log/apt-install.log" \
            apt_install "${missing[@]}"; then
            # Lists that are too old name files which the mirror has dropped.
            apt_refresh
            quietly "installing ${missing[*]} (second try)" \
                "$IW_CACHE/log/apt-install.log" apt_install "${missing[@]}"
        fi
    ) 9>"$IW_CACHE/lock.apt" || die "cannot install: ${missing[*]}" \
        "see $IW_CACHE/log/apt-install.log"
}

# hash_of TEXT...: a short key for a cache directory.
hash_of() {
    printf '%s\n' "$@" | sha256sum | cut -c1-12
}

# cached DIR COMMAND...: make DIR once. COMMAND is called with DIR as its last
# argument and may find there what an interrupted call left behind. Of several
# callers one makes it and the others wait.
cached() {
    local dir=$1 fd waited=0
    shift
    [ ! -e "$dir/.complete" ] || return 0
    mkdir -p "$dir"
    exec {fd}>"$dir.lock"
    until flock -w 15 "$fd"; do
        waited=$((waited + 15))
        say "  waiting for another run that makes ${dir##*/}, $waited s"
    done
    if [ ! -e "$dir/.complete" ]; then
        "$@" "$dir"
        : >"$dir/.complete"
    fi
    exec {fd}>&-
}
