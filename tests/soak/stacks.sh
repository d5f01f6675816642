#!/bin/sh
# SPDX-License-Identifier: MIT
# Stacks beside gdb's: fifty snapshots of each program, and every instruction of the programs that step themselves.
set -e
cd "$(dirname "$0")/../.."
export SONDE_SOURCE="$PWD" SONDE_FIXTURES="${SONDE_FIXTURES:-$PWD/build-test/tests/fixtures}"
SONDE_SNAPSHOTS="${SONDE_SNAPSHOTS:-50}" python3 tests/real/stacks_vs_gdb.py
STEPS_MAX=1000000 python3 tests/real/steps.py
