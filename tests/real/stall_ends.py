#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A stall is in the recording while it lasts; its end is added however it ends; one that does not
end is told of at once; a gate fails on it; all other sensors may be on."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "stall"))
sys.path.insert(0, os.path.join(os.environ["SONDE_SOURCE"], "tests/format"))
import reader  # noqa: E402
from stall_tools import SONDE, WORK, build, fresh, name, stalls, start  # noqa: E402

SPIN = """
import select, os, time
for i in range(6):
    select.epoll().poll(0.01)
queue = select.epoll()
for i in range(6):
    queue.poll(0.01)
print("stuck", flush=True)
os.read(os.pipe()[0], 1)
"""


def stuck():
    path = fresh()
    recorder = start(["/usr/bin/python3", "-c", SPIN], 100, path, stdout=subprocess.PIPE)
    assert recorder.stdout.readline() == "stuck\n"
    began = time.monotonic()
    with open(f"/proc/{recorder.pid}/task/{recorder.pid}/children") as f:
        return path, recorder, int(f.read().split()[0]), began


def in_the_recording_while_it_lasts():
    path, recorder, program, _ = stuck()
    time.sleep(0.6)
    told = stalls(path)["stalls"]
    assert len(told) == 1 and told[0]["ending"] == "open", told
    assert told[0]["call"] == "read" and told[0]["what"].startswith("pipe:")
    os.kill(program, signal.SIGKILL)
    recorder.communicate(timeout=20)


def a_kill_ends_it_exactly():
    path, recorder, program, began = stuck()
    time.sleep(0.7)
    os.kill(program, signal.SIGKILL)
    lasted = time.monotonic() - began
    recorder.communicate(timeout=20)
    assert recorder.returncode == -signal.SIGKILL
    told = stalls(path)["stalls"]
    assert len(told) == 1 and told[0]["ending"] == "killed", told
    off = abs(told[0]["total_ns"] / 1e9 - lasted)
    print(f"killed in a stall after {lasted:.3f} s: off by {1e3 * off:.1f} ms")
    assert off < 0.05


def the_recorder_is_killed():
    path, recorder, program, _ = stuck()
    time.sleep(0.6)
    recorder.kill()
    recorder.wait(timeout=20)
    os.kill(program, signal.SIGKILL)
    told = stalls(path)["stalls"]
    assert len(told) == 1 and told[0]["ending"] == "open", told


def told_of_while_it_lasts():
    path, recorder, program, began = stuck()
    line = recorder.stderr.readline()
    after = time.monotonic() - began
    assert "has stalled for 2." in line and "read" in line, line
    print(f"told of after {after:.2f} s: {line.strip()}")
    os.kill(program, signal.SIGKILL)
    recorder.communicate(timeout=20)


def gate(path, limit):
    return subprocess.run([SONDE, "report", path, "stalls", "--max", limit],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode


def with_everything_on():
    corpus, path = build("corpus"), fresh()
    kinds = ["cpu", "pipe-read", "late-sleep", "mutex-asleep", "nested"]
    done = subprocess.run([SONDE, "record", "--malloc=all", "--sample", "--stall=100", "--cpu=20,1",
                           "--trace", "--audit", "-o", path, "--", corpus, "3", "100", *kinds],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    truths = [json.loads(line) for line in done.stdout.splitlines()]
    told = stalls(path)["stalls"]
    right = sum(name(s) in t["culprits"].split("|") for s, t in zip(told, truths))
    print(f"all sensors on: {right} of {len(truths)} named right")
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


def main():
    if not os.path.exists("/usr/bin/python3"):
        print("SKIP: no /usr/bin/python3")
        sys.exit(77)
    in_the_recording_while_it_lasts()
    a_kill_ends_it_exactly()
    the_recorder_is_killed()
    told_of_while_it_lasts()
    with_everything_on()
    shutil.rmtree(WORK, ignore_errors=True)


main()
