#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde record --wall: all of every thread's time, where it was spent, and no call of the program ends
early for it. The oracle is what the threads themselves read of the clock and of the kernel."""
import gzip
import os
import subprocess

from format.reader import Recording
from helpers import (
    SONDE, WORK, compile_c, Delays, fresh, needs_agent, output_of, record, report, run_cases, source_file, try_sonde)

PROGRAM = os.path.join(WORK, "waiter")
FUNCTIONS = {"read": "waits_in_read", "poll": "waits_in_poll", "lock": "waits_for_lock", "naps": "naps",
             "turns": "turns", "burns": "burns", "more": "waits_in_read"}
CALLS = {"read": "read", "poll": "poll", "lock": "futex", "naps": "clock_nanosleep", "turns": "epoll_wait"}


def record_wall(*command, options=("--wall",), within=()):
    path = fresh()
    with Delays() as delays:
        said = output_of(*within, SONDE, "record", *options, "-o", path, "--", *command)
    told = report(path, "--top", 100000)
    the_second_reader_agrees(path, told["wall"])
    # What a look that came late gets wrong: it may be late at a change to a thread's place and back.
    return told, said.splitlines(), 3e9 * delays.worst


def the_second_reader_agrees(path, wall):
    recording = Recording(path)
    list(recording.events())
    ours = {t["tid"]: [t["seen_ns"], t["cpu_ns"], t["waited_for_cpu_ns"]] for t in wall["threads"]}
    theirs = recording.wall_sums
    for sums in theirs.values():
        sums[0] = max(sums[0], sums[1] + sums[2])  # it ran or waited for a CPU before it was seen first
    differ = {tid: (ours[tid], sums) for tid, sums in theirs.items() if ours[tid] != sums}
    assert not differ, differ
    assert sum(looks for _, _, looks, *_ in recording.walls) == wall["samples"]


def _ticks_wait_for_the_way_out():
    """Whether this kernel takes CPU timers on the way back to the program, where no call is cut short."""
    try:
        with gzip.open("/proc/config.gz", "rt") as f:
            return "CONFIG_POSIX_CPU_TIMERS_TASK_WORK=y" in f.read()
    except OSError:
        return False


def functions_of(place):
    return {f.get("function") for f in place.get("frames", [])}


def the_time_of_each_thread_is_where_it_was():
    told, said, late = record_wall(PROGRAM, "2")
    wall = told["wall"]
    by_tid = {t["tid"]: t for t in wall["threads"]}
    assert said[-1].startswith("interrupted "), said
    for line in said[:-1]:
        name, tid, *rest = line.split()
        true_wall, true_run, true_runq = map(int, rest)
        t = by_tid[int(tid)]
        blocked = true_wall - true_run - true_runq
        places = [p for p in wall["stacks"] if FUNCTIONS[name] in functions_of(p)]
        here = sum(p["time_ns"] for p in places if p["where"] == "blocked")
        there = sum(p["time_ns"] for p in places if p["where"] == "cpu")
        print(f"{name}: {true_wall / 1e9:.3f} s, told {t['seen_ns'] / 1e9:.3f}; on a CPU {true_run / 1e9:.3f}, told "
              f"{t['cpu_ns'] / 1e9:.3f}; blocked {blocked / 1e9:.3f}, told {t['blocked_ns'] / 1e9:.3f}, "
              f"in its function {here / 1e9:.3f} and {there / 1e9:.3f} on a CPU")
        # A look is a hundredth of a second, and a sample of a part has its chance.
        assert abs(t["seen_ns"] - true_wall) < 0.03 * true_wall + 5e7 + late, (name, t, true_wall)
        assert abs(t["cpu_ns"] - true_run) < 0.03 * true_run + 5e7 + late, (name, t, true_run)
        assert abs(t["blocked_ns"] - blocked) < 0.05 * blocked + 1.5e8 + late, (name, t, blocked)
        if name != "burns":
            assert abs(here - blocked) < 0.1 * blocked + 1.5e8 + late, (name, here, blocked)
            calls = {p.get("syscall") for p in places if p["where"] == "blocked"}
            assert calls <= {CALLS[name], "ppoll"} and calls, (name, calls)
        else:
            assert there > 0.9 * true_run - late, (there, true_run)
    assert wall["unread_ns"] < 0.05 * wall["blocked_ns"], wall["unread_ns"]
    complete = sum(p["samples"] for p in wall["stacks"] if p.get("complete"))
    everything = sum(p["samples"] for p in wall["stacks"] if "stack" in p)
    assert complete > 0.99 * everything, (complete, everything)
    # The CPU's own section knows of running threads alone.
    names = {f["function"] for f in told["sample"]["functions"]}
    assert "burns" in names and not names & {"waits_in_read", "waits_in_poll", "waits_for_lock"}, names


def traced_calls_hide_no_caller():
    """The frame of a trampoline needs a register that a thread in a system call does not show. With traced functions
    of the program, calls that can block are traced, too."""
    for pattern in "lib*:*", "!*":
        told, _, _ = record_wall(PROGRAM, "1", options=("--wall", f"--trace={pattern}"))
        places = [p for p in told["wall"]["stacks"] if p["where"] == "blocked" and "stack" in p]
        complete = sum(p["samples"] for p in places if p.get("complete"))
        everything = sum(p["samples"] for p in places)
        print(f"{pattern}: {complete} of {everything} complete")
        assert complete > 0.97 * everything, (pattern, complete, everything)
        waits = {n["function"] for n in told["trace"]["nodes"] if n.get("waits_ns")}
        assert pattern != "!*" or {FUNCTIONS[name] for name in ("read", "poll", "naps")} <= waits, waits
        seen = {(function, p.get("syscall")) for p in places for function in functions_of(p)}
        assert {(FUNCTIONS[name], call) for name, call in CALLS.items()} <= seen, seen


def no_call_ends_early():
    for options in ["--wall=500"], ["--wall", "--sample=1000"]:
        _, said, _ = record_wall(PROGRAM, "2", options=options)
        count = int(said[-1].split()[1])
        print(f"{' '.join(options)}: {count} calls ended with EINTR")
        if _ticks_wait_for_the_way_out():
            assert count == 0, said[-1]
        else:
            print("this kernel may end a call early for a tick of CPU time")


# Iterations of an event loop that are stalls, with naps in them.
STALLS = r"""
#include <poll.h>
#include <stdio.h>
#include <time.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
int main(void) {
  struct pollfd input = {.fd = 0, .events = POLLIN};
  int interrupted = 0;
  for (double end = now() + 4; now() < end; interrupted += poll(&input, 1, 1) < 0)
    for (double next = now() + 0.8; now() < next;) {
      const struct timespec nap = {0, 20000};
      interrupted += nanosleep(&nap, NULL) != 0;
      for (volatile int i = 0; i < 400000; i++) {}
    }
  printf("interrupted %d\n", interrupted);
}
"""


def a_stall_ends_no_call():
    """The stacks of a stall are captured at ticks, with the sensors of `sonde record` without options."""
    path, done = record([compile_c(STALLS, "-O1")], stdin=subprocess.PIPE, text=True)
    stalls = report(path, "stalls")["stalls"]["stalls"]
    print(f"{done.stdout.strip()}, in {len(stalls)} stalls")
    assert any("hot_path" in stall for stall in stalls), stalls
    if _ticks_wait_for_the_way_out():
        assert done.stdout == "interrupted 0\n", done.stdout


def many_threads_are_all_seen():
    _many_threads_are_all_seen()


def more_threads_than_descriptors_are_all_seen():
    _many_threads_are_all_seen("prlimit", "--nofile=100")


def _many_threads_are_all_seen(*within):
    told, said, late = record_wall(PROGRAM, "1.5", "200", options=("--wall", "--malloc=off"), within=within)
    wall = told["wall"]
    tids = {int(line.split()[1]) for line in said[:-1]}
    seen = {t["tid"]: t for t in wall["threads"]}
    assert len(tids) == 206 and tids <= set(seen), (len(tids), len(seen))
    waiting = sum(p["time_ns"] for p in wall["stacks"] if "waits_in_read" in functions_of(p))
    true = sum(int(line.split()[2]) for line in said[:-1] if line.split()[0] in ("read", "more"))
    print(f"{len(seen)} threads; in read {waiting / 1e9:.2f} s of {true / 1e9:.2f}")
    assert 0.93 * true - len(seen) * late < waiting < 1.03 * true + len(seen) * late, (waiting, true)


def other_programs_are_what_they_are():
    """sleep(1) sleeps; a shell waits for its child; bad options are refused in one line."""
    told, _, late = record_wall("sleep", "1")
    place = told["wall"]["stacks"][0]
    assert place["syscall"] == "clock_nanosleep" and 0.9e9 - late < place["time_ns"] < 1.1e9 + late, place
    told, _, late = record_wall("sh", "-c", "sleep 1; true")
    place = told["wall"]["stacks"][0]
    assert place["syscall"] == "wait4" and place["time_ns"] > 0.9e9 - late, place
    done = try_sonde("record", "--wall=0", "--", "true")
    assert done.returncode == 125 and "--wall takes a number from 1 to 1000" in done.stderr, done


needs_agent()
compile_c(source_file("real", "record", "waiter.c"), "-O1", "-pthread", "-fno-optimize-sibling-calls", "-fno-inline",
          out=PROGRAM)
run_cases(globals())
