#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Traced calls keep every register that can hold an argument or a result, vectors and masks too: random
calls of an imported function that also leaves room for a tracer, through the import's trampoline, the
one in the function, and both; chunks are written and tables made meanwhile. SONDE_SEED repeats a run."""
import os
import subprocess
import time

from shared.calls import HERE, nothing_missing, record, report
from shared.cases import WORK, needs_agent, run

needs_agent()
CALLS = 100_000
SEED = os.environ.get("SONDE_SEED") or str(time.monotonic_ns())


def _build():
    source = os.path.join(HERE, "registers.c")
    subprocess.run(["cc", "-O2", "-g", "-fPIC", "-shared", "-DLIBRARY", source, "-o", f"{WORK}/libregisters.so"],
                   check=True)
    subprocess.run(["cc", "-O2", "-g", source, "-o", f"{WORK}/registers", f"-L{WORK}", "-lregisters",
                    f"-Wl,-rpath,{WORK}"], check=True)


def traced(how, calls=CALLS, **environment):
    path, done = record(f"{WORK}/registers", str(calls), SEED, trace=how, env=dict(os.environ, **environment))
    assert done.returncode == 0 and done.stdout == b"%d calls\n" % calls, (SEED, done)
    told = report(path)
    nothing_missing(told)
    found = [node["calls"] for node in told["trace"]["nodes"] if node["function"] in
             ("registers_far", "registers_target")]
    assert sum(found) == calls, (found, told["trace"]["nodes"])


def alone_nothing_is_lost():
    done = subprocess.run([f"{WORK}/registers", str(CALLS), SEED], capture_output=True, check=False)
    assert done.returncode == 0, done


def through_the_import():
    traced("--trace=libregisters*:registers_far")


def through_the_entry():
    traced("--trace")


def through_both():
    traced("--trace=libregisters*:registers_*")


print("SONDE_SEED=" + SEED)
_build()
run(globals())
