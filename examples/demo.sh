#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The main job in a minute: starts python3 with threads at work and shows every thread's stack, then
# records all that a sqlite3, or else a python3, allocates, and reports it.
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

recording=$(mktemp -u).sonde
trap 'kill $target 2>/dev/null; rm -f "$out" "$recording"' EXIT
if command -v sqlite3 >/dev/null; then
  set -- sqlite3 :memory: "create table t(a, b); with recursive c(x) as (select 1 union all
    select x + 1 from c where x < 100000) insert into t select x, hex(x) from c;
    create index i on t(b); select count(*) || ' rows' from t where b > '3';"
else
  set -- "$python" -c "import json; print(len(json.loads(json.dumps([str(i) for i in range(99999)]))))"
fi
printf '\n$ build/bin/sonde record --malloc --sample -- %s …      # every malloc and free, CPU time\n\n' "$1"
build/bin/sonde record --malloc --sample -o "$recording" -- "$@"
printf '\n$ build/bin/sonde report --top 3 %s\n\n' "$recording"
build/bin/sonde report --top 3 "$recording"
