#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a CPU sample costs: sonde beside perf, the gperftools CPU profiler and async-profiler. A program
computes under 30 frames without frame pointers, once briefly and once for long. Each tool samples it
RATE times a second of CPU time. CPU time is that of program and tool above a plain run. That of a sample
is the difference of the two runs by the difference of their samples; the rest is the cost of start and
end. Told too are the bytes of the longer recording by samples, and the share of stacks that reach main.
A run of each in turn; least and median.

async-profiler is measured if SONDE_ASYNC_PROFILER names its built libasyncProfiler.so.

usage: bench/sampling.py [ROUNDS]      after a build"""
import glob
import itertools
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "record"))
from measure import HERE, SONDE, Run, library, version  # noqa: E402

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 7
RATE, DEPTH, MILLIONS = 249, 30, (250, 2000)


def read_sonde(folder):
    told = json.loads(subprocess.run([SONDE, "report", "--json", f"{folder}/x.sonde", "sample"],
                                     capture_output=True, check=True).stdout)["sample"]
    return told["samples"], told["complete"] / max(told["samples"], 1)


def read_perf(folder):
    shown = subprocess.run(["perf", "script", "-i", f"{folder}/perf.data", "-F", "ip,sym"], capture_output=True,
                           text=True, check=True).stdout
    stacks = [stack for stack in shown.split("\n\n") if stack.strip()]
    return len(stacks), sum(bool(re.search(r" main$", stack, re.M)) for stack in stacks) / max(len(stacks), 1)


def read_gperftools(folder):
    with open(f"{folder}/cpu.prof", "rb") as file:
        words = memoryview(file.read())
    words = words[:len(words) // 8 * 8].cast("Q")
    at, samples, deep = 2 + words[1], 0, 0
    while at + 2 <= len(words) and words[at]:
        samples += words[at]
        deep += words[at] * (words[at + 1] > DEPTH)
        at += 2 + words[at + 1]
    return samples, deep / max(samples, 1)


def read_async_profiler(folder):
    with open(f"{folder}/ap.collapsed") as file:
        rows = [line.rsplit(" ", 1) for line in file if line.strip()]
    samples = sum(int(count) for _, count in rows)
    return samples, sum(int(count) for stack, count in rows if "main;" in stack) / max(samples, 1)


def tools(folder):
    """{name: (command before the program's, environment, its files, how to count samples)}"""
    every = 10 ** 9 // RATE
    found = {
        "plain": ([], {}, "none", None),
        "sonde record --sample": ([SONDE, "record", f"--sample={RATE}", "-o", f"{folder}/x.sonde", "--"], {}, "x.sonde",
                                  read_sonde)}
    if shutil.which("perf"):
        for how in ("dwarf", "fp"):
            found[f"perf record, {how}"] = (["perf", "record", "-q", "-e", "cpu-clock:u", "-F", str(RATE), "--call-graph",
                                             how, "-o", f"{folder}/perf.data", "--"], {}, "perf.data", read_perf)
    profiler = library("libprofiler.so.0")
    if profiler:
        found["gperftools"] = ([], {"LD_PRELOAD": profiler, "CPUPROFILE": f"{folder}/cpu.prof",
                                    "CPUPROFILE_FREQUENCY": str(RATE)}, "cpu.prof", read_gperftools)
    async_profiler = os.environ.get("SONDE_ASYNC_PROFILER")
    if async_profiler:
        found["async-profiler, dwarf"] = ([], {
            "LD_PRELOAD": async_profiler,
            "ASPROF_COMMAND": f"start,event=cpu,interval={every},cstack=dwarf,collapsed,file={folder}/ap.collapsed"},
            "ap.collapsed", read_async_profiler)
    return found


def main():
    print(f"{version('linux-perf')}; {version('libgoogle-perftools4')}; {RATE} samples a second, depth {DEPTH}, "
          f"rounds {ROUNDS}")
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/spin"
        subprocess.run(["gcc", "-O2", "-g", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-o", program,
                        str(HERE / "spin.c")], check=True)
        found = tools(folder)
        cpu, counted = {key: [] for key in itertools.product(found, MILLIONS)}, {}
        for _ in range(ROUNDS):
            for (name, millions), taken in cpu.items():
                before, env, files, read = found[name]
                for old in glob.glob(f"{folder}/{files}*"):
                    os.unlink(old)
                taken.append(Run([*before, program, str(DEPTH), str(millions)], env).cpu)
                if read:
                    size = sum(map(os.path.getsize, glob.glob(f"{folder}/{files}*")))
                    counted[name, millions] = (*read(folder), size)
        print(f"  {'':22} µs a sample: least, median; ms start and end; samples; bytes a sample; complete")
        for name in list(found)[1:]:
            (few, *_), (many, complete, size) = (counted[name, millions] for millions in MILLIONS)
            each, fixed = [], []
            for of in min, statistics.median:
                short, long = (of(cpu[name, millions]) - of(cpu["plain", millions]) for millions in MILLIONS)
                each.append((long - short) / max(many - few, 1))
                fixed.append(short - each[-1] * few)
            print(f"  {name:22} {1e6 * each[0]:12.1f} {1e6 * each[1]:7.1f} {1e3 * fixed[0]:17.1f} {many:9} "
                  f"{size / max(many, 1):15.0f} {100 * complete:9.1f} %")


main()
