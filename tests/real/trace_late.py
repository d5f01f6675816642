#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde ctl PID trace=on and off while libraries come: imports, sleds and patchable entries of images that
were loaded before tracing was switched on, and of those that are loaded while it is on, whose constructors
are seen; nothing while it is off. The recorder was told of tracing at start, or not."""
import collections
import platform
import shutil
import subprocess

from helpers import compile_c, fresh, needs_agent, run_cases, skip_part, sonde, start_record
from shared.calls import paths_of, trace_of, trace_source

needs_agent()
X86 = platform.machine() == "x86_64"
KINDS = {"entries": ("gcc", [f"-fpatchable-function-entry={5 if X86 else 2}"]),
         "sleds": ("clang", ["-fxray-instrument", "-fxray-instruction-threshold=1"])}


class _Program:
    """One that does what it is told, and its recorder."""

    def __init__(self, *options):
        program = compile_c(trace_source("late_steps.c"), "-O1", "-fno-builtin", "-ldl")
        self.path, self.run = start_record([program], "--malloc=off", *options, stdin=subprocess.PIPE,
                                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.pid = self.run.stdout.readline().strip()

    def tell(self, line):
        self.run.stdin.write(line + "\n")
        self.run.stdin.flush()
        answer = self.run.stdout.readline()
        assert answer and "cannot" not in answer, (line, answer)
        return answer

    def trace(self, word):
        sonde("ctl", self.pid, f"trace={word}")

    def paths(self):
        self.run.stdin.close()
        assert self.run.wait(timeout=60) == 0
        told = trace_of(self.path)["trace"]
        assert told["lost"] == told["unmatched"] == told["left"] == 0, told
        return paths_of({"trace": told})


def _library(kind):
    compiler, room = KINDS[kind]
    out = fresh(".so")
    subprocess.run([compiler, "-O1", "-g", "-fPIC", *room, "-c", trace_source("late_library.c"), "-o", out + ".o"],
                   check=True)
    subprocess.run(["cc", "-shared", out + ".o", "-o", out], check=True)
    return out


def _here(kind):
    return shutil.which(KINDS[kind][0]) or skip_part(kind, f"{KINDS[kind][0]} is not installed")


def _steps(program, kind):
    """Traces a call of a library that was there, loads another, and calls that, twice over."""
    expected = collections.Counter()
    work = {"late_work": 1, "late_work/late_inner": 2}
    begin = {"late_begins": 1, "late_begins/late_work": 1, "late_begins/late_work/late_inner": 2}
    for _ in range(2):
        program.tell("open " + _library(kind))  # while it is off
        program.tell("work")
        program.trace("on")
        program.tell("work")
        program.tell("open " + _library(kind))  # while it is on
        program.tell("work")
        program.trace("off")
        program.tell("work")
        for part in work, work, begin:
            expected.update(part)
    return expected


def switched_on_later():
    for kind in filter(_here, KINDS):
        program = _Program()
        expected = _steps(program, kind)
        found = program.paths()
        assert found == expected, (kind, found - expected, expected - found)


def with_a_pattern_from_the_start():
    for kind in filter(_here, KINDS):
        program = _Program("--trace=libc.so*:getppid,libc.so*:strtol,late_*")
        program.trace("off")
        expected = _steps(program, kind)
        expected.update({"getppid": 4, "strtol": 4})
        found = program.paths()
        assert found == expected, (kind, found - expected, expected - found)


def in_a_forked_child():
    for options in ["--trace"], ["--trace=libc.so*:getppid,late_*"], []:
        for more in [], ["--follow"]:
            program = _Program(*options, *more)
            program.trace("on")
            assert program.tell("fork " + _library("entries")) == "27 7\n", (options, more)
            program.trace("off")
            program.tell("fork " + _library("entries"))
            program.paths()


run_cases(globals())
