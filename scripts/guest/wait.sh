# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Waiting in the virtual machine for what no event tells. Sourced.

# wait_for SECONDS WHAT COMMAND...: until COMMAND succeeds; after so many seconds
# say what was waited for, and fail.
wait_for() {
    local what=$2 end=$((SECONDS + $1))
    shift 2
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || {
            echo "${0##*/}: waited in vain for $what" >&2
            return 1
        }
        read -rt 0.05 <> <(:) || :
    done
}
