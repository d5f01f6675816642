#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde/sonde.hpp: compiles without warnings as C++17 and C++20, with g++ and clang++, without exceptions too; and works."""
import os
import re
import subprocess

from helpers import INCLUDE, LINK_SHARED, SOURCE, check, fresh, needs, needs_plain_build, output_of, run_cases, sonde, write

needs_plain_build()
PROGRAM = os.path.join(SOURCE, "tests/package/consumer/scopes.cpp")
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]


def _works(standard):
    program = fresh("")
    output_of("g++", f"-std={standard}", *WARNINGS, "-O1", INCLUDE, "-o", program, PROGRAM, *LINK_SHARED, "-pthread")
    for sensor, shown in ("malloc", "allocations"), ("trace", "a named part"):
        path = fresh()
        done = subprocess.run([program, sensor, path], capture_output=True, text=True, timeout=60, check=False)
        check(done.returncode == 0 and "0 faults" in done.stdout, done.stdout + done.stderr)
        check(shown in sonde("report", path, sensor), f"the report does not show '{shown}'")
    return re.search(r"C\+\+ \d+", done.stdout)[0]


def cpp17():
    return _works("c++17")


def cpp20():
    return _works("c++20")


def clang():
    needs("clang++")
    for standard in ("c++17", "c++20"):
        output_of("clang++", f"-std={standard}", *WARNINGS, "-fno-exceptions", "-fno-rtti", INCLUDE, "-fsyntax-only", PROGRAM)


def included_twice():
    """In two sources of a program, and after the C headers."""
    sources = [write("#include <sonde/status.h>\n#include <sonde/sonde.hpp>\nint main() { return 0; }\n", ".cpp"),
               write("#include <sonde/sonde.hpp>\n#include <sonde/sonde.hpp>\nvoid f() { sonde::print({}); }\n", ".cpp")]
    output_of("g++", "-std=c++17", *WARNINGS, INCLUDE, "-o", fresh(""), *sources, *LINK_SHARED)


run_cases(globals())
