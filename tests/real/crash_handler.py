#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The crash handler of examples/: a program that crashes in a worker thread, inside malloc, and by
overflowing its stack prints every one of its threads and dies of the signal it would have died of."""
import os
import re
import signal
import subprocess
import sys

PROGRAM = os.path.join(os.environ["SONDE_BUILD"], "examples", "crash_handler")
FAULTS = []

if not os.path.exists(PROGRAM):
    print("skipped: the examples are not built with a sanitizer")
    sys.exit(77)


def expect(way, what, good):
    if not good:
        FAULTS.append(f"{way}: {what}")


def stacks_of(text):
    """The functions of each thread's stack, by the thread's name."""
    stacks = {}
    for block in text.split("\nthread ")[1:]:
        head, *lines = block.splitlines()
        name = head.split(" ", 1)[1].removesuffix(" crashed")
        stacks[name] = [re.split(r"[.+]", line.split()[2])[0] for line in lines if line[0:1] == "#"]
    return stacks


def crash(way, wanted_signal, crashed_in):
    faults_before = len(FAULTS)
    done = subprocess.run([PROGRAM, way], capture_output=True, text=True, timeout=150)
    stacks = stacks_of(done.stderr)
    expect(way, f"died of {-done.returncode}, not {wanted_signal}",
           done.returncode == -wanted_signal)
    expect(way, "the crashed thread is not named", re.search(r"thread \d+ crasher crashed", done.stderr))
    for name, function in (("crash_handler", "main"), ("waiter", "wait_for_lock"),
                           ("computer", "compute"), ("crasher", crashed_in)):
        expect(way, f"{function} is not on the stack of {name}", function in stacks.get(name, []))
    expect(way, "other threads than its own", len(stacks) == 4)
    expect(way, "an incomplete stack", "no further" not in done.stderr)
    print(f"{way}: {len(stacks)} threads, {sum(map(len, stacks.values()))} frames")
    if len(FAULTS) > faults_before:
        print(done.stderr)


if os.environ.get("SONDE_SANITIZED"):
    print("skipped: a sanitizer handles crashes itself, and its frames outgrow a signal stack")
    sys.exit(77)
crash("worker", signal.SIGSEGV, "crash_worker")
crash("malloc", signal.SIGABRT, "crash_malloc")
crash("overflow", signal.SIGSEGV, "recurse")
print("\n".join(FAULTS))
sys.exit(1 if FAULTS else 0)
