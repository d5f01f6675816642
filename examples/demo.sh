#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The main job in a minute: starts python3 with threads at work and shows every thread's stack.
# Called by ./run demo, from the root of the project.
set -eu
# The system's own python3 is the one whose debug files the system has.
python=/usr/bin/python3
[ -x $python ] || python=$(command -v python3)

out=$(mktemp)
"$python" examples/busy.py >"$out" &
target=$!
trap 'kill $target 2>/dev/null; rm -f "$out"' EXIT
for _ in 1 2 3 4 5 6 7 8 9 10; do
  grep -q ready "$out" && break
  sleep 0.5
done
grep -q ready "$out" || { echo "demo: $python did not start" >&2; exit 2; }

printf '$ build/bin/sonde stacks %s        # %s, five threads at work\n\n' "$target" "$python"
build/bin/sonde stacks "$target"
