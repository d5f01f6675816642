#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Functions that the agent has in front of the C library's are told as the C library's, under a pattern that
names it too. The oracle is the loader, in a run without the agent."""
import os
import subprocess

from shared.calls import HERE, nothing_missing, record, report
from shared.cases import fresh, needs_agent, run

needs_agent()


def calls_are_those_of_the_library():
    program = fresh(".program")
    subprocess.run(["cc", "-O0", "-U_FORTIFY_SOURCE", "-fno-builtin", "-pthread", os.path.join(HERE, "in_front.c"), "-o",
                    program, "-ldl"], check=True)
    said = subprocess.run([program, "tell"], check=True, capture_output=True, text=True, timeout=60).stdout
    expected = {name: (library, int(count)) for name, library, count in map(str.split, said.splitlines())}
    assert len(expected) == 14, said
    pattern = ",".join(f"{library}:{name}" for name, (library, _) in expected.items())
    path, done = record(program, trace="--trace=" + pattern, options=["--malloc=off"])
    assert done.returncode == 0, done
    told = report(path)
    nothing_missing(told)
    found = {row["function"]: (row["module"], row["calls"]) for row in told["trace"]["functions"]}
    assert found == expected, (found, expected)


run(globals())
