#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Loops that wait in ways nobody can watch are said to be so: while the program runs, and in the report."""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "stall"))
from stall_tools import HERE, WORK, fresh, stalls, start  # noqa: E402


def program(name, *options):
    out = os.path.join(WORK, name)
    subprocess.run(["cc", "-O1", *options, "-o", out, os.path.join(HERE, "uncovered.c")], check=True)
    return out


def check(what, command, word):
    path = fresh()
    recorder = start(command, 250, path)
    _, complaints = recorder.communicate(timeout=150)
    if recorder.returncode == 3:
        print("SKIP of a part: io_uring is forbidden here")
        return
    assert recorder.returncode == 0, complaints
    print(f"{what}: {complaints.splitlines()}")
    assert bool(word) == ("seen" in complaints) and (word or "") in complaints, complaints
    told = stalls(path)["not_seen"]
    assert [word in t for t in told] == ([True] if word else []), (what, told)


plain = program("plain")
check("neither", [plain], None)
check("Go", [program("go", "-DGO")], "Go")
check("io_uring", [plain, "ring"], "io_uring")
shutil.rmtree(WORK, ignore_errors=True)
