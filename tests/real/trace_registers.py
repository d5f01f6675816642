#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Traced calls keep every register that can hold an argument or a result, vectors and masks too: random
calls of an imported function that also leaves room for a tracer, through the import's trampoline, the
one in the function, and both; chunks are written and tables made meanwhile. SONDE_SEED repeats a run."""
import os
import subprocess

from helpers import SEED, WORK, compile_c, needs_agent, run_cases
from shared.calls import no_call_missing, record_trace, trace_of, trace_source

needs_agent()
CALLS = 100_000


def _build():
    source = trace_source("registers.c")
    compile_c(source, "-O2", "-g", "-fPIC", "-shared", "-DLIBRARY", out=f"{WORK}/libregisters.so")
    compile_c(source, "-O2", "-g", f"-L{WORK}", "-lregisters", f"-Wl,-rpath,{WORK}", out=f"{WORK}/registers")


def traced(how, calls=CALLS, **environment):
    path, done = record_trace(f"{WORK}/registers", str(calls), str(SEED), trace=how, env=dict(os.environ, **environment))
    assert done.returncode == 0 and done.stdout == b"%d calls\n" % calls, (SEED, done)
    told = trace_of(path)
    no_call_missing(told)
    found = [node["calls"] for node in told["trace"]["nodes"] if node["function"] in
             ("registers_far", "registers_target")]
    assert sum(found) == calls, (found, told["trace"]["nodes"])


def alone_nothing_is_lost():
    done = subprocess.run([f"{WORK}/registers", str(CALLS), str(SEED)], capture_output=True, check=False)
    assert done.returncode == 0, done


def through_the_import():
    traced("--trace=libregisters*:registers_far")


def through_the_entry():
    traced("--trace")


def through_both():
    traced("--trace=libregisters*:registers_*")


_build()
run_cases(globals())
