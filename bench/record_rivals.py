#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde's sampled and full recording beside heap profilers that come with another allocator, and
beside valgrind's. A profiler of an allocator's own is measured against that allocator without it,
the others against the plain program. What each takes is told: these are not the same thing. jemalloc
and tcmalloc keep what is live and no history; dhat and massif emulate the CPU. What takes a stack of
every allocation is run on a part of the work.

usage: bench/record_rivals.py [ROUNDS]      after a build"""
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "record"))
from measure import Recorded, Runs, library, programs, version  # noqa: E402

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 2
PART = 20
lost = []


class Rival(Runs):
    """Another allocator, preloaded, with the environment that switches its profiler on."""

    def __init__(self, allocator, folder, **env):
        super().__init__()
        self.folder = folder
        self.env = dict(LD_PRELOAD=allocator, **{k: v.replace("FOLDER", folder) for k, v in env.items()})

    def again(self, command, env=None):
        super().again(command, self.env)

    def profiled(self):
        return any(name.startswith("profile") for name in os.listdir(self.folder))


def rivals(folder, every):
    """{name: (its runs, those of its allocator alone)}, of those that take EVERY allocation or of those
    that sample."""
    found = {}
    jemalloc, tcmalloc = library("libjemalloc.so.2"), library("libtcmalloc.so.4")
    prof = "prof:true,prof_final:true,prof_prefix:FOLDER/profile,lg_prof_sample:"

    def add(name, allocator, **env):
        found[name] = Rival(allocator, tempfile.mkdtemp(dir=folder), **env), Rival(allocator, folder)

    if jemalloc and every:
        add("jemalloc prof, every allocation", jemalloc, MALLOC_CONF=prof + "0")
    elif jemalloc:
        add("jemalloc prof, one in 512 KB", jemalloc, MALLOC_CONF=prof + "19")
    if tcmalloc and every:
        add("gperftools heap profiler, every allocation", tcmalloc, HEAPPROFILE="FOLDER/profile",
            HEAP_PROFILE_ALLOCATION_INTERVAL="0", HEAP_PROFILE_INUSE_INTERVAL="0")
    elif tcmalloc:
        add("tcmalloc sampler, one in 512 KB", tcmalloc, TCMALLOC_SAMPLE_PARAMETER="524288")
    return found


def emulators():
    if not shutil.which("valgrind"):
        return {}
    before = ["valgrind", "-q", "--num-callers=100"]
    return {"valgrind dhat --num-callers=100": [*before, "--tool=dhat", "--dhat-out-file=/dev/null"],
            "valgrind massif --num-callers=100 --depth=100":
                [*before, "--tool=massif", "--massif-out-file=/dev/null", "--depth=100"]}


def tell(name, tool, runs, base, events):
    net = 1e9 * (runs.cpu - base.cpu) / events
    print(f"  {tool:46} {net:9.1f} ns CPU an event, wall x {runs.wall / base.wall:7.2f}")
    if isinstance(runs, Rival) and "sampler" not in tool and not runs.profiled():
        print(f"    (no profile was written: {tool} was not on)")
        lost.append(f"{name}: {tool} was not on")
    return net


def compare(name, tool, theirs, ours_tool, ours):
    if theirs < ours:
        lost.append(f"{name}: {tool} {theirs:.1f} ns an event, {ours_tool} {ours:.1f}")


def sampled(name, command, folder):
    plain = Runs()
    ours = Recorded(os.path.join(folder, "s.sonde"), "--malloc=sample:512K")
    whole = Recorded(os.path.join(folder, "a.sonde"), "--malloc")
    theirs = rivals(folder, False)
    whole.again(command)
    for _ in range(ROUNDS):
        for runs in (plain, ours, *(r for pair in theirs.values() for r in pair)):
            runs.again(command)
    events = whole.told()["events"]
    print(f"{name}, sampled: {events} events")
    cost = tell(name, "sonde sample:512K", ours, plain, events)
    for tool, (runs, base) in theirs.items():
        compare(name, tool, tell(name, tool, runs, base, events), "sonde sample:512K", cost)


def whole(name, command, folder):
    """One run each: some take from twenty to a hundred times as long."""
    plain, ours = Runs(), Recorded(os.path.join(folder, "w.sonde"), "--malloc")
    plain.again(command)
    ours.again(command)
    events = ours.told()["events"]
    print(f"{name}, every allocation, 1/{PART} of the work: {events} events")
    cost = tell(name, "sonde all", ours, plain, events)
    for tool, (runs, base) in rivals(folder, True).items():
        base.again(command)
        runs.again(command)
        compare(name, tool, tell(name, tool, runs, base, events), "sonde all", cost)
    for tool, prefix in emulators().items():
        runs = Runs()
        runs.again([*prefix, *command])
        compare(name, tool, tell(name, tool, runs, plain, events), "sonde all", cost)


def main():
    print(", ".join([version("libjemalloc2"), version("libgoogle-perftools4"), version("valgrind")]),
          f"; PYTHONMALLOC=malloc; rounds {ROUNDS}", sep="")
    with tempfile.TemporaryDirectory() as folder:
        for name, command in programs(folder).items():
            sampled(name, command, folder)
        for name, command in programs(folder, PART).items():
            whole(name, command, folder)
    print("what it loses at: " + ("" if lost else "nothing of the above"))
    for line in lost:
        print("  " + line)


main()
