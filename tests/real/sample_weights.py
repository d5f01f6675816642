#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The samples of `sonde record --sample` add up to the CPU time of the program, and those of a function
to its own, whatever kept a tick from being taken: signals held back, a busy CPU, a rate above the
kernel's. The oracle is what the threads themselves read of their CPU clocks."""
import json
import os
import resource
import struct
import subprocess
import sys

from format.reader import checksum
from helpers import (
    SCALE, WORK, compile_c, events, fresh, kill, needs_agent, record, report, run_cases, skip, sonde, source_file)

needs_agent()
PROGRAM = os.path.join(WORK, "phases")


def _on_one_cpu():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


class Crowd:
    """Busy processes on the one CPU that `_on_one_cpu` chooses, while a `with` lasts."""

    def __init__(self, count):
        self.count = count

    def __enter__(self):
        self.all = [subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=_on_one_cpu)
                    for _ in range(self.count)]

    def __exit__(self, *_):
        for process in self.all:
            kill(process)


def _record(hz, words, **how):
    """The recording, and the CPU seconds of `first`, of `second` and of the whole program."""
    path, done = record([PROGRAM, *map(str, words)], f"--sample={hz}", timeout=300, **how)
    assert done.returncode == 0, done
    return path, *map(float, done.stdout.split())


def _check(hz, threads, *words, **how):
    path, first, second, whole = _record(hz, (threads, *words), **how)
    told = report(path, "--top", 1000)["sample"]
    total = {f["function"]: f["total"] for f in told["functions"]}
    got = {name: total.get(name, 0) / hz for name in ("first", "second")}
    print(f"{told['samples'] / hz:.3f} s of {whole:.3f}: {got} of {first:.3f}, {second:.3f}; {told['missed']} missed")
    # What a thread used since its last sample is missing, and the program has begun before it is recorded.
    short = (threads + 5) / hz
    assert 0.95 * whole - short < told["samples"] / hz < 1.02 * whole, (told["samples"], whole)
    for name, used in ("first", first), ("second", second):
        assert abs(got[name] - used) < 0.1 * used + short, (name, got[name], used)
    assert sum(f["self"] for f in told["functions"]) >= 0.99 * told["samples"]
    return path, told


def signals_held_back():
    """They are sampled from outside meanwhile, so nearly no tick has to wait for the end of `second`. In `first`
    the kernel's timer merges as many as the machine is busy. The program uses no CPU time while the recorder waits
    for some: both have one CPU, where the recorder goes first."""
    path, _ = _check(250, 1, 1.5, "hold", preexec_fn=_on_one_cpu)
    missed = [e["missed"] for e in events(path, "--names") if "second" in e.get("functions", ())]
    ticks = sum(missed) + len(missed)
    assert ticks > 100 and sum(missed) < 0.3 * ticks, missed


def signals_held_back_for_moments():
    """The samples come from outside and from the thread by turns, and no time is counted twice."""
    for _ in range(SCALE):
        path, *_, whole = _record(250, (1, 3, "moments"))
        ticks = report(path)["sample"]["samples"]
        print(f"{ticks} ticks of {250 * whole:.1f}")
        assert 0.95 * 250 * whole - 6 < ticks < 250 * whole + 6, (ticks, whole)


def faster_than_the_kernel_looks():
    _check(1000, 2, SCALE * 0.5)


def threads_crowded_on_one_cpu():
    with Crowd(3):
        _check(250, 4, SCALE * 0.3, preexec_fn=_on_one_cpu)


def threads_that_end_soon():
    """None lives for an interval. What the kernel's timer interrupt comes too late for is missing."""
    path, *_, whole = _record(20, (101, 0.025, "turn"))
    ticks = report(path)["sample"]["samples"]
    print(f"{ticks} ticks of {20 * whole:.1f}")
    assert 0.2 * 20 * whole < ticks < 1.6 * 20 * whole


def every_view_says_the_same():
    path, told = _check(500, 2, 0.8, "hold")
    ticks, stacks = told["samples"], [(s["stack"], s["samples"]) for s in told["stacks"]]
    assert sum(n for _, n in stacks) == ticks
    folded = sonde("export", "--by", "sample", path).splitlines()
    assert sum(int(line.rsplit(" ", 1)[1]) for line in folded) == ticks
    summary, packed = fresh(), fresh()
    sonde("pack", "--summary", "-o", summary, path)
    sonde("pack", "-o", packed, path)
    for other in packed, summary:
        assert report(other, "--top", 1000)["sample"] == told, other
    tree = report(path, "--tree")["sample"]["tree"]
    assert tree["weight"] == tree["count"] == ticks, tree["weight"]
    changed = json.loads(sonde("diff", "--json", "--by", "sample", path, packed))
    assert changed["old"] == changed["new"] == ticks and not changed["changed_stacks"], changed


def older_summaries_are_read():
    """They tell the missed ticks of all stacks with the first one."""
    path, old = fresh(), fresh()
    sonde("record", "--sample", "-o", path, "--", "true")
    records = b"".join(bytes([7, 2 * len(body) + 1]) + body for body in
                       (bytes(n * 2 + 1 for n in numbers) for numbers in ((11, 40, 9), (12, 30, 0))))
    size = (len(records) + 7) // 8 * 8
    chunk = bytearray(struct.pack("<IHHIIIIQQQHBBIQ", 0x4B4E4843, 6, 1, 64 + size, len(records), 0, 0, 0, 0, 0, 1, 0, 0,
                                  2, 0) + records.ljust(size, b"\0"))
    struct.pack_into("<Q", chunk, 56, checksum(bytes(chunk)))
    with open(path, "rb") as whole, open(old, "wb") as out:
        page = bytearray(whole.read(4096))
        struct.pack_into("<Q", page, 16, 2)
        out.write(page + chunk)
    told = report(old)["sample"]
    assert told["samples"] == 79 and told["missed"] == 9, told
    assert [(s["stack"], s["samples"]) for s in told["stacks"]] == [(11, 40), (12, 30), (0, 9)], told


DEEP = r"""
static volatile unsigned sink;
static void work(void) { for (unsigned i = 0; i < 200000000u; i++) sink += i; }
static void deep(int frames) { if (frames) deep(frames - 1); else work(); sink++; }
int main(void) { deep(1000000); return 0; }
"""


def ticks_that_take_longer_than_the_interval():
    """The program runs on: a million frames take longer to walk than the millisecond between two ticks."""
    most = resource.getrlimit(resource.RLIMIT_STACK)[1]
    if most != resource.RLIM_INFINITY and most < 512 << 20:
        skip("the stack may not be as large as 512 MB")
    deep = compile_c(DEEP, "-O1", "-fno-inline", "-fno-optimize-sibling-calls")
    path, done = record([deep], "--sample=999",
                        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (512 << 20, most)))
    assert done.returncode == 0, done
    told = report(path)["sample"]
    time, ticks = told["cpu_time"], sum(stack["samples"] for stack in told["stacks"])
    causes = {gap["cause"] for gap in time["unsampled"]}
    assert told["missed"] and "handler_replaced" not in causes, told
    assert abs(ticks * 1e9 / 999 - time["sampled_ns"]) < 0.1 * time["sampled_ns"] + 3e6, told
    return f"{ticks} ticks, {told['missed']} of them delayed, in {time['cpu_ns'] / 1e9:.3f} s"


compile_c(source_file("real", "record", "phases.c"), "-O1", "-pthread", "-fno-inline", "-fno-optimize-sibling-calls",
          out=PROGRAM)
run_cases(globals())
