#!/bin/sh
# SPDX-License-Identifier: MIT
# Recording, for long: 500 kills in each of two modes; 64 threads of ordinary life, an hour (unless SONDE_SOAK_SECONDS says
# otherwise) at full speed in recordings of ten seconds, and an hour with pauses in one recording of some 8 GB; logs begun and
# ended while threads allocate; every verb on packed recordings; real programs.
set -e
cd "$(dirname "$0")/../.."
export SONDE_SOURCE="$PWD" SONDE_KILLS="${SONDE_KILLS:-500}"
export SONDE_STRESS="${SONDE_SOAK_SECONDS:-3600} 64" SONDE_LOG_ROUNDS="${SONDE_LOG_ROUNDS:-500}"
python3 tests/real/record.py a_kill
python3 tests/real/ctl.py a_kill_leaves_what_was_live
python3 tests/real/record.py ordinary
python3 tests/real/record.py a_long_life
python3 tests/real/log.py it_begins_and_ends_while_threads_allocate
SONDE_SHAPES=all python3 tests/real/trace.py the_call_graph
SOAK=1 python3 tests/real/pack.py all_verbs
python3 tests/real/programs.py
SONDE_PYTHONS=all SONDE_GIL_LOOKS=500 python3 tests/real/python_gil.py
