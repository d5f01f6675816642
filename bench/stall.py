#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What watching for stalls costs: the watched thread, the monitor on a busy program, and its
wake-ups on an idle one. Pairs of a plain and a recorded run, in turn; the fastest of each.

usage: bench/stall.py [ROUNDS]      after a build"""
import glob
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SONDE = os.path.join(os.environ.get("SONDE_BUILD", os.path.join(ROOT, "build")), "bin", "sonde")
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 7
TICK = os.sysconf("SC_CLK_TCK")


def turn_cost(loop, folder):
    for kind, limit in (("empty", "at most 25 ns more"), ("eventfd", "at most x 1.05")):
        plain, watched = [], []
        for i in range(ROUNDS):
            path = os.path.join(folder, f"{kind}{i}.sonde")
            plain.append(float(subprocess.check_output([loop, kind, "0.5"])))
            watched.append(float(subprocess.check_output(
                [SONDE, "record", "--stall", "-o", path, "--", loop, kind, "0.5"],
                stderr=subprocess.DEVNULL)))
        a, b = min(plain), min(watched)
        print(f"{kind} turn: {a:.1f} ns plain, {b:.1f} ns watched: {b - a:+.1f} ns, x {b / a:.3f} "
              f"({limit})")


def monitor_of(recorder):
    for task in glob.glob(f"/proc/{recorder}/task/*"):
        with open(task + "/comm") as f:
            if f.read().strip() == "sonde-stall":
                return task
    return None


def facts(task):
    with open(task + "/schedstat") as f:
        run_ns = int(f.read().split()[0])
    with open(task + "/status") as f:
        switches = sum(int(line.split()[1]) for line in f if "ctxt_switches" in line)
    return run_ns, switches


def monitor_cost(loop, folder, kind, seconds):
    recorder = subprocess.Popen([SONDE, "record", "--stall=250", "-o", f"{folder}/m-{kind}.sonde",
                                 "--", loop, kind, str(seconds + 2)],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1)
    task = monitor_of(recorder.pid)
    run, switches = facts(task)
    time.sleep(seconds)
    run_after, switches_after = facts(task)
    recorder.wait()
    print(f"monitor, {kind} program: {100 * (run_after - run) / seconds / 1e9:.3f} % of a CPU, "
          f"{(switches_after - switches) / seconds:.1f} wake-ups a second")


def main():
    with tempfile.TemporaryDirectory() as folder:
        loop = os.path.join(folder, "stall_loop")
        subprocess.run(["cc", "-O2", "-o", loop, os.path.join(ROOT, "bench/stall_loop.c")],
                       check=True)
        turn_cost(loop, folder)
        monitor_cost(loop, folder, "eventfd", 4)
        monitor_cost(loop, folder, "idle", 4)


main()
