#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde record --trace on instrumented programs: the call graph is that of uftrace, calls that end
without a return are paired, nothing is said that is not so."""
import collections
import functools
import json
import os
import platform
import random
import re
import shutil
import subprocess
import time

from helpers import (
    SEED, SONDE, compile_c, fresh, needs, needs_agent, record, run_cases, second_reader, sonde, start_record,
    try_sonde, until, write)
from shared.calls import no_call_missing, paths_of, record_trace, trace_of, trace_source

needs_agent()

# Shapes whose calls all return, which uftrace records the same way.
ALL_SHAPES = os.environ.get("SONDE_SHAPES") == "all"  # of every compiler, not a few by chance
SHAPES_C = ["fib", "mutual", "deep", "qsort", "pointers", "abi", "inline", "inline_itself", "alloca",
            "huge", "tail", "atexit", "signal", "altstack", "threads", "short_threads", "fork", "many",
            "random", "nothing"]
SHAPES_CC = ["throw", "rethrow", "virtual", "library", "lambda", "template"]
# Calls that end otherwise: the paths of functions, and how often each is called.
ENDINGS = {
    "longjmp": {"shape_longjmp": 1, "shape_longjmp/jump_down": 10,
                "shape_longjmp" + "/jump_down" * 5: 10, "shape_longjmp/add": 10},
    "longjmp_again": {"shape_longjmp_again": 1, "shape_longjmp_again/jump_now": 10},
    "longjmp_handler": {"shape_longjmp_handler": 1, "shape_longjmp_handler/jump_out_of_handler": 10,
                        "shape_longjmp_handler/add": 10},
    "exit": {"shape_exit": 1, "shape_exit/leave_now": 1},
}


@functools.lru_cache(maxsize=None)
def build(compiler, source, *options):
    compiler, *how = compiler.split()
    return compile_c(trace_source(source), *how, "-g", "-w", "-pthread", "-finstrument-functions", *options,
                     compiler=compiler)


def times_hold(told):
    """A parent's time is never below the sum of its children's; histograms count every call that
    returned."""
    inside = collections.Counter()
    for node in told["trace"]["nodes"]:
        inside[node["parent"]] += node["total_ns"]
        ended = node["calls"] - node.get("open", 0)
        assert sum(row["calls"] for row in node["histogram"]) == ended
        assert ("least_ns" in node) == ("mean_ns" in node) == (ended > 0), node
        assert not ended or node["least_ns"] <= node["mean_ns"] <= node["worst_ns"] + 1, node
    for node in told["trace"]["nodes"]:
        slack = len(told["trace"]["nodes"])  # each number is rounded to 1 ns
        assert node["total_ns"] + slack >= inside[node["node"]], node


# ---- uftrace -----------------------------------------------------------------------------------

LINE = re.compile(r"^ \[ *(\d+)\] \|( *)(.*)$")


def uftrace_paths(program, *arguments, env=None):
    folder = fresh(".uftrace")
    subprocess.run(["uftrace", "record", "--no-libcall", "--no-event", "--no-sched", "--max-stack=65535",
                    "-d", folder, program, *arguments], capture_output=True, check=False, timeout=150,
                   env=env)
    done = subprocess.run(["uftrace", "replay", "-d", folder, "-f", "tid", "--no-libcall", "--no-event",
                           "--no-comment", "--no-merge", "--demangle=no", "--no-pager"],
                          capture_output=True, text=True, check=True, timeout=150)
    stacks, counts = collections.defaultdict(list), collections.Counter()
    plain = subprocess.run(["c++filt"], input=done.stdout, capture_output=True, text=True, check=True)
    for line in plain.stdout.splitlines():
        match = LINE.match(line)
        if not match:
            continue
        tid, text = match[1], match[3].strip()
        stack = stacks[tid]
        if text.startswith("}"):
            if stack:
                stack.pop()
            continue
        name = re.match(r"(.*)\(\)(;| \{)$", text)
        if not name:
            continue
        path = stack + [name[1]]
        counts["/".join(path)] += 1
        if name[2] != ";":
            stack.append(name[1])
    return counts


def the_call_graph_is_uftraces():
    needs("uftrace")
    programs, rng = 0, random.Random(SEED)
    for compiler in ("gcc -O0", "gcc -O2", "clang -O1"):
        if not shutil.which(compiler.split()[0]):
            continue
        program = build(compiler, "shapes.c")
        plus = compiler != "gcc -O0" or ALL_SHAPES  # a compilation of C++ takes longest
        plus = plus and build(compiler.replace("gcc", "g++").replace("clang", "clang++"), "shapes.cc")
        for binary, shapes in (program, SHAPES_C), *([(plus, SHAPES_CC)] if plus else []):
            for shape in shapes if compiler == "gcc -O2" or ALL_SHAPES else rng.sample(list(shapes), 5):
                if "clang" in compiler and shape in ("throw", "rethrow"):
                    continue  # no exit hook runs then, which uftrace does not notice
                env = dict(os.environ, SEED=str(os.getpid()))
                expected = uftrace_paths(binary, shape, env=env)
                if shape == "fork":  # the child is not ours
                    expected = collections.Counter({p: n for p, n in expected.items() if "mul" not in p})
                told = trace_of(record_trace(binary, shape, env=env)[0])
                found = paths_of(told)
                assert found == expected, (compiler, shape, os.getpid(), found - expected,
                                           expected - found)
                no_call_missing(told)
                times_hold(told)
                programs += 1
    print(programs, "programs have the same call graph as uftrace replay tells")
    assert programs >= 20


def calls_that_do_not_return_are_paired():
    for compiler in ("gcc -O0", "gcc -O2", "clang -O1"):
        program = build(compiler, "shapes.c")
        for shape, expected in ENDINGS.items():
            path, done = record_trace(program, shape)
            assert done.returncode == 0, done
            told = trace_of(path)
            found = paths_of(told)
            for key, count in expected.items():
                assert found["main/" + key] == count, (compiler, shape, key, found)
            no_call_missing(told)
            times_hold(told)
            assert told["trace"]["left"] + told["trace"]["open"] > 0, (shape, told["trace"])
        for shape in "pthread_exit", "thread_destructor":
            told = trace_of(record_trace(program, shape)[0])
            found = paths_of(told)
            no_call_missing(told)
            if shape == "pthread_exit":
                assert found["ending"] == 5 and found["ending/end_thread"] == 5, found
                assert found["ending/end_thread/end_thread"] == 4, found
            else:
                assert found["with_key"] == found["destroyed"] == 5, found
    if shutil.which("clang++"):
        program = build("clang++ -O1", "shapes.cc")
        for shape, key in ("throw", "shape_throw()/catch_it(int)"), ("rethrow", "shape_rethrow()/rethrow(int)"):
            told = trace_of(record_trace(program, shape)[0])
            found = paths_of(told)
            assert found["main/" + key] == 5, (shape, found)
            no_call_missing(told)


def tracing_changes_nothing():
    for compiler, source, shapes in (("gcc -O2", "shapes.c", SHAPES_C + list(ENDINGS)),
                                     ("g++ -O2", "shapes.cc", SHAPES_CC)):
        program = build(compiler, source)
        for shape in shapes:
            plain = subprocess.run([program, shape], capture_output=True, timeout=150, check=False)
            _, done = record_trace(program, shape)
            assert (plain.returncode, plain.stdout) == (done.returncode, done.stdout), (shape, done)


def the_second_reader_agrees():
    program = build("gcc -O2", "shapes.c")
    for shape in "fib", "random", "threads", "longjmp", "many":
        path, _ = record_trace(program, shape)
        told, calls = trace_of(path), second_reader(path, "--calls")
        assert len(calls) == told["trace"]["calls"], (shape, len(calls), told["trace"]["calls"])
        assert max(call[1] for call in calls) + 1 == max(p.count("/") + 1 for p in paths_of(told))


def events_take_four_bytes_at_most():
    path, _ = record_trace(build("gcc -O2", "shapes.c"), "fib")
    t = trace_of(path)["trace"]
    assert t["tracer"]["pair_ns"] > 0
    long = record_trace(build("gcc -O2 -DROUNDS=1", "work.c"), "400")[0]
    t = trace_of(long)["trace"]
    print(f"{t['calls']} calls, {t['bytes'] / t['calls'] / 2:.2f} bytes an event")
    assert t["bytes"] <= 8 * t["calls"], t


def filters_leave_the_rest_whole():
    program = build("gcc -O0", "shapes.c")
    path, _ = record_trace(program, "fib")
    whole = trace_of(path)
    total = {n["function"]: n["total_ns"] for n in whole["trace"]["nodes"] if not n["parent"]}
    for options in (["--depth", "3"], ["--least", "2us"], ["--function", "main"],
                    ["--function", "shape_*"], ["--net"]):
        told = trace_of(path, *options)
        times_hold(told)
        assert told["trace"]["calls"] == whole["trace"]["calls"]
        if options[0] != "--net" and options != ["--function", "shape_*"]:
            found = {n["function"]: n["total_ns"] for n in told["trace"]["nodes"] if not n["parent"]}
            assert found["main"] == total["main"], (options, found, total)
    assert len(trace_of(path, "--depth", "1")["trace"]["nodes"]) <= 3
    listed = subprocess.run(["nm", "-S", program], capture_output=True, text=True, check=True).stdout
    sizes = {m[2]: int(m[1], 16) for m in re.finditer(r"^\S+ (\S+) [tT] (\w+)$", listed, re.M)}
    named = {n["function"] for n in whole["trace"]["nodes"] if n["calls"]}
    for least in 1, *sorted(sizes[name] for name in named), 1 << 30:
        found = {n["function"] for n in trace_of(path, "--size", str(least))["trace"]["nodes"] if n["calls"]}
        assert found == {name for name in named if sizes[name] >= least}, (least, found, sizes)
    assert {n["function"] for n in trace_of(path, "--function", "fib")["trace"]["nodes"]} == {"fib"}
    tid = second_reader(path, "--calls")[0][0]
    assert trace_of(path, "--thread", str(tid))["trace"]["shown"] == whole["trace"]["shown"]
    assert trace_of(path, "--thread", "1")["trace"]["shown"] == 0


def a_large_chrome_trace_is_announced():
    """Before anything is written, with what the options leave."""
    source = "#include <unistd.h>\nint main(void) { for (int i = 0; i < 3300000; i++) getppid(); return 0; }"
    path, _ = record([compile_c(source)], "--trace=libc.so*:getppid", "--malloc=off")
    calls = trace_of(path)["trace"]["calls"]
    for options, is_large in ([], True), (["--least", "1s"], False):
        export = subprocess.Popen([SONDE, "export", "--as", "chrome-trace", *options, path], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert export.stdout.readline().startswith("{")
        export.stdout.close()
        said = export.stderr.read()
        export.wait()
        assert (f"{calls} calls" in said and "--least" in said and "--depth" in said) == is_large, said


def the_chrome_trace_is_well_formed():
    path, _ = record_trace(build("gcc -O2", "shapes.c"), "threads")
    events = json.loads(sonde("export", "--as", "chrome-trace", path))["traceEvents"]
    calls = [e for e in events if e["ph"] == "X"]
    told = trace_of(path)
    assert len(calls) == told["trace"]["calls"]
    assert len({e["tid"] for e in calls}) == told["trace"]["threads"] == 7
    names = [e for e in events if e["ph"] == "M"]
    assert {e["name"] for e in names} == {"process_name", "thread_name"}
    for tid in {e["tid"] for e in calls}:
        ends = []
        for e in sorted((e for e in calls if e["tid"] == tid), key=lambda e: (e["ts"], -e["dur"])):
            while ends and ends[-1] <= e["ts"] + 0.0011:
                ends.pop()
            assert not ends or e["ts"] + e["dur"] <= ends[-1] + 0.0021, (e, ends)
            ends.append(e["ts"] + e["dur"])
        assert all(e["dur"] >= 0 for e in calls)


def waiting_is_told_apart_from_own_time():
    """The program measures how long it was in each function. All but one of them only wait."""
    for program, trace in ((build("gcc -O1", "waits.c"), "--trace"),
                           (compile_c(trace_source("waits.c"), "-g", "-O1", "-fno-inline", "-pthread"),
                            "--trace=!*")):
        if trace != "--trace" and platform.machine() != "x86_64":
            continue
        path, done = record_trace(program, trace=trace, waits=True)
        took = dict(zip(("take", "nap", "look", "crunch"), (int(n) for n in done.stdout.split())))
        rows = {row["function"]: row for row in trace_of(path)["trace"]["functions"]}
        for name in "take", "nap", "look":
            row = rows[name]
            assert abs(row["total_ns"] - row["self_ns"] - row["waits_ns"]) <= 2, row  # nothing else was called
            assert 0.8 * 1000 * took[name] <= row["waits_ns"] <= 1000 * (took[name] + 1), (took, row)
        assert "waits_ns" not in rows["crunch"], rows["crunch"]
        assert {"usleep", "poll", "pthread_mutex_lock", "read", "pthread_join"} <= set(rows), rows
        waits = sum(rows[name]["waits_ns"] for name in ("take", "nap", "look", "pthread_join", "read"))
        assert abs(rows["main"]["waits_ns"] - waits) < 100000, (rows["main"], waits)
        text = sonde("report", path, "trace")
        assert re.search(r"total +self +waits", text) and "which self leaves out" in " ".join(text.split()), text
        plain = record_trace(program, trace=trace)[0]
        told = trace_of(plain)["trace"]["functions"]
        assert "usleep" not in {row["function"] for row in told} and not any("waits_ns" in row for row in told)


def a_recording_that_becomes_large_is_told_of():
    program = compile_c(write("""
        #include <unistd.h>
        __attribute__((noinline)) static int leaf(int n) { return n + 1; }
        int main(void) {
          int n = 0;
          for (long i = 0; i < 50000000; i++) n = leaf(n);
          usleep(1500000); /* the recorder looks once a second */
          return n == 3;
        }""", ".c"),
        "-O1", "-finstrument-functions")
    path, done = record_trace(program, text=True)
    assert done.returncode == 0 and "keeps the newest events" in done.stderr, done
    os.unlink(path)


def it_is_switched_while_the_program_only_computes():
    """No thread passes through the agent by itself."""
    source = """#include <stdio.h>
      #include <unistd.h>
      __attribute__((noinline)) unsigned long step(unsigned long x) {
        for (volatile int i = 0; i < 1000; i++) x = x * 3 + (unsigned)i;
        return x;
      }
      int main(void) {
        unsigned long x = 1;
        printf("%d\\n", getpid());
        fflush(stdout);
        for (;;) x = step(x);
      }"""
    program = compile_c(write(source, ".c"), "-O2")
    path, running = start_record([program], f"--trace={os.path.basename(program)}!step", stdout=subprocess.PIPE)
    pid = running.stdout.readline().decode().strip()
    try:
        for word in "trace=off", "trace=on", "trace=off", "trace=on":
            done = try_sonde("ctl", pid, word)
            assert done.returncode == 0 and not done.stderr, (word, done)
            assert "noticed yes" in sonde("ctl", pid, "status"), word
        begun = trace_of(path)["trace"]["calls"]
        until(lambda: trace_of(path)["trace"]["calls"] > begun + 1000, "calls are traced again")
    finally:
        os.kill(int(pid), 15)
        running.communicate(timeout=150)


def it_is_switched_while_the_program_runs():
    program = build("gcc -O2", "work.c")
    path = fresh()
    _, running = start_record([program, "0"], "--sample", path=path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    pid = running.stdout.readline().decode().strip()
    for _ in range(5):
        for word in "trace=on", "trace=off":
            sonde("ctl", pid, word)
            time.sleep(0.05)
    assert "trace off" in sonde("ctl", pid, "status")
    os.kill(int(pid), 15)
    running.communicate(timeout=150)
    told = trace_of(path)
    assert told["trace"]["calls"] > 1000, told["trace"]
    no_call_missing({**told, "trace": {**told["trace"], "unmatched": 0}})
    times_hold(told)


run_cases(globals())
