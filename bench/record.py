#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What recording every malloc and free costs, beside heaptrack -r, which takes stacks of allocations
only: CPU time an event and wall time, how deep the stacks are, and memory. Pairs of a plain and a
recorded run, in turn; medians.

usage: bench/record.py [ROUNDS]      after a build"""
import collections
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "record"))
import heaptrack_depth  # noqa: E402
from measure import Bars, Heaptrack, Recorded, Runs, programs, version  # noqa: E402
from reader import Recording  # noqa: E402

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 4
# Of heaptrack's CPU time an event; of the plain run's wall time.
OF_HEAPTRACK = {"sqlite3": 1 / 7, "python3": 1 / 8, "perl": 1 / 6, "cc1": 1 / 5}
WALL = {"sqlite3": 1.3, "python3": 1.4, "perl": 1.15, "cc1": 1.2}
SAMPLED_WALL, COMPLETE = 1.05, 0.99
MEMORY, NODE, PC = 8 << 20, 16, 32
bars = Bars()


def depths(counts):
    whole, bins = sum(counts.values()), collections.Counter()
    for depth, count in counts.items():
        bins[depth // 8] += count
    return ", ".join(f"{8 * b}-{8 * b + 7}: {100 * n / whole:.1f} %" for b, n in sorted(bins.items())
                     if 200 * n > whole)


def tell_depths(name, told, heaptrack, exe):
    allocations = told["allocated"]["blocks"]
    complete = told["depth"]["complete"] / max(allocations, 1)
    if complete < COMPLETE:
        bars.missed.append(f"{name}, complete stacks: {100 * complete:.2f} %, bar 99 %")
    ours = {row["frames"]: row["allocations"] for row in told["depth"]["histogram"]}
    print(f"  depth, all           {100 * complete:6.2f} % complete; {depths(ours)}")
    if heaptrack:
        theirs, share = heaptrack_depth.read(heaptrack.data(), exe)
        print(f"  depth, heaptrack     {100 * share:6.2f} % complete; {depths(theirs)}")


def tell_memory(name, plain, recorded):
    recording = Recording(recorded.path)
    pcs = len({frame[0] if isinstance(frame, tuple) else frame for frame in recording.frames.values()})
    nodes, more = len(recording.nodes), recorded.rss - plain.rss
    allowed = MEMORY + NODE * nodes + PC * pcs
    verdict = bars.check(f"{name}, MB of memory", more / 1e6, allowed / 1e6, "{:.1f}")
    print(f"  memory, all          {more / 1e6:+6.1f} MB beside {plain.rss / 1e6:.1f}; {nodes} nodes, {pcs} pcs "
          f"{verdict}")


def measure(name, command, folder):
    path = os.path.join(folder, "x.sonde")
    plain, recorded = Runs(), Recorded(path, "--malloc")
    tools = {"all": recorded, "live": Recorded(path + "l", "--malloc=live"),
             "sample:512K": Recorded(path + "s", "--malloc=sample:512K")}
    heaptrack = tools["heaptrack -r"] = Heaptrack(folder) if shutil.which("heaptrack") else None
    for _ in range(ROUNDS):
        plain.again(command)
        for tool in filter(None, tools.values()):
            tool.again(command)
    told = recorded.told()
    events = told["events"]
    print(f"{name}: {events} events, {told['stack_count']} stacks, "
          f"{os.path.getsize(path) / events:.2f} bytes an event (whole file)")
    cost = {}
    for tool, runs in tools.items():
        if not runs:
            continue
        cost[tool] = 1e9 * (runs.cpu - plain.cpu) / events
        verdict = ""
        if tool == "all":
            verdict = bars.check(f"{name}, wall time", runs.wall / plain.wall, WALL[name])
        elif tool == "sample:512K":
            verdict = bars.check(f"{name}, sampled, wall time", runs.wall / plain.wall, SAMPLED_WALL)
        print(f"  {tool:13} {cost[tool]:7.1f} ns CPU an event, wall x {runs.wall / plain.wall:.3f} {verdict}")
    if heaptrack:
        of = cost["all"] / cost["heaptrack -r"]
        print(f"  all / heaptrack -r   {of:6.3f} "
              + bars.check(f"{name}, of heaptrack's CPU time", of, OF_HEAPTRACK[name]))
    if cost["live"] > cost["all"]:
        bars.missed.append(f"{name}, live: {cost['live']:.1f} ns an event, all takes {cost['all']:.1f}")
    tell_depths(name, told, heaptrack, shutil.which(command[0]))
    tell_memory(name, plain, recorded)


def main():
    print(f"{version('heaptrack')}; programs as packaged, without frame pointers; PYTHONMALLOC=malloc; "
          f"rounds {ROUNDS}")
    with tempfile.TemporaryDirectory() as folder:
        for name, command in programs(folder).items():
            measure(name, command, folder)
    bars.tell()


main()
