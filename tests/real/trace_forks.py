#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde record --follow --trace: a child of fork is traced from the fork on, in a file of its own that begins with
the calls it is in. The oracle is the program, each process of which counts its calls."""
import collections
import glob

from helpers import compile_c, needs_agent, report, run_cases
from shared.calls import no_call_missing, paths_of, record_trace, trace_source

needs_agent()


def _traced(program, *arguments, trace="--trace"):
    """The functions and calls that each process counted, and the reports by pid."""
    path, done = record_trace(program, *arguments, trace=trace, options=["--follow", "--malloc=off"])
    assert done.returncode == 0, done
    counted = collections.defaultdict(dict)
    for pid, name, count in map(str.split, done.stdout.decode().splitlines()):
        counted[int(pid)][name] = int(count)
    reports = {}
    for file in [path, *glob.glob(path.replace(".sonde", ".*.sonde"))]:
        told = report(file, "trace")
        reports[told["pid"]] = told
    return counted, reports


def _same_counts(*options, trace="--trace"):
    program = compile_c(trace_source("forks.c"), "-O1", "-g", "-pthread", *options)
    counted, reports = _traced(program, trace=trace)
    assert len(counted) == 5, counted
    for pid, expected in counted.items():
        told = reports[pid]
        no_call_missing(told)
        found = {f["function"]: f["calls"] for f in told["trace"]["functions"] if f["function"] in expected}
        assert found == expected, (pid, found, expected)
    return reports


def instrumented():
    reports = _same_counts("-finstrument-functions")
    paths = [set(paths_of(told)) for told in reports.values()]
    assert sum("main/outer/inner/forking/inner/forking/step" in tree for tree in paths) == 2, paths
    assert sum("worker/forking/step" in tree for tree in paths) == 2, paths


def patchable_entries():
    _same_counts("-fpatchable-function-entry=5", trace="--trace=*")


def imported_functions():
    """Each child prints with one write and waits for its own children."""
    program = compile_c(trace_source("forks.c"), "-O1", "-pthread")
    counted, reports = _traced(program, trace="--trace=libc.so*:write,libc.so*:waitpid,libc.so*:_exit")
    for pid in counted:
        told = reports[pid]
        no_call_missing(told)
        found = {f["function"]: f["calls"] for f in told["trace"]["functions"]}
        assert found["write"] == 1, (pid, found)


def a_forking_server():
    """Nothing of a child remains in its parent."""
    program = compile_c(trace_source("forks.c"), "-O1", "-finstrument-functions", "-pthread")
    counted, reports = _traced(program, "40")
    (pid, expected), = counted.items()
    found = {f["function"]: f["calls"] for f in reports.pop(pid)["trace"]["functions"]}
    assert {name: found[name] for name in expected} == expected, (found, expected)
    assert len(reports) == 40
    for told in reports.values():
        no_call_missing(told)
        assert {f["function"]: f["calls"] for f in told["trace"]["functions"]} == {"main": 1, "forking": 1, "step": 3}, told


run_cases(globals())
