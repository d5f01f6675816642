#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a trace does not hold it counts: the calls that are told and those that are said to be lost are
together those that the program made; and the program does what it does without."""
import shutil
import subprocess

from helpers import fresh, needs_agent, run_cases, skip_part
from shared.calls import record_trace, trace_of, trace_source

needs_agent()
WAYS = {  # compiler, its options, --trace
    "hooks": ("gcc", ["-finstrument-functions"], "--trace"),
    "sleds": ("clang", ["-fxray-instrument", "-fxray-instruction-threshold=1"], "--trace"),
    "entries": ("gcc", ["-fpatchable-function-entry=5"], "--trace"),
    "imports": ("gcc", [], "--trace=call_*"),
}
KEPT = (1 << 18) - 1  # calls one inside the other (TRACE_CALLS_MAX)


def _build(way):
    compiler, options, _ = WAYS[way]
    library, program, source = fresh(".so"), fresh(".program"), trace_source("deeper.c")
    for made, more in ((library + ".o", ["-fPIC"]), (program + ".o", ["-DPROGRAM"])):
        subprocess.run([compiler, "-O1", "-fno-optimize-sibling-calls", "-w", "-pthread", *options, *more, "-c", source,
                        "-o", made], check=True)
    subprocess.run(["gcc", "-shared", library + ".o", "-o", library], check=True)
    subprocess.run(["gcc", "-pthread", program + ".o", library, "-o", program], check=True)
    return program


def _traced(way, *arguments):
    path, done = record_trace(_build(way), *map(str, arguments), trace=WAYS[way][2], options=["--malloc=off"])
    assert done.returncode == 0 and done.stdout == b"done\n", (way, arguments, done)
    return trace_of(path, "--depth", "3")


def _ways():
    return [way for way in WAYS if shutil.which(WAYS[way][0]) or skip_part(way, f"{WAYS[way][0]} is not installed")]


def calls_deeper_than_are_kept():
    """Each lost call has two events. What is less deep is told as if nothing had been lost, and what comes later."""
    for way in _ways():
        for deep in KEPT, KEPT + 1, KEPT + 40000:
            told = _traced(way, deep, 3)
            trace = told["trace"]
            assert trace["calls"] == min(deep, KEPT) + 3, (way, deep, trace)
            assert told["missing"]["events"] == 2 * (deep - min(deep, KEPT)), (way, deep, told["missing"])
            assert not (trace["lost"] or trace["unmatched"] or trace["left"] or trace["open"]), (way, deep, trace)
            shown = {node["function"]: node["calls"] for node in trace["nodes"]}
            assert shown == {"call_down": 1, "call_step": 3}, (way, deep, shown)


run_cases(globals())
