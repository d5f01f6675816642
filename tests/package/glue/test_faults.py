# SPDX-License-Identifier: MIT
# Tests of someone, which the fixture of sonde_pytest.py makes fail; run by tests/package/glue.py.
import os

PROGRAM, KNOWN = os.environ["PROGRAM"], os.environ["KNOWN"]


def test_healthy(sonde_run):
    done = sonde_run([PROGRAM], leaked=0, allocations=1000, stall=5000, calls=KNOWN, capture_output=True)
    assert done.returncode == 0


def test_leak(sonde_run):
    sonde_run([PROGRAM, "leak"], leaked=0)


def test_budget(sonde_run):
    sonde_run([PROGRAM, "budget"], allocations=100)


def test_stall(sonde_run):
    sonde_run([PROGRAM, "stall"], stall=50)


def test_call(sonde_run):
    sonde_run([PROGRAM, "call"], calls=KNOWN)
