#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Who holds Python's global lock and who waits for it, against programs whose threads hold it in ways that are known:
in calls of the C library that keep the lock (ctypes.PyDLL) or release it (ctypes.CDLL)."""
import json
import os
import re
import signal
import subprocess
import time

from helpers import kill, needs_agent, report, run_cases, skip, sonde, source_file, start_record, until
from shared.interpreters import any_interpreter, interpreters

PROGRAM = source_file("real", "python", "gil.py")


def _has_ctypes(path):
    return subprocess.run([path, "-c", "import ctypes"], capture_output=True, check=False).returncode == 0


def _command(mode, path=None):
    path = path or any_interpreter()
    return [path, PROGRAM, mode] if _has_ctypes(path) else skip("no ctypes")


def _start(mode, path=None):
    """The running program, and the ids of its threads by name."""
    program = subprocess.Popen(_command(mode, path), stdout=subprocess.PIPE, text=True)
    return program, json.loads(program.stdout.readline())


def _threads(pid):
    time.sleep(0.1)  # a look costs much more than what it looks at changes
    return {thread["tid"]: thread for thread in json.loads(sonde("stacks", "--json", pid))["threads"]}


def _waits_for_holder(program, ids, at):
    """Waits until stacks have shown each waiter at the lock, and the holder where AT(thread) says. From the first look
    with the holder there, the lock never changes its holder. From 3.12 on the holder is unknown while a thread that asks
    for the lock has its mutex."""
    waiting = {tid for name, tid in ids.items() if name != "holder"}
    until(lambda: at(_threads(program.pid)[ids["holder"]]), "the holder is in its call")
    seen = set()

    def all_wait():
        for tid, thread in _threads(program.pid).items():
            assert tid == ids["holder"] or not thread.get("holds_gil"), thread
            if thread.get("holds_gil"):
                seen.add(tid)
            if thread.get("lock") == "GIL" and "owner" in thread:
                assert thread["owner"] == ids["holder"] and thread["syscall"] == "futex", (ids, thread)
                assert f"held by thread {ids['holder']})" in thread["wait"], thread
                seen.add(tid)
        return seen >= waiting | {ids["holder"]}
    until(all_wait, lambda: (seen, waiting))


def versions():
    """The holder sleeps with the lock. All others wait for it. SONDE_PYTHONS=all: in each version that this machine has
    (./run soak)."""
    done = []
    everything = os.environ.get("SONDE_PYTHONS") == "all"
    for version, path in sorted(interpreters().items()) if everything else [("any", any_interpreter())]:
        if not _has_ctypes(path):
            continue
        program, ids = _start("blocked", path)
        try:
            _waits_for_holder(program, ids, lambda thread: thread.get("syscall") == "poll")
        finally:
            kill(program)
        done.append(version if version == "any" else ".".join(version))
    return ", ".join(done) if done else skip("no CPython with ctypes")


def a_holder_that_runs():
    program, ids = _start("busy")
    try:
        _waits_for_holder(program, ids, lambda thread: any("lfind" in frame.get("function", "")
                                                           for frame in thread["frames"]))
        said = f" in pthread_cond_timedwait(the GIL, held by thread {ids['holder']})"
        until(lambda: said in sonde("stacks", program.pid), "a look finds a waiter that does not just ask for the lock")
    finally:
        kill(program)


def threads_that_take_turns():
    """At the instant at which a thread is read: one in `poll` has the lock, one in other calls has not, and one that
    waits for it is no owner of it."""
    looks = int(os.environ.get("SONDE_GIL_LOOKS", "1"))
    program, _ = _start("turns")
    version = subprocess.check_output([any_interpreter(), "-c", "import sys; print(sys.version_info[1])"])
    notes_holder = int(version) < 12
    seen = {"holds": 0, "released": 0, "waits": 0, "owners": 0}
    try:
        while looks > 0 or not all(seen.values()):
            looks -= 1
            for tid, thread in _threads(program.pid).items():
                call, holds = thread.get("syscall"), thread.get("holds_gil", False)
                if thread.get("lock") == "GIL":
                    assert call == "futex" and not holds and thread.get("owner") != tid, thread
                    seen["waits"] += 1
                    seen["owners"] += "owner" in thread
                elif call == "poll":
                    assert holds or not notes_holder, thread
                    seen["holds"] += holds
                elif call in ("pselect6", "clock_nanosleep"):
                    assert not holds, thread
                    seen["released"] += 1
    finally:
        kill(program)
    return str(seen)


def deadlock():
    """One thread has the lock and waits for a mutex. The owner of the mutex waits for the lock."""
    program, ids = _start("deadlock")
    cycle = (f"thread {ids['gil']} \"python3", "waits for a mutex held by thread",
             f"waits for the GIL held by thread {ids['gil']}")

    def found():
        printed = sonde("stacks", program.pid)
        return "deadlock:" in printed and all(part in printed for part in cycle[1:])
    try:
        until(found, "stacks show the deadlock")
        until(lambda: "Deadlock: " in sonde("why", program.pid), "why finds the deadlock")
    finally:
        kill(program)


def recorded():
    """In a recording: `waits` and `why` name the lock and its holder, and what the holder does."""
    needs_agent()
    path, recorder = start_record(_command("busy"), "--wall", "--sample", stdout=subprocess.PIPE, text=True)
    try:
        ids = json.loads(recorder.stdout.readline())
        waiters = {tid for name, tid in ids.items() if name != "holder"}

        def complete():
            time.sleep(0.5)
            explained = sonde("why", path) if os.path.exists(path) else ""
            if "for the GIL, held in count_in_c (gil.py:" not in explained:
                return False
            rows = [row for row in report(path, "waits")["waits"]["waits"] if row.get("what") == "GIL"]
            return {row["tid"] for row in rows if row.get("owner") == ids["holder"]} >= waiters
        until(complete, lambda: sonde("report", path, "waits") + sonde("why", path))
    finally:
        kill_program(recorder)
    locks = report(path, "waits")["waits"]["locks"]
    assert [lock["name"] for lock in locks if lock.get("owner") == ids["holder"]] == ["GIL"], locks
    printed = sonde("report", path, "waits")
    assert "  the GIL" in printed and re.search(rf" %  {ids['holder']} \(.*  GIL$", printed, re.M), printed


def kill_program(recorder):
    """Ends the program of a recorder, which then completes the recording."""
    with open(f"/proc/{recorder.pid}/task/{recorder.pid}/children", encoding="utf-8") as children:
        for child in children.read().split():
            os.kill(int(child), signal.SIGKILL)
    recorder.communicate()


run_cases(globals())
