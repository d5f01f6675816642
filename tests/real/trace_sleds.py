#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""XRay sleds of clang's, patched by sonde: the calls are those that the program's own hooks count, the
code is unchanged while tracing is off, and patches come and go under running threads."""
import collections
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time

SONDE = os.environ["SONDE"]
HERE = os.path.join(os.environ["SONDE_SOURCE"], "tests", "real", "trace")
WORK = tempfile.mkdtemp(prefix="sonde-sleds-")
SLEDS = ["-fxray-instrument", "-fxray-instruction-threshold=1", "-g", "-w", "-pthread"]
SHAPES = ["fib", "mutual", "deep", "qsort", "pointers", "abi", "inline", "alloca", "huge", "tail",
          "atexit", "signal", "altstack", "threads", "short_threads", "many", "random", "nothing"]
number = 0


def fresh(suffix=".sonde"):
    global number
    number += 1
    return os.path.join(WORK, f"{number}{suffix}")


def build(source, *options, compiler="clang", link=()):
    """Compiled by clang, linked by cc: nothing of compiler-rt is needed."""
    out = fresh(".program")
    subprocess.run([compiler, *SLEDS, *options, "-c", os.path.join(HERE, source), "-o", out + ".o"],
                   check=True)
    subprocess.run(["g++" if "++" in compiler else "gcc", "-pthread", out + ".o", *link, "-o", out],
                   check=True)
    return out


def record(program, *arguments, trace="--trace", env=None):
    path = fresh()
    done = subprocess.run([SONDE, "record", trace, "-o", path, "--", program, *arguments],
                          capture_output=True, timeout=60, check=False, env=env)
    return path, done


def report(path):
    done = subprocess.run([SONDE, "report", "--json", path, "trace"], capture_output=True, check=True)
    return json.loads(done.stdout)["trace"]


def paths_of(told):
    names, counts = {0: ()}, collections.Counter()
    for node in told["nodes"]:
        names[node["node"]] = names[node["parent"]] + (node["function"],)
        if node["calls"]:
            counts["/".join(names[node["node"]])] += node["calls"]
    return counts


def shadow_paths(program, path):
    listed = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    names = {int(m[1], 16): m[2] for m in re.finditer(r"^([0-9a-f]+) [tTwW] (\S+)$", listed, re.M)}
    stacks, counts = collections.defaultdict(list), collections.Counter()
    for line in open(path):
        tid, depth, offset = line.split()
        stack = stacks[tid] = stacks[tid][:int(depth)] + [names[int(offset, 16)]]
        counts["/".join(stack)] += 1
    return counts


def the_calls_are_those_of_a_shadow_stack():
    shadow = fresh(".o")
    subprocess.run(["gcc", "-O2", "-c", os.path.join(HERE, "shadow.c"), "-o", shadow], check=True)
    compared = 0
    for level in "-O0", "-O2":
        program = build("shapes.c", level, "-finstrument-functions-after-inlining", link=[shadow])
        for shape in SHAPES:
            said = fresh(".txt")
            env = dict(os.environ, SEED=str(os.getpid()), SHADOW=said)
            path, done = record(program, shape, env=env)
            assert done.returncode == 0, (shape, done)
            told = report(path)
            found, expected = paths_of(told), shadow_paths(program, said)
            assert found == expected, (level, shape, os.getpid(), found - expected, expected - found)
            assert told["lost"] == told["strays"] == told["unknown"] == told["left"] == 0, told
            compared += told["calls"]
    print(compared, "calls are those of a shadow stack")


def exceptions_and_jumps_are_paired():
    program = build("shapes.cc", "-O1", compiler="clang++")
    for shape, key in ("throw", "catch_it(int)"), ("rethrow", "rethrow(int)"):
        found = paths_of(report(record(program, shape)[0]))
        assert sum(n for p, n in found.items() if p.endswith("/" + key)) == 5, found
        assert all(p.count(key) <= 1 for p in found), found
    found = paths_of(report(record(build("shapes.c", "-O1"), "longjmp")[0]))
    assert found["main/shape_longjmp/add"] == 10, found


def code_bytes(program):
    done = subprocess.run(["objdump", "-d", "--no-show-raw-insn", program], capture_output=True, text=True,
                          check=True)
    return done.stdout


def without_tracing_sleds_are_nops():
    program = build("shapes.c", "-O2")
    text = code_bytes(program)
    fib = text[text.index("<fib>:"):]
    first = fib.splitlines()[1:3]
    assert "jmp" in first[0] and "nop" in first[1], first
    path, done = record(program, "fib", trace="--sample")
    assert done.returncode == 0
    # A stripped program has its map still.
    stripped = fresh(".program")
    shutil.copy(program, stripped)
    subprocess.run(["strip", stripped], check=True)
    whole, bare = (report(record(p, "fib")[0]) for p in (program, stripped))
    assert whole["calls"] == bare["calls"] > 100, (whole["calls"], bare["calls"])


def patterns_choose_functions():
    program = build("shapes.c", "-O0")
    path, done = record(program, "abi", trace="--trace=make_*")
    names = {n["function"] for n in report(path)["nodes"]}
    assert names == {"make_big", "make_pair"}, (names, done.stderr)
    stripped = fresh(".program")
    shutil.copy(program, stripped)
    subprocess.run(["strip", stripped], check=True)
    path, done = record(stripped, "abi", trace="--trace=make_*")
    assert b"stripped" in done.stderr and done.returncode == 0, done
    assert report(path)["calls"] == 0


def patches_come_and_go_under_running_threads():
    program = build("sled_threads.c", "-O1")
    plain = subprocess.run([program, "3"], capture_output=True, text=True, timeout=60, check=True)
    assert plain.stdout.endswith("right\n")
    path = fresh()
    running = subprocess.Popen([SONDE, "record", "--malloc=off", "-o", path, "--", program, "4"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    pid = running.stdout.readline().strip()
    switches = 0
    while running.poll() is None and switches < 200:
        word = "trace=off" if switches % 2 else "trace=on"
        done = subprocess.run([SONDE, "ctl", pid, word], capture_output=True, timeout=20, check=False)
        switches += done.returncode == 0
        time.sleep(0.1)
    out, _ = running.communicate(timeout=60)
    assert running.returncode == 0 and out.endswith("right\n"), (running.returncode, out)
    told = report(path)
    print(switches, "switches,", told["calls"], "calls,", told["left"], "left")
    assert told["calls"] > 1000 and told["lost"] == 0, told


def main():
    if os.environ.get("SONDE_SANITIZED") or not shutil.which("clang") or platform.machine() != "x86_64":
        print("skipped: no clang here, not x86_64, or a build without the agent")
        sys.exit(77)
    failed = 0
    for test in (the_calls_are_those_of_a_shadow_stack, exceptions_and_jumps_are_paired,
                 without_tracing_sleds_are_nops, patterns_choose_functions,
                 patches_come_and_go_under_running_threads):
        if len(sys.argv) > 1 and sys.argv[1] not in test.__name__:
            continue
        began = time.time()
        try:
            test()
            print(f"ok   {test.__name__} ({time.time() - began:.1f} s)", flush=True)
        except Exception as e:  # every test is tried
            failed += 1
            print(f"FAIL {test.__name__}: {type(e).__name__}: {e}", flush=True)
    shutil.rmtree(WORK, ignore_errors=True)
    sys.exit(failed != 0)


main()
