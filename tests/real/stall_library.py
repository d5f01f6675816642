#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A library that is loaded within a stall, after the recorder has read what is mapped, and blocks there: its
function is named."""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "stall"))
from stall_tools import WORK, fresh, name, stalls, start  # noqa: E402

PYTHON = "/usr/bin/python3"
LIBRARY = "#include <unistd.h>\nint blocks_in_library(void) { usleep(900000); return getpid(); }\n"
PROGRAM = """
import ctypes, select, sys, time
queue = select.epoll()
for i in range(8):
    queue.poll(0.01)
time.sleep(0.4)
ctypes.CDLL(sys.argv[1]).blocks_in_library()
queue.poll(0.01)
"""

if not os.path.exists(PYTHON):
    print("SKIP: no /usr/bin/python3")
    sys.exit(77)
library = os.path.join(WORK, "liblate.so")
subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-x", "c", "-", "-o", library], input=LIBRARY, text=True, check=True)
path = fresh()
recorder = start([PYTHON, "-c", PROGRAM, library], 200, path)
_, complaints = recorder.communicate(timeout=150)
assert recorder.returncode == 0, complaints
told = stalls(path)["stalls"]
print([(name(s), s["share"], s["call"]) for s in told])
assert len(told) == 1 and name(told[0]) == "blocks_in_library" and told[0]["share"] > 0.5, told
assert any("ffi" in f.get("module", "") for f in told[0]["frames"]), told  # its caller
shutil.rmtree(WORK, ignore_errors=True)
