#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Loops that wait in ways nobody can watch are said to be so: while the program runs, and in the report."""
from helpers import compile_c, fresh, needs_agent, run_cases, skip, source_file
from shared.stalls import stalls, start


def _program(*options):
    return compile_c(source_file("real", "stall", "uncovered.c"), "-O1", *options)


def watch(command, word):
    """WORD is in what is said to be not seen; None: nothing is."""
    path = fresh()
    recorder = start(command, 250, path)
    _, complaints = recorder.communicate(timeout=150)
    if recorder.returncode == 3:
        skip("io_uring is forbidden here")
    assert recorder.returncode == 0, complaints
    print(complaints.splitlines())
    assert bool(word) == ("not detected" in complaints) and (word or "") in complaints, complaints
    told = stalls(path)["unsampled"]
    assert [word in t for t in told] == ([True] if word else []), told


def other_loops():
    watch([_program()], None)


def loops_of_go():
    watch([_program("-DGO")], "Go")


def loops_on_io_uring():
    watch([_program(), "ring"], "io_uring")


needs_agent()
run_cases(globals())
