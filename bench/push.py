#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `sonde push` costs: the CPU time to send the profiles of a program that was sampled 100 times a second, as a
share of the time that the recording covers.

usage: push.py [SECONDS]   (default 60)

The program is python3, with stacks of Python functions. The receiver takes everything at once."""
import os
import sys

from helpers import record, report, sonde
from shared.receiver import Receiver, environment

PROGRAM = ("import time, json\ndef work():\n  return json.loads(json.dumps({str(i): [i] * 9 for i in range(300)}))\n"
           "end = time.monotonic() + %d\nwhile time.monotonic() < end: work()")


def main():
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 and int(sys.argv[1]) > 1 else 60
    path, done = record([sys.executable, "-c", PROGRAM % seconds], "--sample=100", "--malloc=sample:512K")
    assert done.returncode == 0, done
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
