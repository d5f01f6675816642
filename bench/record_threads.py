#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""An allocation benchmark (bench/record/allocate.c) under sonde record --malloc and heaptrack -r, on one
thread and on four, built without frame pointers and with them. What an event costs in CPU time, net
of the plain run; pairs, in turn; medians.

usage: bench/record_threads.py [ROUNDS]      after a build"""
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "record"))
from measure import Bars, Heaptrack, Recorded, Runs, build_allocate, version  # noqa: E402

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 4
ALLOCATIONS = 1200000  # of all threads together
GROWTH, OF_HEAPTRACK = 1.10, 1 / 10
BUILDS = {"without frame pointers": ["-fomit-frame-pointer"],
          "with frame pointers": ["-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer"]}
bars = Bars()


def measure(program, threads, folder, rounds, heaptrack_too):
    command = [program, str(threads), str(ALLOCATIONS // threads)]
    plain, ours = Runs(), Recorded(os.path.join(folder, "x.sonde"), "--malloc")
    theirs = Heaptrack(folder) if heaptrack_too and shutil.which("heaptrack") else None
    for _ in range(rounds):
        for runs in filter(None, (plain, ours, theirs)):
            runs.again(command)
    events = ours.told()["events"]
    cost = {}
    for tool, runs in (("all", ours), ("heaptrack -r", theirs)):
        if runs:
            cost[tool] = 1e9 * (runs.cpu - plain.cpu) / events
            print(f"  {threads} thread{'s' if threads > 1 else ''}, {tool:12} {cost[tool]:7.1f} ns CPU an event, "
                  f"wall x {runs.wall / plain.wall:.2f}  ({events} events)")
    return cost


def main():
    print(f"{version('heaptrack')}; gcc -O2; {ALLOCATIONS} allocations and as many frees; rounds {ROUNDS}")
    with tempfile.TemporaryDirectory() as folder:
        for name, options in BUILDS.items():
            print(name)
            program = build_allocate(folder, "allocate" + str(len(name)), *options)
            with_them = name.startswith("with ")
            one = measure(program, 1, folder, ROUNDS, True)
            four = measure(program, 4, folder, ROUNDS, True)
            growth = four["all"] / one["all"]
            print(f"  from 1 to 4 threads  x {growth:.3f} " + bars.check(f"{name}, from 1 to 4 threads", growth, GROWTH))
            if "heaptrack -r" in one:
                of = one["all"] / one["heaptrack -r"]
                verdict = bars.check(f"{name}, of heaptrack's CPU time", of, OF_HEAPTRACK) if with_them else ""
                print(f"  all / heaptrack -r   {of:.3f} {verdict}")
    bars.tell()


main()
