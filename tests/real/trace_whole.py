#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A whole program that nobody here wrote, SQLite from its one source file, built by gcc with patchable
entries and by clang with sleds and traced from its first call to its last: every pair of caller and
callee is told as often as the program's own hooks count it."""
import collections
import os
import pathlib
import platform
import re
import subprocess

from helpers import BUILD, WORK, fresh, needs, needs_agent, output_of, run_cases, skip
from macho.build import fetch
from shared.calls import no_call_missing, record_trace, trace_of, trace_source

PACKAGE = "better-sqlite3@12.11.1"  # brings SQLite's source
OPTIONS = ["-w", "-DSQLITE_THREADSAFE=0", "-DSQLITE_OMIT_LOAD_EXTENSION"]
BUILDS = {
    # strict: SQLite forces nothing to be inlined then, whose hooks would count what has no entry
    "gcc": ["-O0", "-std=c11", "-D_GNU_SOURCE", "-fpatchable-function-entry=5", "-finstrument-functions"],
    "clang": ["-O0", "-fxray-instrument", "-fxray-instruction-threshold=1",
              "-finstrument-functions-after-inlining"],
}
SQL = """
create table t(a integer primary key, b text, c real); create index i on t(b);
with recursive n(x) as (select 1 union all select x + 1 from n where x < 400)
  insert into t select x, 'text ' || (x * 7919 % 401), x / 3.0 from n;
select count(*), sum(a), round(avg(c), 4), min(b), max(b) from t where b like 'text 1%';
select b, group_concat(a) from (select * from t order by c desc limit 20) group by length(b);
update t set b = upper(b) where a % 3 = 0; delete from t where a % 7 = 0;
select hex(zeroblob(3)), count(distinct b), total(c) from t; select * from missing;
"""

needs_agent()
if platform.machine() != "x86_64":
    skip("the clang build's sleds are patched on x86_64 only")


def _source():
    keep = pathlib.Path(BUILD, "trace-packages")
    home = keep / PACKAGE
    keep.mkdir(parents=True, exist_ok=True)
    why = None if home.exists() else fetch(PACKAGE, keep, home)
    if why:
        skip(why)
    return next(home.rglob("sqlite3.c")).parent


def _pairs_counted(program, path):
    listed = output_of("nm", program)
    names = {int(m[1], 16): m[2] for m in re.finditer(r"^([0-9a-f]+) [tTwW] (\S+)$", listed, re.M)}
    pairs = collections.Counter()
    for line in open(path):
        count, caller, callee = line.split()
        pairs[names[int(caller, 16)] if int(caller, 16) else None, names[int(callee, 16)]] += int(count)
    return pairs


def _pairs_told(told):
    names, pairs = {0: None}, collections.Counter()
    for node in told["trace"]["nodes"]:
        names[node["node"]] = node["function"]
        if node["calls"]:
            pairs[names[node["parent"]], node["function"]] += node["calls"]
    return pairs


def _try_build(compiler):
    needs(compiler)
    program, sqlite = fresh(".program"), _source()
    shadow, said = os.path.join(WORK, "edges.o"), fresh(".txt")
    subprocess.run(["gcc", "-O2", "-c", trace_source("edges.c"), "-o", shadow], check=True)
    for source in (sqlite / "sqlite3.c", trace_source("sqlite_main.c")):
        subprocess.run([compiler, *OPTIONS, *BUILDS[compiler], f"-I{sqlite}", "-c", source, "-o",
                        f"{program}.{os.path.basename(source)}.o"], check=True, timeout=150)
    subprocess.run(["gcc", f"{program}.sqlite3.c.o", f"{program}.sqlite_main.c.o", shadow, "-lm", "-o", program],
                   check=True)
    plain = subprocess.run([program, SQL], capture_output=True, timeout=150, check=False)
    assert plain.stdout.count(b"\n") > 4 and plain.stdout.endswith(b"no such table: missing\n"), plain
    path, done = record_trace(program, SQL, env=dict(os.environ, SHADOW=said), timeout=120)
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout), done
    told = trace_of(path)
    no_call_missing(told)
    assert told["trace"]["left"] == told["trace"]["open"] == 0, told["trace"]
    found, expected = _pairs_told(told), _pairs_counted(program, said)
    assert found == expected, (compiler, found - expected, expected - found)
    assert len({callee for _, callee in found}) > 500, len(found)
    print(f"{compiler}: {told['trace']['calls']} calls, {len(found)} pairs of caller and callee")


def built_by_gcc():
    _try_build("gcc")


def built_by_clang():
    _try_build("clang")


run_cases(globals())
