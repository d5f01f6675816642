#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Who holds a lock of Python's module threading, against programs whose threads hold it in ways that are known."""
import itertools
import json
import os
import signal
import subprocess
import time

from helpers import kill, needs_agent, report, run_cases, skip, sonde, source_file, start_record, until
from shared.interpreters import interpreters

PROGRAM = source_file("real", "python", "locks.py")
VERSIONS = {("3", "11"), ("3", "12")}  # docs/python.md


def _pythons():
    """The first interpreter of each version."""
    found = {version[:2]: path for version, path in sorted(interpreters().items(), reverse=True)}
    return [path for version, path in sorted(found.items()) if version in VERSIONS] or skip("no CPython 3.11 or 3.12")


def _start(path, *arguments):
    """The running program, and the ids of its threads by name."""
    program = subprocess.Popen([path, PROGRAM, *arguments], stdout=subprocess.PIPE, text=True)
    return program, json.loads(program.stdout.readline())


def _threads(pid):
    return {thread["tid"]: thread for thread in json.loads(sonde("stacks", "--json", pid))["threads"]}


def deadlock():
    """Two threads take two locks in opposite orders; the main thread only joins them."""
    for path, kind in itertools.product(_pythons(), ("Lock", "RLock")):
        program, ids = _start(path, "deadlock", kind)
        try:
            until(lambda: "waits for a Python lock held by thread" in sonde("stacks", program.pid), "stacks show it")
            told = sonde("why", program.pid)
            assert told.startswith("1. Deadlock: thread ") and told.count("in transfer (locks.py:") == 2, told
            assert all(str(tid) in told for tid in ids.values()), (ids, told)
            assert "take these locks in one order" in " ".join(told.split()), told
        finally:
            kill(program)


def of_acquire():
    """Locks without a block have no known holder. `why` shows where they are waited for, not the thread that joins."""
    program, ids = _start(_pythons()[0], "acquired", "Lock")
    try:
        told = []
        until(lambda: told.append(" ".join(sonde("why", program.pid).split())) or "hangs: thread" in told[-1],
              "why finds that nobody can go on")
        assert "in acquire_both (locks.py:" in told[-1] and any(str(tid) in told[-1] for tid in ids.values()), told[-1]
        threads = _threads(program.pid)
        assert not [thread for thread in threads.values() if "owner" in thread], threads
    finally:
        kill(program)


def itself():
    program, _ = _start(_pythons()[0], "itself", "Lock")
    try:
        until(lambda: "waits for a Python lock that it holds itself" in sonde("stacks", program.pid), "stacks show it")
    finally:
        kill(program)


def held():
    """The holder has left other blocks before, and is in a block within the block."""
    for path, kind in itertools.product(_pythons(), ("Lock", "RLock")):
        program, ids = _start(path, "held", kind)
        waiters = {tid for name, tid in ids.items() if name.startswith("waiter")}
        try:
            until(lambda: {tid for tid, thread in _threads(program.pid).items() if "owner" in thread} == waiters,
                  "each waiter has a holder")
            for tid, thread in _threads(program.pid).items():
                if tid in waiters:
                    assert thread["owner"] == ids["holder"] and thread["lock"] == "Python", thread
            assert "(Python lock 0x" in sonde("stacks", program.pid)
        finally:
            kill(program)


def not_claimed():
    """A thread in Condition.wait has released the lock of the block around it, and `acquire` has no block."""
    for path, kind in itertools.product(_pythons(), ("Lock", "RLock")):
        program, ids = _start(path, "condition", kind)
        try:
            time.sleep(0.3)
            for _ in range(2):
                threads = _threads(program.pid)
                assert threads[ids["waiter"]]["syscall"] == "futex", threads[ids["waiter"]]
                assert not [thread for thread in threads.values() if "owner" in thread], threads
        finally:
            kill(program)


def end_program(recorder):
    """Ends the program of a recorder, which then completes the recording."""
    with open(f"/proc/{recorder.pid}/task/{recorder.pid}/children", encoding="utf-8") as children:
        for child in children.read().split():
            os.kill(int(child), signal.SIGKILL)
    recorder.communicate()


def recorded():
    """In a recording: `waits` has the holders, and `why` says where the lock is held."""
    needs_agent()
    path, recorder = start_record([_pythons()[0], PROGRAM, "pool", "Lock"], "--wall", "--sample", stdout=subprocess.PIPE,
                                  text=True)
    try:
        json.loads(recorder.stdout.readline())
        until(lambda: os.path.exists(path) and "held in store (locks.py:" in " ".join(sonde("why", path).split()),
              lambda: sonde("report", path, "waits") + sonde("why", path))
    finally:
        end_program(recorder)
    waits = report(path, "waits")["waits"]["waits"]
    assert [row for row in waits if row.get("owner")], waits


run_cases(globals())
