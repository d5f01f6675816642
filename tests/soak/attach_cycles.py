#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""An object is loaded into servers under load, called and removed again, many times: no request may fail, and no
descriptor, thread, mapping of a file or byte of code may differ afterwards. Prints how long the borrowed threads were
stopped. Before that, each kind of blocking call is borrowed often, and the command is killed at each of its steps.

usage: attach_cycles.py [CYCLES [SERVER…]]"""
import os
import pathlib
import shutil
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1]), str(pathlib.Path(__file__).resolve().parents[1] / "real")]

from helpers import BUILD, FIXTURES  # noqa: E402  (the path is set above)
from shared.serving import SERVICES, Server  # noqa: E402

CYCLES = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
PROGRAMS = os.path.join(BUILD, "tests")


def unit(name, **settings):
    """Runs a unit test with more rounds."""
    done = subprocess.run([os.path.join(PROGRAMS, name)], env={**os.environ, **settings}, check=False,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return f"{name} with {settings}: passed"


def cycles(name):
    """The figures of CYCLES cycles on the server NAME."""
    if not shutil.which(name):
        return f"{name}: not installed"
    with Server(name) as server, Server(name) as twin:
        before, code = server.counts(), server.code()
        server.requests, server.longest, twin.requests, twin.longest = 0, 0.0, 0, 0.0
        done = subprocess.run([os.path.join(PROGRAMS, "attach-cycles"), str(server.pid), FIXTURES / "libattach_toy.so",
                               str(CYCLES)], capture_output=True, text=True, check=False)
        assert f"cycles {CYCLES} failed 0 kept 0" in done.stdout, done.stdout[-2000:]
        assert server.process.poll() is None, server.process.returncode
        assert server.counts() == before, (before, server.counts())
        assert server.code() == code, "code has changed"
        line = (f"{name}: {server.requests} requests, longest {1000 * server.longest:.0f} ms; twin {twin.requests}, "
                f"longest {1000 * twin.longest:.0f} ms\n{done.stdout}")
    assert not server.failures and not twin.failures, (server.failures, twin.failures)
    return line


failed = False
jobs = [lambda name=name: cycles(name) for name in sys.argv[2:] or SERVICES]
if len(sys.argv) < 3:
    jobs[:0] = [lambda: unit("calls_test", SONDE_ROUNDS="1000"), lambda: unit("killed_test", SONDE_STRIDE="1")]
for job in jobs:
    try:
        print(job(), flush=True)
    except AssertionError as error:
        print(f"FAILED: {error}", flush=True)
        failed = True
sys.stdout.flush()
os._exit(failed)  # clients of a server that hangs do not end
