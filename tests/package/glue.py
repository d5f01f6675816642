#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A test of GoogleTest, Catch2, pytest and CTest fails on a leak, an allocation budget, a stall and a new sensitive call,
with the finding in its message; a healthy one passes. The frameworks are real."""
import importlib.util
import os
import pathlib
import re
import subprocess
import sys

from helpers import (INCLUDE, LINK_SHARED, SONDE, SOURCE, TIMEOUT_SECONDS, WORK, check, fresh, needs, needs_agent, output_of,
                     run_cases, skip, sonde)

needs_agent()
GLUE, TESTS = os.path.join(SOURCE, "glue"), os.path.join(SOURCE, "tests/package/glue")
FLAGS = ["-std=c++17", "-g", "-Wall", "-Wextra", "-Werror", INCLUDE]
KNOWN = os.path.join(WORK, "known.json")
# What the message of each fault names: the amount and the function.
FINDINGS = {"leak": [r"777 bytes", "lose_block"], "budget": [r"budget is 100", "make_words"],
            "stall": [r"\d\d\d.* ms", "be_late"], "call": [r"net\.connect", r"127\.0\.0\.1:9"]}


def _program():
    path = fresh("")
    output_of("g++", *FLAGS, "-o", path, TESTS + "/program.cpp", *LINK_SHARED)
    recording = fresh()
    output_of(SONDE, "record", "--audit", "-o", recording, "--", path)
    pathlib.Path(KNOWN).write_text(sonde("audit", "baseline", recording))
    return path


PROGRAM = _program()
ENVIRONMENT = {**os.environ, "SONDE": SONDE, "KNOWN": KNOWN, "PROGRAM": PROGRAM, "PYTHONDONTWRITEBYTECODE": "1"}


def _run(*command, **how):
    done = subprocess.run([str(word) for word in command], env=ENVIRONMENT, capture_output=True, text=True,
                          timeout=TIMEOUT_SECONDS, check=False, **how)
    return done.returncode, done.stdout + done.stderr


def _check(parts, status):
    """PARTS: what was printed of each fault."""
    check(status, "the faulty tests passed")
    for fault, wanted in FINDINGS.items():
        for pattern in wanted:
            check(re.search(pattern, parts.get(fault, "")), f"{fault}: no '{pattern}' in {parts.get(fault)!r}")


def googletest():
    if not os.path.exists("/usr/include/gtest/gtest.h"):
        skip("GoogleTest is not installed")
    program = fresh("")
    output_of("g++", *FLAGS, "-o", program, TESTS + "/gtest.cpp", *LINK_SHARED, "-lgtest", "-pthread")
    status, text = _run(program)
    check(re.search(r"OK \] Healthy.AllLimits", text) and re.search(r"OK \] Healthy.Again", text), text)
    _check({name.lower(): part for name, part in re.findall(r"RUN +\] Faulty\.(\w+)\n(.*?)FAILED  \] Faulty", text, re.S)}, status)


def catch2():
    if not os.path.exists("/usr/include/catch2/catch.hpp"):
        skip("Catch2 is not installed")
    program = fresh("")
    output_of("g++", *FLAGS, "-g0", "-o", program, TESTS + "/catch2.cpp", *LINK_SHARED, "-lCatch2WithMain", "-pthread")
    status, text = _run(program)
    check("healthy" not in text and re.search(r"5 \| 1 passed \| 4 failed", text), text)
    _check({name: part for name, part in re.findall(r"^-+\n(\w+)\n-+\n(.*?)(?=^-{70}|\Z)", text, re.M | re.S)}, status)


def pytest():
    if not importlib.util.find_spec("pytest"):
        python = "/usr/bin/python3"
        if _run(python, "-c", "import pytest")[0]:
            skip("pytest is not installed")
    else:
        python = sys.executable
    ENVIRONMENT["PYTHONPATH"] = GLUE
    status, text = _run(python, "-m", "pytest", "-q", "-p", "sonde_pytest", "-p", "no:cacheprovider", TESTS + "/test_faults.py")
    check("4 failed, 1 passed" in text, text)
    _check({name: part for name, part in re.findall(r"^_+ test_(\w+) _+\n(.*?)(?=^_{8}|^={8})", text, re.M | re.S)}, status)


def ctest(folder):
    needs("cmake", "ctest")
    output_of("cmake", "-S", TESTS, "-B", folder, f"-DGLUE={GLUE}", f"-DSONDE_GATE={GLUE}/sonde_gate.py", f"-DPROGRAM={PROGRAM}",
              f"-DKNOWN={KNOWN}", env=ENVIRONMENT)
    status, text = _run("ctest", "--output-on-failure", "-j2", cwd=folder)
    check("5 tests failed out of 6" in text and "healthy" in re.findall(r": (\w+) \.+   Passed", text), text)
    log = (folder / "Testing/Temporary/LastTest.log").read_text()
    _check({name: part for name, part in re.findall(r'^\d+/6 Test: (\w+)\n(.*?)^"\1" end time', log, re.M | re.S)}, status)


def gate_wrong_use():
    gate = os.path.join(GLUE, "sonde_gate.py")
    for arguments, wanted in ((["--", "true"], "no limit is given"), (["--leaked", "0", "--calls", "/none.json", "--", "true"], "none.json")):
        status, text = _run("python3", gate, *arguments)
        check(status not in (0, 7) and wanted in text, (arguments, status, text))


run_cases(globals())
