#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A library that is loaded within a stall, after the recorder has read what is mapped, and blocks there: its
function is named."""
from helpers import compile_c, fresh, needs, needs_agent, run_cases
from shared.stalls import name, stalls, start

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


def the_function_of_a_library_that_comes_late_is_named():
    library, path = compile_c(LIBRARY, "-shared", "-fPIC", "-O2"), fresh()
    recorder = start([PYTHON, "-c", PROGRAM, library], 200, path)
    _, complaints = recorder.communicate(timeout=150)
    assert recorder.returncode == 0, complaints
    told = stalls(path)["stalls"]
    print([(name(s), s["share"], s["call"]) for s in told])
    assert len(told) == 1 and name(told[0]) == "blocks_in_library" and told[0]["share"] > 0.5, told
    assert any("ffi" in f.get("module", "") for f in told[0]["frames"]), told  # its caller


needs_agent()
needs(PYTHON)
run_cases(globals())
