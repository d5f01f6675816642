#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A program that crashes while it is recorded leaves the last stack of every thread, ends as it
would have ended, and sees nothing of it."""
import os
import re
import resource
import subprocess

from helpers import WORK, compile_c, needs_agent, record, report, run_cases, sonde, source_file

# Which frame the crashing thread's stack must hold.
CASES = {"segv": ("fall_here", 11), "abort": ("abort", 6), "fpe": ("raise", 8), "kill": ("main", 11),
         "trap": ("raise", 5), "other": ("crash_elsewhere", 11), "again": ("fall_here", 11),
         "overflow": ("overflow", 11)}


def _run(how, *options):
    plain = subprocess.run([PROGRAM, how], capture_output=True, timeout=150)
    path, done = record([PROGRAM, how], *options)
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout), (how, plain, done)
    return path, done, report(path)["crash"]


def _last_stacks(how):
    """The path of a recording in which every thread has its last stack; the crash and the functions of the stacks. A thread
    that gets no CPU time for 0.3 s, on a busy machine, has none: then the program crashes once more."""
    for _ in range(20):
        path, done, crash = _run(how, "--malloc=malloc")
        assert done.returncode == -CASES[how][1], (how, done)
        stacks = [[f.get("function", "?") for f in t["frames"]] for t in crash["threads"]]
        print(how, [len(s) for s in stacks], stacks[0][:3])
        if all(stacks):
            break
    return path, crash, stacks


def every_thread_has_a_last_stack():
    for how, (function, number) in CASES.items():
        path, crash, stacks = _last_stacks(how)
        assert crash["signal"] == number, (how, crash)
        assert any(function in f for f in stacks[0]), (how, stacks[0])
        others = [next((w for w in ("wait_here", "compute_here", "main") if w in s), None)
                  for s in stacks[1:]]
        wanted = ["wait_here", "wait_here", "compute_here"] + ["main"] * (how == "other")
        assert sorted(filter(None, others)) == sorted(wanted) and all(stacks), (how, stacks)
        if how == "segv":
            event, = [line for line in sonde("events", path).splitlines() if '"event":"crash",' in line]
            stack = re.search(r'"stack":(\d+)', event)[1]
            history = sonde("history", path, f"stack:{stack}").splitlines()
            assert re.match(rf"thread {crash['threads'][0]['tid']} crashed here$", history[-1]), history
        if how in ("segv", "again", "other"):
            assert crash["address"] == "0x10"


def a_handled_crash_is_none():
    for how in "handler", "see":
        _, _, crash = _run(how)
        assert "signal" not in crash, (how, crash)


def with_other_sensors():
    _, _, crash = _run("segv", "--malloc=live", "--sample=99")
    assert crash["signal"] == 11


needs_agent()
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
PROGRAM = compile_c(source_file("real", "record", "crasher.c"), "-O1", "-g", "-w", "-pthread", "-fno-inline",
                    "-fno-optimize-sibling-calls", out=os.path.join(WORK, "crasher"))
run_cases(globals())
