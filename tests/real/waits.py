#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde report FILE waits: who waited how long, for what, and on whom. The oracles are a program's own clock,
and strace -T of packaged programs in the same run."""
import os
import random
import re
import subprocess

from helpers import (
    SEED, Delays, fresh, needs, needs_agent, record, report, run_cases, start_record, until,
    until_asleep, until_child)
from shared.stalls import build, name, stalls
from shared.timing import near

draw = random.Random(SEED)


def waits(path):
    return report(path, "--top", 100000, "waits")["waits"]


def kinds_of_futex_waits():
    """By name of the thread: what it waits for, as the source of the program says."""
    path, said = record([build("wait_kinds")], "--wall", text=True)
    assert said.returncode == 0, said.stderr
    main = said.stdout.strip()
    longest = {}
    for w in waits(path)["waits"]:
        if w["time_ns"] > longest.get(w["thread"], {"time_ns": 0})["time_ns"]:
            longest[w["thread"]] = w
    kinds = {name: w.get("for") for name, w in longest.items()}
    expected = {"reader": "a lock", "writer": "a lock", "upgrader": "a lock", "cond": "a condition variable",
                "sem": "a semaphore", "barrier": "a barrier", "join": "the end of a thread"}
    assert {name: kinds.get(name) for name in expected} == expected, kinds
    assert str(longest["reader"]["owner"]) == str(longest["writer"]["owner"]) == main, longest
    assert longest["reader"]["lock"] == longest["writer"]["lock"] != longest["upgrader"]["lock"], longest
    assert "owner" not in longest["upgrader"], longest  # a reader, which the lock does not name


def stalls_in_functions_that_wait_in_futex():
    """The call of a stall is the one of the program: the function that blocked is named after it."""
    path, recorder = start_record([build("futex_calls")], "--stall=50", stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE)
    assert recorder.stdout.readline() == b"ready\n"  # so there is a recording
    for call in "pthread_cond_wait", "sem_wait", "pthread_join", "pthread_mutex_lock":
        until(lambda call=call: "in_" + call in map(name, stalls(path)["stalls"]), f"a stall in {call}")
        recorder.stdin.write(b"x")
        recorder.stdin.flush()
    _, complaints = recorder.communicate(timeout=150)
    assert recorder.returncode == 0, complaints
    calls = {name(stall): stall["call"] for stall in stalls(path)["stalls"] if name(stall).startswith("in_")}
    assert len(calls) == 4 and all(function == "in_" + call for function, call in calls.items()), calls


def known_waits():
    seconds, program = draw.uniform(2, 3), build("waits")
    with Delays() as delays:
        path, said = record([program, f"{seconds:.2f}"], "--wall", text=True)
    assert said.returncode == 0, said.stderr
    told = waits(path)
    lines = [line.split() for line in said.stdout.splitlines()]
    assert len(lines) == 7
    locks = {lock["lock"]: lock for lock in told["locks"]}
    partners = {}
    for kind, tid, _, address, *_ in lines:
        partners.setdefault(address, []).append(int(tid))
    for kind, tid, ns, address, _, owner in lines:
        tid, true = int(tid), int(ns) / 1e9
        mine = [w for w in told["waits"] if w["tid"] == tid]
        if kind in ("mutex", "turns"):
            mine = [w for w in mine if w.get("lock") == address]
            right = [int(owner)] if kind == "mutex" else [t for t in partners[address] if t != tid]
            held = sum(w["time_ns"] for w in mine if w.get("owner") in right) / 1e9
            near(held, true, f"{kind} of {tid}, held by {right}", delays)
        elif kind == "pipe":
            mine = [w for w in mine if w["syscall"] == "read" and w["what"].startswith("pipe:")]
        else:
            mine = [w for w in mine if w["syscall"] == "flock" and "/sonde-waits-" in w["what"]]
        near(sum(w["time_ns"] for w in mine) / 1e9, true, f"{kind} of {tid}", delays)
    for address, threads in partners.items():
        if address == "(nil)":
            continue
        lock = locks[address]
        assert lock["waiters"] == len(threads), lock
        assert lock["time_ns"] == sum(w["time_ns"] for w in told["waits"] if w.get("lock") == address)
        if len(threads) == 3:
            near(lock["owner_ns"] / 1e9, lock["time_ns"] / 1e9, "the lock, while one held it", delays)


PYTHON = """
import select, subprocess, sys, threading, time, os
sys.stdin.readline()
time.sleep(0.7)
subprocess.run(["sleep", "0.8"])
a, b = os.pipe()
threading.Timer(0.9, lambda: os.write(b, b"x")).start()
select.select([a], [], [])
select.epoll().poll(0.6)
event = threading.Event()
threading.Timer(0.5, event.set).start()
event.wait()
"""
SHELL = "read go; sleep 0.6; sleep 0.7 | cat; sleep 0.5"
CALL = re.compile(r"^(\d+) +(?:(\w+)\(|<\.\.\. (\w+) resumed).*<(\d+\.\d+)>$")


def compare_with_strace(name, command, calls):
    """Of the program's first thread. It waits for a line until strace has it: the recorder is not to be traced."""
    needs("strace")
    log = fresh(".strace")
    path, recorder = start_record(command, "--wall", stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True)
    program = until_child(recorder.pid)
    until(lambda: os.path.basename(os.readlink(f"/proc/{program}/exe")) != "sonde", "it starts")
    until_asleep(program)
    strace = subprocess.Popen(["strace", "-f", "-T", "-o", log, "-e", "trace=" + ",".join(calls), "-p", str(program)],
                              stderr=subprocess.PIPE, text=True)
    assert "attached" in strace.stderr.readline()
    with Delays() as delays:
        _, complaints = recorder.communicate("go\n", timeout=150)
    assert recorder.returncode == 0, complaints
    strace.communicate(timeout=150)
    true, told = dict.fromkeys(calls, 0.0), dict.fromkeys(calls, 0.0)
    with open(log) as f:
        for m in filter(None, map(CALL.match, f)):
            if int(m.group(1)) == program and (m.group(2) or m.group(3)) in true:
                true[m.group(2) or m.group(3)] += float(m.group(4))
    for w in waits(path)["waits"]:
        if w["tid"] == program and w.get("syscall") in told:
            told[w["syscall"]] += w["time_ns"] / 1e9
    for call in calls:
        assert true[call] > 0.4, true
        near(told[call], true[call], f"{name}: {call}", delays)


def those_of_python_as_strace_says():
    compare_with_strace("python3", ["/usr/bin/python3", "-c", PYTHON],
                        ["clock_nanosleep", "wait4", "pselect6", "epoll_wait", "futex"])


def those_of_a_shell_as_strace_says():
    compare_with_strace("sh", ["sh", "-c", SHELL], ["wait4"])


needs_agent()
run_cases(globals())
