#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The crash handler of examples/: a program that crashes in a worker thread, inside malloc, and by
overflowing its stack prints every one of its threads and dies of the signal it would have died of."""
import os
import re
import signal
import subprocess

from helpers import INCLUDE, LINK_SHARED, SOURCE, WORK, check, compile_c, needs_plain_build, run_cases

# On a busy machine a thread that computes may get no CPU time for long. Here it is waited for.
LIMIT = "-DOTHER_THREADS_NS=100000000000"


def stacks_of(text):
    """The functions of each thread's stack, by the thread's name."""
    stacks = {}
    for block in text.split("\nthread ")[1:]:
        head, *lines = block.splitlines()
        name = head.split(" ", 1)[1].removesuffix(" crashed")
        stacks[name] = [re.split(r"[.+]", line.split()[2])[0] for line in lines if line[0:1] == "#"]
    return stacks


def _crash(way, wanted_signal, crashed_in):
    done = subprocess.run([PROGRAM, way], capture_output=True, text=True, timeout=150)
    stacks = stacks_of(done.stderr)
    good = [
        check(done.returncode == -wanted_signal, f"died of {-done.returncode}, not {wanted_signal}"),
        check(re.search(r"thread \d+ crasher crashed", done.stderr), "the crashed thread is not named")]
    for name, function in (("crash_handler", "main"), ("waiter", "wait_for_lock"),
                           ("computer", "compute"), ("crasher", crashed_in)):
        good.append(check(function in stacks.get(name, []), f"{function} is not on the stack of {name}"))
    good += [check(len(stacks) == 4, "other threads than its own"),
             check("the walk ended" not in done.stderr, "an incomplete stack")]
    if not all(good):
        print(done.stderr)
    return f"{len(stacks)} threads, {sum(map(len, stacks.values()))} frames"


def in_a_worker_thread():
    return _crash("worker", signal.SIGSEGV, "crash_worker")


def inside_malloc():
    return _crash("malloc", signal.SIGABRT, "crash_malloc")


def by_overflowing_the_stack():
    return _crash("overflow", signal.SIGSEGV, "recurse")


needs_plain_build()
PROGRAM = compile_c(os.path.join(SOURCE, "examples", "crash_handler.c"), "-g", "-O1", "-pthread", "-D_GNU_SOURCE", LIMIT, INCLUDE,
                    *LINK_SHARED, out=os.path.join(WORK, "crash_handler"))
run_cases(globals())
