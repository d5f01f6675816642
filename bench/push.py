#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `sonde push` costs: CPU time as a share of the time that a recording covers. The program is python3, with stacks
of Python functions, sampled 100 times a second. The receiver takes everything at once.

usage: push.py [SECONDS]   (default 180; 60 and more)

First `sonde record --push` with an interval of 60 s: the process that sends, and the threads of the recorder. Then
`sonde push` of the complete recording."""
import os
import subprocess
import sys
import time

from helpers import fresh, report, sonde, start_record
from shared.receiver import Receiver, environment

PROGRAM = ("import time, json\ndef work():\n  return json.loads(json.dumps({str(i): [i] * 9 for i in range(300)}))\n"
           "end = time.monotonic() + %d\nwhile time.monotonic() < end: work()")


def _cpu_seconds(pid):
    """{thread: CPU time} by the thread's name."""
    used = {}
    try:
        for tid in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{tid}/comm", encoding="ascii") as comm, \
                    open(f"/proc/{pid}/task/{tid}/schedstat", encoding="ascii") as times:
                used[comm.read().strip()] = int(times.read().split()[0]) / 1e9
    except OSError:
        pass  # it ends
    return used


def _sender(recorder):
    with open(f"/proc/{recorder}/task/{recorder}/children", encoding="ascii") as children:
        for pid in children.read().split():
            with open(f"/proc/{pid}/cmdline", encoding="utf-8") as words:
                if "--every" in words.read().split("\0"):
                    return pid
    return None


def _while_recording(seconds):
    server = Receiver()
    path, recorder = start_record([sys.executable, "-c", PROGRAM % seconds], "--sample=100", "--malloc=sample:512K",
                                  "--push", server.url(), "--push-every", "60s", path=fresh(), env=environment(),
                                  stderr=subprocess.DEVNULL)
    time.sleep(1)
    sender, sending, recording = _sender(recorder.pid), {}, {}
    while recorder.poll() is None:
        for of, pid in (sending, sender), (recording, recorder.pid):
            for name, used in _cpu_seconds(pid).items():
                of[name] = max(of.get(name, 0), used)
        time.sleep(0.25)
    share = lambda used: f"{100 * used / seconds:.3f} % of a CPU"  # noqa: E731
    print(f"{len(server.requests)} requests while {seconds} s were recorded")
    print(f"sender {share(sum(sending.values()))}, recorder {share(sum(recording.values()))}: "
          + ", ".join(f"{name} {share(used)}" for name, used in recording.items()))
    return path


def main():
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 and int(sys.argv[1]) >= 60 else 180
    path = _while_recording(seconds)
    length = report(path)["duration_ns"] / 1e9
    for protocol in ("", "pyroscope+"):
        server, before = Receiver(), os.times()
        told = sonde("push", "--to", server.url(protocol), path, env=environment())
        after = os.times()
        used = after.children_user + after.children_system - before.children_user - before.children_system
        print(told.strip())
        print(f"{used:.3f} s of CPU time for a recording of {length:.1f} s: {100 * used / length:.2f} % of a CPU")


if __name__ == "__main__":
    main()
