#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Filters while recording (sonde record --trace-least, --trace-depth; sonde_trace_filter): a recording with
limits has the calls that a complete one has within these limits, however they are traced and end."""
import collections
import functools
import glob
import platform
import re
import subprocess

from helpers import (
    INCLUDE, LINK_SHARED, LINK_STATIC, compile_c, fresh, needs, needs_agent, needs_plain_build, report, run_cases,
    skip, sonde, try_sonde)
from shared.calls import no_call_missing, paths_of, record_trace, trace_of, trace_source

needs_agent()

SHAPES = ["fib", "qsort", "alloca", "tail", "signal", "altstack", "threads", "longjmp", "longjmp_again",
          "longjmp_handler", "exit"]
SHAPES_CC = ["throw", "virtual"]
MOST = ["fib", "tail", "threads", "longjmp"]  # of the ways after the first one
LONG_CALLS, LONG_NS = 20000, 20000  # of limits.c
WAYS = {  # options of the compiler, --trace
    "hooks": ("gcc", ["-finstrument-functions"], "--trace"),
    "entries": ("gcc", ["-fpatchable-function-entry=5"], "--trace"),
    "sleds": ("clang", ["-fxray-instrument", "-fxray-instruction-threshold=1"], "--trace"),
    "any_function": ("gcc", ["-fno-optimize-sibling-calls"], "--trace=!*"),
}


@functools.lru_cache(maxsize=None)
def _build(source, compiler, *options):
    return compile_c(trace_source(source), "-O1", "-g", "-w", "-pthread", *options, compiler=compiler)


def _within(paths, depth):
    return collections.Counter({p: n for p, n in paths.items() if p.count("/") < depth})


def _depth_of(way):
    compiler, options, trace = WAYS[way]

    def case():
        needs(compiler)
        if way == "any_function" and platform.machine() != "x86_64":
            skip("what the program does is known for x86_64")
        plus = {"gcc": "g++", "clang": "clang++"}[compiler]
        program = _build("shapes.c", compiler, *options)
        programs = [(program, s) for s in (SHAPES if way == "hooks" else MOST)]
        if way != "sleds":  # whose calls do not end at exceptions
            program = _build("shapes.cc", plus, *options)
            programs += [(program, s) for s in SHAPES_CC]
        cut = 0
        for program, shape in programs:
            whole = paths_of(trace_of(record_trace(program, shape, trace=trace)[0]))
            for depth in 1, 3:
                told = trace_of(record_trace(program, shape, trace=trace, options=[f"--trace-depth={depth}"])[0])
                no_call_missing(told)
                found, expected = paths_of(told), _within(whole, depth)
                assert found == expected, (shape, depth, found - expected, expected - found)
                assert told["trace"]["recorded_only"] == {"depth": depth}
                assert told["trace"]["calls"] == sum(expected.values()), (shape, told["trace"]["calls"])
                cut += sum(whole.values()) > sum(found.values())
        assert cut >= len(programs) // 2
        return f"{len(programs)} programs, {cut} recordings with fewer calls"
    case.__name__ = f"depth_{way}"
    return case


for _way in WAYS:
    globals()[f"depth_{_way}"] = _depth_of(_way)


def _check_long_calls(told, calls):
    """All long calls are there; others only if something interrupted them for as long as a limit."""
    paths = paths_of(told)
    assert paths["main/outer/long_call"] == calls and paths["main/outer"] == 1, paths
    assert sum(paths.values()) < calls * 1.02 + 10, paths  # of 8 calls for each long one
    for node in told["trace"]["nodes"]:
        assert "least_ns" not in node or node["least_ns"] >= LONG_NS / 2, node


def short_calls():
    """They leave no record, also where chunks end between a start and an end."""
    for way, (compiler, options, trace) in WAYS.items():
        if way == "any_function" and platform.machine() != "x86_64":
            continue
        program = _build("limits.c", compiler, *options)
        path, _ = record_trace(program, "record", trace=trace, options=["--trace-least=10us"])
        told = trace_of(path)
        no_call_missing(told)
        _check_long_calls(told, LONG_CALLS)
        assert told["trace"]["recorded_only"] == {"least_ns": LONG_NS // 2}
        # A start is 4 bytes, an end 2; with time between long ones, 8 and 4 at most.
        assert told["trace"]["calls"] < LONG_CALLS * 1.02 + 10, told["trace"]["calls"]
        assert told["trace"]["bytes"] < LONG_CALLS * 13 + (1 << 18), told["trace"]["bytes"]
        assert "recorded   only calls of at least 10.0 µs\n" in sonde("report", path, "trace")
        log = sonde("export", "--as", "calls", path)
        assert log.count("long_call") == LONG_CALLS, log[:500]


def imports():
    """Imported functions: the C library's qsort calls nothing that is traced, so all are at depth 1."""
    program = _build("shapes.c", "gcc")
    found = {}
    for options in (), ("--trace-depth=1",), ("--trace-least=3600s",):
        told = trace_of(record_trace(program, "qsort", trace="--trace=qsort", options=options)[0])
        no_call_missing(told)
        found[options] = paths_of(told)
    assert found[()] and found[("--trace-depth=1",)] == found[()] and not found[("--trace-least=3600s",)], found


def both_and_calls_without_a_return():
    """Calls that longjmp or an exception ends keep their record; the report leaves out short ones."""
    program = _build("shapes.c", "gcc", "-finstrument-functions")
    for shape in "longjmp", "longjmp_handler", "signal", "threads", "exit":
        told = trace_of(record_trace(program, shape, options=["--trace-least=3600s", "--trace-depth=3"])[0])
        no_call_missing(told)
        assert not paths_of(told), (shape, paths_of(told))


def children():
    program = _build("shapes.c", "gcc", "-finstrument-functions")
    path, _ = record_trace(program, "fork", options=["--trace-depth=2", "--follow"])
    files = glob.glob(path.removesuffix("sonde") + "*")
    assert len(files) > 1, files
    for file in files:
        told = trace_of(file)
        no_call_missing(told)
        assert told["trace"]["recorded_only"] == {"depth": 2}, file
        assert all(p.count("/") < 2 for p in paths_of(told)), paths_of(told)


def refused():
    for options in ["--trace-least=1ms"], ["--trace-depth=3", "--malloc"], ["--trace", "--trace-depth=0"], \
            ["--trace", "--trace-least=5"], ["--trace", "--trace-least=3601s"]:
        done = try_sonde("record", *options, "--", "true")
        assert done.returncode == 125 and "--trace-" in done.stderr, done


def _printed(text):
    """The functions of a tree of calls. Those that one function calls are sorted by their whole durations."""
    names, last = [], {}
    for line in text.splitlines()[1:]:
        total, name = int(line.split()[0]), line[74:].rstrip()
        depth = len(name) - len(name.lstrip())
        last = {d: t for d, t in last.items() if d <= depth}
        assert total <= last.get(depth, total), text
        last[depth] = total
        names.append(name.strip().split("(")[0])
    return names


def own_trace():
    """sonde_trace_filter, _print_filtered, _patched."""
    needs_plain_build()
    ways = {"": "-finstrument-functions"}
    if platform.machine() == "x86_64":
        ways["!outer,!long_call,!wrapper,!quick"] = "-fno-optimize-sibling-calls"
    for pattern, how in ways.items():
        # An image that contains libsonde is not patched.
        for link in [LINK_SHARED] if pattern else [LINK_STATIC, LINK_SHARED]:
            program = compile_c(trace_source("limits.c"), "-O1", "-g", "-w", how, "-DOWN",
                                f'-DPATTERN="{pattern}"', INCLUDE, *link)
            for least, depth in (0, 0), (LONG_NS // 2, 0), (0, 2):
                path = fresh()
                done = subprocess.run([program, str(least), str(depth), path], capture_output=True, text=True,
                                      check=False, timeout=150)
                assert done.returncode == 0, (pattern, least, depth, done)
                whole, long_ones, outermost = done.stdout.split("--\n")
                assert _printed(outermost) == ["outer"], outermost
                # A quick call is a long one if the system interrupts it.
                assert [name for name in _printed(long_ones) if name != "quick"][:2] == ["outer", "long_call"], long_ones
                if depth:
                    assert set(_printed(whole)) <= {"outer", "long_call", "quick"}, whole
                elif not least:
                    assert "wrapper" in _printed(whole) and (pattern or "quick" in _printed(whole)), whole
                paths = paths_of(report(path, "trace"))
                assert paths["outer/long_call"] == 200, paths
                assert bool(paths["outer/long_call/wrapper"]) == (not least and not depth) or least, paths
                if pattern:
                    patched = int(re.search(r"^(\d+) patched$", done.stderr, re.M)[1])
                    unpatched = sum(int(n) for n in re.findall(r"^(\d+) unpatched: \w", done.stderr, re.M))
                    assert patched + unpatched == 4 and patched >= 2, done.stderr


run_cases(globals())
