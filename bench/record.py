#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What recording every malloc and free costs, beside heaptrack -r, which takes stacks of allocations
only. Pairs of a plain and a recorded run, in turn; medians.

usage: bench/record.py [ROUNDS]      after a build"""
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SONDE = os.path.join(os.environ.get("SONDE_BUILD", os.path.join(ROOT, "build")), "bin", "sonde")
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
SQL = ("create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where "
       "x<1000000) insert into t select x, hex(x) from c; create index i on t(b); "
       "select count(*),sum(a) from t where b>'3';")
PYTHON = ("import json; d=[{'a':i,'b':str(i)*3} for i in range(150000)]; "
          "print(len(json.loads(json.dumps(d))))")
PERL = 'my %h; for(1..700000){$h{$_}=[$_,"x$_"]} print scalar(keys %h)'


def workloads(folder):
    python = os.path.realpath(sys.executable)
    found = {"sqlite3": ["sqlite3", ":memory:", SQL], "python3": [python, "-c", PYTHON],
             "perl": ["perl", "-e", PERL]}
    cc1 = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True).stdout
    source = os.path.join(folder, "big.c")
    with open(source, "w") as f:
        for i in range(1500):
            f.write(f"int g{i}(int a, int b) {{ int s = 0; for (int i = 0; i < a; i++) "
                    f"s += (i * {i} ^ b) % (a + {i} + 1); return s + (a > b ? g(a) : {i}); }}\n"
                    if i else "int g(int); int g0(int a) { return g(a); }\n")
    if os.path.isabs(cc1.strip()):
        found["cc1"] = [cc1.strip(), "-quiet", "-O2", source, "-o", os.devnull]
    return {n: c for n, c in found.items() if shutil.which(c[0])}


def run(command, env):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env,
                   check=True)
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def measure(name, command, folder):
    env = dict(os.environ, PYTHONMALLOC="malloc")
    path = os.path.join(folder, "x.sonde")
    tools = {"all": [SONDE, "record", "--malloc", "-o", path, "--"],
             "sample:512K": [SONDE, "record", "--malloc=sample:512K", "-o", path + "s", "--"]}
    if shutil.which("heaptrack"):
        tools["heaptrack -r"] = ["heaptrack", "-r", "-o", os.path.join(folder, "ht")]
    jemalloc = next(pathlib.Path("/usr/lib").glob("*/libjemalloc.so.2"), None)
    if jemalloc:  # its profiler as it is left on: one stack in 512 KB, another allocator besides
        tools["jemalloc prof"] = ["env", f"LD_PRELOAD={jemalloc}",
                                  f"MALLOC_CONF=prof:true,prof_final:true,prof_prefix:{folder}/je"]
    plain, got = [], {t: [] for t in tools}
    for _ in range(ROUNDS):
        plain.append(run(command, env))
        for tool, prefix in tools.items():
            for old in (o for o in prefix if o.endswith((".sonde", ".sondes"))):
                if os.path.exists(old):
                    os.unlink(old)
            got[tool].append(run(prefix + command, env))
    told = json.loads(subprocess.run([SONDE, "report", "--json", "--top", "1", path],
                                     capture_output=True, check=True).stdout)["malloc"]
    events, allocations = told["events"], told["allocated"]["blocks"]
    base_cpu, base_wall = (statistics.median(p[k] for p in plain) for k in (0, 1))
    print(f"{name}: {events} events, {told['stack_count']} stacks, "
          f"{100 * told['depth']['complete'] / max(allocations, 1):.2f} % complete, "
          f"{os.path.getsize(path) / events:.2f} bytes an event (whole file)")
    bins = {}
    for row in told["depth"]["histogram"]:
        bins[row["frames"] // 8] = bins.get(row["frames"] // 8, 0) + row["allocations"]
    print("  depth of stacks: " + ", ".join(f"{8 * b}-{8 * b + 7}: {100 * n / max(allocations, 1):.1f} %"
                                            for b, n in sorted(bins.items()) if 200 * n > allocations))
    for tool, runs in got.items():
        cpu, wall = (statistics.median(r[k] for r in runs) for k in (0, 1))
        print(f"  {tool:13} {1e9 * (cpu - base_cpu) / events:7.1f} ns CPU an event, "
              f"wall x {wall / base_wall:.2f}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        for name, command in workloads(folder).items():
            measure(name, command, folder)


main()
