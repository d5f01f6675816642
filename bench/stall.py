#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The cost of watching for stalls: for the watched thread, for the monitor on a busy program, and its
wake-ups on an idle one. Pairs of a plain and a recorded run alternate; the least of each counts.

Then, for stalls at three thresholds: the delay from the threshold to the record, and the error of the
recorded length. Stalls whose thread waited for a CPU are counted and excluded.

usage: bench/stall.py [ROUNDS]      after a build"""
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SONDE = os.path.join(os.environ.get("SONDE_BUILD", os.path.join(ROOT, "build-test")), "bin", "sonde")
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 7
TICK = os.sysconf("SC_CLK_TCK")


def iteration_cost(loop, folder):
    for kind, limit in (("empty", "at most 25 ns more"), ("eventfd", "at most x 1.05")):
        plain, watched = [], []
        for i in range(ROUNDS):
            path = os.path.join(folder, f"{kind}{i}.sonde")
            plain.append(float(subprocess.check_output([loop, kind, "0.5"])))
            watched.append(float(subprocess.check_output(
                [SONDE, "record", "--stall", "-o", path, "--", loop, kind, "0.5"],
                stderr=subprocess.DEVNULL)))
        a, b = min(plain), min(watched)
        print(f"{kind} iteration: {a:.1f} ns plain, {b:.1f} ns watched: {b - a:+.1f} ns, x {b / a:.3f} "
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
                                 "--", loop, kind, str(seconds + 3)],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(2)  # one look at what is not covered comes a second after the start
    task = monitor_of(recorder.pid)
    run, switches = facts(task)
    time.sleep(seconds)
    run_after, switches_after = facts(task)
    recorder.wait()
    print(f"monitor, {kind} program: {100 * (run_after - run) / seconds / 1e9:.3f} % of a CPU, "
          f"{(switches_after - switches) / seconds:.1f} wake-ups a second")


def of(values, share):
    return values[min(len(values) - 1, int(share * len(values)))]


def accuracy(loop, folder, threshold_ms):
    path = os.path.join(folder, f"a{threshold_ms}.sonde")
    output = subprocess.run([SONDE, "record", f"--stall={threshold_ms}", "-o", path, "--", loop, "stalls",
                           str(ROUNDS * 3), str(threshold_ms)], check=True, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL).stdout
    true = [int(line) for line in output.split()]
    found = json.loads(subprocess.check_output([SONDE, "report", "--json", path, "stalls"]))["stalls"]["stalls"]
    if len(true) != len(found):
        print(f"{threshold_ms} ms: {len(found)} of {len(true)} stalls were found")
        return
    unhindered = [(t, s) for t, s in zip(true, found) if not s["waiting_for_cpu_ns"] and not s["unmonitored_ns"]]
    delays = sorted((s["noticed_ns"] - s["began_ns"]) / 1e6 - threshold_ms for _, s in unhindered) or [0]
    errors = sorted(abs(s["total_ns"] - t) / 1e6 for t, s in unhindered) or [0]
    print(f"{threshold_ms} ms: {len(unhindered)} of {len(true)} stalls that had a CPU: in the recording "
          f"{of(delays, 0.5):.2f} ms after the threshold, p99 {of(delays, 0.99):.2f} ms, which is "
          f"{100 * of(delays, 0.99) / threshold_ms:.1f} % of it (at most 10 %); length off by {of(errors, 0.5):.3f} "
          f"ms, p99 {of(errors, 0.99):.3f} ms, worst {errors[-1]:.3f} ms (at most 5 ms)")


def main():
    with tempfile.TemporaryDirectory() as folder:
        loop = os.path.join(folder, "stall_loop")
        subprocess.run(["cc", "-O2", "-o", loop, os.path.join(ROOT, "bench/stall_loop.c")],
                       check=True)
        iteration_cost(loop, folder)
        monitor_cost(loop, folder, "eventfd", 4)
        monitor_cost(loop, folder, "idle", 4)
        for threshold_ms in (50, 100, 250):
            accuracy(loop, folder, threshold_ms)


main()
