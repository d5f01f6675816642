#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A program that traces a part of itself (sonde/trace.h), linked with libsonde.a and libsonde.so: what
it prints and what it saves is exact, and says the same."""
import collections
import subprocess

from helpers import (
    INCLUDE, LINK_SHARED, LINK_STATIC, compile_c, fresh, needs, needs_plain_build, nothing_missing, output_of,
    report, run_cases)
from shared.calls import trace_source

FIB5 = {"fib": 1, "fib/fib": 2, "fib/fib/fib": 4, "fib/fib/fib/fib": 6, "fib/fib/fib/fib/fib": 2}


def expected_paths():
    paths = collections.Counter()
    for prefix, regions in ("region", 10), ("thread/region", 3):
        paths[prefix] = paths[prefix + "/outer"] = 1
        paths[prefix + "/outer/inner"] = regions
        for path, count in FIB5.items():
            paths[f"{prefix}/outer/inner/{path}"] = count * regions
    paths["thread"] = 1
    paths.update({"fib": 1, "fib/fib": 2, "fib/fib/fib": 4, "fib/fib/fib/fib": 2})
    return paths


def printed_paths(text):
    paths, stack = collections.Counter(), []
    for line in text.splitlines()[1:]:
        words = line[:72].split()
        name, depth = line[74:].strip(), (len(line[74:]) - len(line[74:].lstrip())) // 2
        stack = stack[:depth] + [name.split("(")[0]]
        paths["/".join(stack)] += int(words[2])
        assert int(words[0]) >= int(words[1]) and int(words[4]) <= int(words[3]) <= int(words[5]), line
    return paths


def saved_paths(path):
    told = report(path, "trace")
    names, paths, times = {0: ()}, collections.Counter(), collections.Counter()
    for node in told["trace"]["nodes"]:
        names[node["node"]] = names[node["parent"]] + (node["function"].split("(")[0],)
        paths["/".join(names[node["node"]])] += node["calls"]
        times["/".join(names[node["node"]])] += node["total_ns"]
    nothing_missing(told)
    assert told["trace"]["lost"] == told["trace"]["unmatched"] == told["trace"]["left"] == 0, told["trace"]
    return paths, times


LINK = {"a": LINK_STATIC, "so": LINK_SHARED}


def try_it(compiler, library, how="-finstrument-functions"):
    path = fresh()
    compiler, *options = compiler.split()
    program = compile_c(trace_source("region.c"), *options, how, "-g", "-w", "-pthread", INCLUDE, *LINK[library],
                        compiler=compiler)
    done = subprocess.run([program, path], capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, (compiler, library, done)
    want = expected_paths()
    saved, times = saved_paths(path)
    assert saved == want, (compiler, library, saved - want, want - saved)
    text = output_of("c++filt", input=done.stdout)
    printed = printed_paths(text)  # inside, names are as the symbol table has them
    # What takes less than a ten-thousandth of the whole is not printed; the rest is the same.
    assert all(want[p] == n for p, n in printed.items()), (compiler, library, printed - want)
    assert int(done.stderr) == len(text.splitlines()), done
    # A path is printed under one that is, and the whole is what nothing called; a microsecond for rounding.
    whole = sum(time for path, time in times.items() if "/" not in path)
    missing = {p: t for p, t in times.items() if t > whole / 10000 + 1000 and p not in printed}
    assert not missing and printed["region"] == 1, (compiler, library, whole, missing, printed)


def _case_of(compiler, *how):
    def case():
        needs(compiler.split()[0])
        for library in LINK:
            try_it(compiler, library, *how)
    case.__name__ = "_".join([compiler, *how]).replace(" ", "_")
    return case


def imports_by_pattern():
    """A program that was not compiled for it traces its imports (sonde_trace_calls)."""
    for library in LINK:
        path = fresh()
        program = compile_c(trace_source("own_calls.c"), "-O2", "-pthread", INCLUDE, *LINK[library], compiler="gcc")
        done = subprocess.run([program, path], capture_output=True, text=True, timeout=150, check=False)
        assert done.returncode == 0, done
        saved, _ = saved_paths(path)
        assert saved == {"getppid": 7, "strtol": 7}, saved


needs_plain_build()
run_cases([*map(_case_of, ("gcc -O0", "gcc -O2", "g++ -O2", "clang -O1", "clang++ -O2")),
           _case_of("gcc -O0", "-fpatchable-function-entry=5"), imports_by_pattern])
