#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Turns that a program declares by sonde/stall.h: heartbeats, scopes with limits, expected waits."""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "stall"))
from stall_tools import HERE, WORK, fresh, name, stalls, start  # noqa: E402

EINVAL, EUNSUPPORTED = -1, -11
lib = os.path.join(os.environ["SONDE_BUILD"], "lib")
program, path = os.path.join(WORK, "declares"), fresh()
subprocess.run(["cc", "-O2", "-g", "-fno-optimize-sibling-calls", "-fno-ipa-icf", "-o", program,
                "-I", os.path.join(os.environ["SONDE_SOURCE"], "include"),
                os.path.join(HERE, "declares.c"), "-L", lib, "-lsonde", f"-Wl,-rpath,{lib}"],
               check=True)
alone = subprocess.run([program], capture_output=True, text=True, timeout=60)
assert alone.stdout.split() == [str(EUNSUPPORTED)] * 2, alone.stdout
recorder = start([program], 150, path, stdout=subprocess.PIPE)
out, complaints = recorder.communicate(timeout=60)
assert recorder.returncode == 0 and out.split() == ["0", str(EINVAL)], (out, complaints)
told = [(name(s), round(s["total_ns"] / 1e6)) for s in stalls(path)["stalls"]]
print(told)
assert [t[0] for t in told] == ["misses_a_heartbeat", "exceeds_its_scope"]
assert 300 <= told[0][1] < 360 and 500 <= told[1][1] < 540
shutil.rmtree(WORK, ignore_errors=True)
