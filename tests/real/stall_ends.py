#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A stall is in the recording while it lasts; its end is added however it ends; one that does not
end is told of at once; a gate fails on it; all other sensors may be on."""
import glob
import json
import os
import re
import signal
import socket
import subprocess
import time

from format import reader
from helpers import (
    WORK, child_of, fresh, needs, needs_agent, record, run_cases, skip, start_record, try_sonde, until)
from shared.stalls import build, name, overlap, stalls, start, start_us

SPIN = """
import select, os, time
for i in range(6):
    select.epoll().poll(0.01)
queue = select.epoll()
for i in range(6):
    called = time.monotonic()
    queue.poll(0.01)
print("stuck", called, time.monotonic(), flush=True)
os.read(os.pipe()[0], 1)
"""


def _stuck():
    """Also the times before and after the last wait of its loop, in between which the stall begins."""
    path = fresh()
    recorder = start(["/usr/bin/python3", "-c", SPIN], 100, path, stdout=subprocess.PIPE)
    word, called, began = recorder.stdout.readline().split()
    assert word == "stuck"
    return path, recorder, child_of(recorder.pid), float(called), float(began)


def until_seen(path):
    until(lambda: stalls(path)["stalls"], "a stall in the recording")


def in_the_recording_while_it_lasts():
    path, recorder, program, *_ = _stuck()
    until_seen(path)
    told = stalls(path)["stalls"]
    assert len(told) == 1 and told[0]["ending"] == "open", told
    assert told[0]["call"] == "read" and told[0]["what"].startswith("pipe:")
    os.kill(program, signal.SIGKILL)
    recorder.communicate(timeout=150)


def a_kill_ends_it_exactly():
    path, recorder, program, called, began = _stuck()
    until_seen(path)
    time.sleep(0.5)
    least = time.monotonic() - began
    os.kill(program, signal.SIGKILL)
    recorder.communicate(timeout=150)
    most = time.monotonic() - called
    assert recorder.returncode == -signal.SIGKILL
    told = stalls(path)["stalls"]
    assert len(told) == 1 and told[0]["ending"] == "killed", told
    lasted = told[0]["total_ns"] / 1e9
    print(f"killed in a stall after {least:.3f} to {most:.3f} s: told as {lasted:.3f}")
    assert least - 0.001 < lasted < most + 0.001


def the_recorder_is_killed():
    path, recorder, program, *_ = _stuck()
    until_seen(path)
    recorder.kill()
    recorder.wait(timeout=150)
    os.kill(program, signal.SIGKILL)
    told = stalls(path)["stalls"]
    assert len(told) == 1 and told[0]["ending"] == "open", told


LARGE = """
import mmap, os, select
memory = mmap.mmap(-1, 2 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x8000)  # MAP_POPULATE
queue = select.epoll()
for i in range(12):
    queue.poll(0.02)
os._exit(0)
"""


def the_end_of_a_large_program_is_none():
    """Two gigabytes are taken from it, page by page, while its thread is still to be seen."""
    if os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") < 3 << 30:
        skip("too little memory")
    path = fresh()
    recorder = start(["/usr/bin/python3", "-c", LARGE], 50, path)
    _, complaints = recorder.communicate(timeout=150)
    assert recorder.returncode == 0, complaints
    assert not stalls(path)["stalls"], stalls(path)


def told_of_while_it_lasts():
    path, recorder, program, _, began = _stuck()
    line = recorder.stderr.readline()
    after = time.monotonic() - began
    assert float(re.search(r"has stalled for ([\d.]+)", line)[1]) >= 2 and "read" in line, line
    print(f"told of after {after:.2f} s: {line.strip()}")
    os.kill(program, signal.SIGKILL)
    recorder.communicate(timeout=150)


def gate(path, limit):
    return try_sonde("report", path, "stalls", "--max", limit).returncode


def with_everything_on():
    kinds = ["cpu", "pipe-read", "late-sleep", "mutex-asleep", "nested"]
    path, done = record([build("corpus"), "3", "100", *kinds], "--malloc=all", "--sample", "--stall=100", "--cpu=20,1",
                        "--trace", "--audit", text=True)
    assert done.returncode == 0, done.stderr
    truths = [json.loads(line) for line in done.stdout.splitlines()]
    told, began = stalls(path)["stalls"], start_us(path)
    right = sum(any(name(s) in t["culprits"].split("|") for s in told
                    if overlap(s, t["began_us"], t["took_us"], began) > t["took_us"] / 2) for t in truths)
    print(f"all sensors on: {right} of {len(truths)} named right:",
          [(name(s), s["cause"], s["total_ns"] // 1000000) for s in told], [t["culprits"] for t in truths])
    assert len(told) == len(truths) and right >= len(truths) - 1
    assert gate(path, "100ms") == 1 and gate(path, "100s") == 0 and gate(path, "soon") == 2
    recording = reader.Recording(path)
    for _ in recording.events():
        pass
    assert len(recording.stalls) == len(told)
    for ours, s in zip(told, recording.stalls.values()):
        assert ours["tid"] == s["tid"] and s["ending"] == 0
        ns = recording.nanoseconds(s["end"]) - recording.nanoseconds(s["began"])
        assert abs(ns - ours["total_ns"]) < 1e5
        assert len(s["samples"]) == ours["samples"]


CHILDREN = """
import os, select, subprocess, sys
LOOP = "import select, time\\nnow = time.monotonic\\nfor i in range(12): select.epoll().poll(0.01)\\n" \
       "q = select.epoll()\\nfor i in range(8): a = now(); q.poll(0.01)\\nb = now(); time.sleep(0.5)\\n" \
       "c = now(); q.poll(0.01); print(c - b, now() - a, flush=True)"
child = os.fork()
if child == 0:
    exec(LOOP)
    os._exit(0)
os.waitpid(child, 0)
subprocess.run([sys.executable, "-c", LOOP], check=True)
"""


def children_are_watched_when_followed():
    path, done = record(["/usr/bin/python3", "-c", CHILDREN], "--stall=150", "--follow", text=True)
    assert done.returncode == 0, done.stderr
    children = glob.glob(path.replace(".sonde", ".*.sonde"))
    told = [stalls(child)["stalls"] for child in children]
    print("children:", [[(s["call"], s["length_ns"] // 1000000) for s in t] for t in told])
    assert len(children) == 2 and [len(t) for t in told] == [1, 1], told
    assert all(t[0]["call"] == "clock_nanosleep" for t in told), told
    # By the program's own clock: the sleep alone, and all from the call before it to the end of the one after.
    said = [tuple(map(float, line.split())) for line in done.stdout.splitlines()]
    least, most = min(least for least, _ in said), max(most for _, most in said)
    assert least >= 0.5 and all(least - 0.001 <= t[0]["total_ns"] / 1e9 <= most + 0.001 for t in told), (said, told)


def redis_with_everything_on():
    needs("redis-server")
    socket_path = os.path.join(WORK, "redis.sock")
    path, recorder = start_record(
        ["redis-server", "--port", "0", "--unixsocket", socket_path, "--save", "", "--enable-debug-command", "yes",
         "--dir", WORK], "--malloc=all", "--sample", "--wall", "--stall=250", "--cpu=80,5", "--trace=libc*:epoll_ctl",
        "--audit", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    with socket.socket(socket.AF_UNIX) as s:

        def listens():  # the path is there a moment before
            assert recorder.poll() is None, recorder.stderr.read()
            return s.connect_ex(socket_path) == 0
        until(listens, "redis listens")

        def ask(line):
            s.sendall(line + b"\r\n")
            answer = s.recv(256)
            assert answer[:1] in b"+:$", (line, answer)
        for i in range(3000):
            ask(b"SET key:%d value" % (i % 100))
        began = time.monotonic()
        ask(b"DEBUG SLEEP 0.6")
        for i in range(20):
            ask(b"PING")
        most = time.monotonic() - began
    recorder.terminate()
    _, complaints = recorder.communicate(timeout=150)
    told = stalls(path)["stalls"]
    print("redis, everything on:", [(s.get("call"), round(s["total_ns"] / 1e6)) for s in told])
    asleep = [s for s in told if s.get("call") in ("nanosleep", "clock_nanosleep")]
    assert len(asleep) == 1 and 0.6 <= asleep[0]["total_ns"] / 1e9 < most + 0.05, (told, complaints)


needs_agent()
needs("/usr/bin/python3")
run_cases([in_the_recording_while_it_lasts, a_kill_ends_it_exactly, the_recorder_is_killed,
           the_end_of_a_large_program_is_none, told_of_while_it_lasts, with_everything_on, redis_with_everything_on,
           children_are_watched_when_followed])
