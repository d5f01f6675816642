#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A program that traces a part of itself (sonde/trace.h), linked with libsonde.a and libsonde.so: what
it prints and what it saves is exact, and says the same."""
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile

SONDE, SOURCE, BUILD = (os.environ[n] for n in ("SONDE", "SONDE_SOURCE", "SONDE_BUILD"))
WORK = tempfile.TemporaryDirectory(prefix="sonde-region-")

FIB5 = {"fib": 1, "fib/fib": 2, "fib/fib/fib": 4, "fib/fib/fib/fib": 6, "fib/fib/fib/fib/fib": 2}


def expected():
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
    done = subprocess.run([SONDE, "report", "--json", path, "trace"], capture_output=True, check=True)
    told = json.loads(done.stdout)
    names, paths, times = {0: ()}, collections.Counter(), collections.Counter()
    for node in told["trace"]["nodes"]:
        names[node["node"]] = names[node["parent"]] + (node["function"].split("(")[0],)
        paths["/".join(names[node["node"]])] += node["calls"]
        times["/".join(names[node["node"]])] += node["total_ns"]
    assert not any(told["missing"].values()), told["missing"]
    assert told["trace"]["lost"] == told["trace"]["strays"] == told["trace"]["left"] == 0, told["trace"]
    return paths, times


def link_with(library):
    lib = os.path.join(BUILD, "lib")
    return [f"{lib}/libsonde.a"] if library == "a" else [f"-L{lib}", "-lsonde", f"-Wl,-rpath,{lib}"]


def try_it(compiler, library, how="-finstrument-functions"):
    program, path = (os.path.join(WORK.name, (compiler + how).replace(" ", "") + f".{library}{end}")
                     for end in ("", ".sonde"))
    link = link_with(library)
    subprocess.run([*compiler.split(), how, "-g", "-w", "-pthread",
                    f"-I{SOURCE}/include", f"{SOURCE}/tests/real/trace/region.c", "-o", program,
                    *(["-x", "none"] if "++" in compiler else []), *link], check=True)
    done = subprocess.run([program, path], capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, (compiler, library, done)
    want = expected()
    saved, times = saved_paths(path)
    assert saved == want, (compiler, library, saved - want, want - saved)
    text = subprocess.run(["c++filt"], input=done.stdout, capture_output=True, text=True, check=True)
    printed = printed_paths(text.stdout)  # inside, names are as the symbol table has them
    # What takes less than a ten-thousandth of the whole is not printed; the rest is the same.
    assert all(want[p] == n for p, n in printed.items()), (compiler, library, printed - want)
    assert int(done.stderr) == len(text.stdout.splitlines()), done
    # A path is printed under one that is, and the whole is what nothing called; a microsecond for rounding.
    whole = sum(time for path, time in times.items() if "/" not in path)
    missing = {p: t for p, t in times.items() if t > whole / 10000 + 1000 and p not in printed}
    assert not missing and printed["region"] == 1, (compiler, library, whole, missing, printed)
    print("ok", compiler, library)


def own_calls(library):
    """A program that was not compiled for it traces its imports (sonde_trace_calls)."""
    program, path = (os.path.join(WORK.name, f"own_calls.{library}{end}") for end in ("", ".sonde"))
    link = link_with(library)
    subprocess.run(["gcc", "-O2", "-pthread", f"-I{SOURCE}/include", f"{SOURCE}/tests/real/trace/own_calls.c", "-o", program,
                    *link], check=True)
    done = subprocess.run([program, path], capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done
    saved, _ = saved_paths(path)
    assert saved == {"getppid": 7, "strtol": 7}, saved
    print("ok imports by pattern", library)


def main():
    if os.environ.get("SONDE_SANITIZED"):
        print("skipped: a program without a sanitizer cannot be linked with a library that has one")
        sys.exit(77)
    for compiler in "gcc -O0", "gcc -O2", "g++ -O2 -x c++", "clang -O1", "clang++ -O2 -x c++":
        if not shutil.which(compiler.split()[0]):
            continue
        for library in "a", "so":
            try_it(compiler, library)
    for library in "a", "so":
        try_it("gcc -O0", library, "-fpatchable-function-entry=5")
        own_calls(library)


main()
