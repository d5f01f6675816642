#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde/log.h: a program's log that stays below a limit, and a summary of what is live that is small enough to send."""
import json
import os
import subprocess

from helpers import INCLUDE, LINK_SHARED, WORK, check, compile_c, events, fresh, needs_plain_build, report, run_cases, sonde, source_file

needs_plain_build()
PROGRAM = compile_c(source_file("real", "record", "summary.c"), "-O1", "-fno-optimize-sibling-calls", INCLUDE, *LINK_SHARED)
SIZES = set(range(1, 1025))


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=True, cwd=WORK).stdout


def held(told):
    """{bytes of one block: names of its stack} of the stacks with a function hold."""
    found = {}
    for stack in told["malloc"]["stacks"]:
        names = [frame.get("function") for frame in stack["frames"]]
        if "hold" in names:
            found[stack["live"]["bytes"]] = names
    return found


def a_thousand_stacks_take_less_than_100_kb():
    log, summary = fresh(), fresh()
    check(run(log, summary, 0).strip() == "0", "stacks are left out")
    compared = sonde("diff", summary, log)
    check("note one recording has only live blocks" not in compared, compared)
    for path in (log, summary):
        told = json.loads(sonde("why", "--json", path))
        check("allocations" in told["looked_at"] and "allocations" not in told["not_recorded"], (path, told))
    size = os.path.getsize(summary)
    print(f"1,024 stacks: {size} bytes")
    check(size < 100_000, size)
    told, whole = (report(path, "malloc", "--all") for path in (summary, log))
    check(set(held(told)) == SIZES, "a stack is missing or wrong")
    for size, names in held(told).items():
        path = [name for name in reversed(names) if name in ("left", "right")]
        check(path == ["right" if size - 1 >> level & 1 else "left" for level in range(10)], (size, names))
    check(held(told) == held(whole), "the summary's stacks differ from those of the log")
    check(told["malloc"]["live"]["bytes"] >= sum(SIZES), told["malloc"]["live"])


def a_limit_keeps_the_largest_and_the_sum():
    log, small, full = fresh(), fresh(), fresh()
    left_out = int(run(log, small, 20_000))
    check(0 < left_out < 1024 and os.path.getsize(small) <= 20_000, (left_out, os.path.getsize(small)))
    log = fresh()
    run(log, full, 0)
    told, whole = (report(path, "malloc", "--all")["malloc"] for path in (small, full))
    kept = held({"malloc": told})
    check(kept and set(kept) == set(range(1025 - len(kept), 1025)), sorted(kept))
    check(told["live"] == whole["live"], (told["live"], whole["live"]))


def a_log_stays_below_its_limit_and_keeps_the_end():
    log = fresh()
    run(log)
    told = report(log)
    check(os.path.getsize(log) <= 1 << 20, os.path.getsize(log))
    check(told["finished"], told)
    kept = events(log)
    check(any(event["event"] == "marker" for event in kept), "the newest events are not kept")
    check(1000 < len(kept) < 400_000, len(kept))


run_cases(globals())
