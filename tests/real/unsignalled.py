#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Threads that no SIGURG reaches are sampled too, and all CPU time is accounted for: samples and the
time without samples, by cause. The oracle is what the threads read of their own CPU clocks."""
import os

from helpers import WORK, compile_c, needs_agent, record, report, run_cases, source_file

needs_agent()
HZ = 199
PROGRAM = os.path.join(WORK, "unsignalled")


def _account(times):
    """The parts of a CPU time make up the whole."""
    assert times["cpu_ns"] == times["sampled_ns"] + times["unsampled_ns"], times
    assert times["unsampled_ns"] == sum(u["time_ns"] for u in times["unsampled"]), times
    return times["cpu_ns"]


def _record(what, ms):
    """The report, and (function, tid, CPU time) of each thread."""
    path, done = record([PROGRAM, what, str(ms)], f"--sample={HZ}")
    assert done.returncode == 0, done
    told = report(path, "cpu", "sample", "--top", 1000)
    *threads, (_, count, whole) = [line.split() for line in done.stdout.splitlines()]
    time = told["sample"]["cpu_time"]
    print(f"{what}: {told['sample']['samples'] / HZ:.3f} s of samples, {time['sampled_ns'] / 1e9:.3f} covered, of "
          f"{time['cpu_ns'] / 1e9:.3f} ({int(whole) / 1e9:.3f}); not: {time['unsampled']}")
    assert told["threads"] == len(told["cpu"]["threads"]) == int(count), (told["threads"], count)
    # The program ends a little after it has read its clock.
    assert 0 <= _account(time) - int(whole) < 0.02 * int(whole) + 2e7, (time, whole)
    by_tid = {t["tid"]: t for t in told["cpu"]["threads"]}
    for function, tid, used in threads:
        assert abs(_account(by_tid[int(tid)]) - int(used)) < 0.02 * int(used) + 5e6, (by_tid[int(tid)], used)
    return told, threads


def _is_sampled(what, function, cause):
    told, threads = _record(what, 400)
    sample, used = told["sample"], int(threads[0][2])
    refused = sum(u["time_ns"] for u in sample["cpu_time"]["unsampled"] if u["cause"] == cause)
    if refused > used / 2:
        print(f"{what}: this system does not let a process be sampled from outside")
        return
    total = {f["function"]: f["total"] for f in sample["functions"]}
    assert abs(total.get(function, 0) / HZ - used / 1e9) < 0.1 * used / 1e9 + 3 / HZ, (total, used)
    assert sample["cpu_time"]["sampled_ns"] > 0.9 * used, sample["cpu_time"]
    assert all(s["complete"] for s in sample["stacks"]), sample["stacks"]


def a_thread_that_blocks_all_signals():
    _is_sampled("blocked", "blocked", "signal_blocked")


def a_program_that_reads_the_signal_from_a_descriptor():
    _is_sampled("signalfd", "signalfd_reader", "signal_blocked")


def a_handler_replaced_past_the_c_library():
    _is_sampled("replaced", "replaced", "handler_replaced")


def threads_shorter_than_an_interval():
    """Each is known with its CPU time, sampled or not."""
    _record("short", 2)


def the_owner_of_a_lock_that_blocks_all_signals():
    """A stall's monitor does not signal it, though it runs."""
    path, done = record([PROGRAM, "owner", "500"], "--stall=50", text=True)
    assert done.returncode == 0 and done.stdout == "pending 0\n", done
    told = report(path, "stalls")["stalls"]
    assert [lock for stall in told["stalls"] for lock in stall.get("locks", [])], told


compile_c(source_file("real", "record", "unsignalled.c"), "-O1", "-g", "-pthread", "-fno-inline",
          "-fno-optimize-sibling-calls", out=PROGRAM)
run_cases(globals())
