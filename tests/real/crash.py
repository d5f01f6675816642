#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A program that crashes while it is recorded leaves the last stack of every thread, ends as it
would have ended, and sees nothing of it."""
import json
import os
import resource
import subprocess

from shared.cases import WORK, fresh, needs_agent

SONDE = os.environ["SONDE"]
HERE = os.path.join(os.environ["SONDE_SOURCE"], "tests")
# Which frame the crashing thread's stack must hold; None: nothing can be recorded.
CASES = {"segv": ("fall_here", 11), "abort": ("abort", 6), "fpe": ("raise", 8), "kill": ("main", 11),
         "trap": ("raise", 5), "other": ("crash_elsewhere", 11), "again": ("fall_here", 11),
         "overflow": (None, 11)}


def main():
    needs_agent()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    program = os.path.join(WORK, "crasher")
    subprocess.run(["cc", "-O1", "-g", "-w", "-pthread", "-fno-inline", "-fno-optimize-sibling-calls",
                    "-o", program, os.path.join(HERE, "real/record/crasher.c")], check=True)

    def run(how, *options):
        plain = subprocess.run([program, how], capture_output=True, timeout=150)
        path = fresh()
        done = subprocess.run([SONDE, "record", *options, "-o", path, "--", program, how],
                              capture_output=True, timeout=150)
        assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout), (how, plain, done)
        told = subprocess.run([SONDE, "report", "--json", path], capture_output=True, check=True)
        return done, json.loads(told.stdout)["crash"]

    for how, (function, number) in CASES.items():
        done, crash = run(how, "--malloc=malloc")
        assert done.returncode == -number, (how, done)
        if function is None:
            print(how, "crash" if "signal" in crash else "nothing was recorded")
            continue
        assert crash["signal"] == number, (how, crash)
        stacks = [[f.get("function", "?") for f in t["frames"]] for t in crash["threads"]]
        print(how, [len(s) for s in stacks], stacks[0][:3])
        assert any(function in f for f in stacks[0]), (how, stacks[0])
        others = [next((w for w in ("wait_here", "compute_here", "main") if w in s), None)
                  for s in stacks[1:]]
        wanted = ["wait_here", "wait_here", "compute_here"] + ["main"] * (how == "other")
        assert sorted(filter(None, others)) == sorted(wanted), (how, stacks)
        if how in ("segv", "again", "other"):
            assert crash["address"] == "0x10"
    _, crash = run("handler")
    assert "signal" not in crash
    _, crash = run("see")
    assert "signal" not in crash
    _, crash = run("segv", "--malloc=live", "--sample=99")
    assert crash["signal"] == 11


main()
