#!/bin/sh
# SPDX-License-Identifier: MIT
# The whole corpus of stalls at three thresholds, several rounds of it, with other durations and
# phases each time; and the situations that must raise no alarm.
set -e
root=$(cd "$(dirname "$0")/../.." && pwd)
export SONDE="${SONDE:-$root/build-test/bin/sonde}" SONDE_SOURCE="$root" SONDE_ROUNDS="${SONDE_ROUNDS:-10}"
SONDE_SPINNERS=20 python3 "$root/tests/real/stall_alarms.py"
python3 "$root/tests/real/stalls.py"
