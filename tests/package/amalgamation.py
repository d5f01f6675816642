#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The amalgamation compiles alone, exports what sonde.h declares, and captures stacks of its own and of other threads.
With an argument, that folder is tested in place of a new one, with more options."""
import pathlib
import re
import subprocess
import sys

from helpers import SOURCE, WORK, check, fresh, needs, needs_plain_build, output_of, run_cases

needs_plain_build()
PROGRAM = pathlib.Path(SOURCE, "tests/package/consumer/stacks.c")
FOLDER = pathlib.Path(sys.argv.pop(1)).resolve() if sys.argv[1:2] and pathlib.Path(sys.argv[1]).is_dir() else None
OPTIONS = (["-O0"], ["-O2"], ["-O3", "-fPIC", "-D_FORTIFY_SOURCE=2", "-fstack-protector-strong"]) if FOLDER else ()
COMPILE_SECONDS = 1800  # a hundred sources at once, on a busy machine with a low priority
STACKS = {"own": ["show_own", "main"], "blocked": ["wait_for_byte", "run_waiter"], "running": ["compute", "run_computer"]}


def _sources():
    global FOLDER
    if not FOLDER:
        FOLDER = pathlib.Path(WORK, "amalgamation")
        output_of(sys.executable, SOURCE + "/packaging/amalgamate.py", FOLDER)
    return FOLDER


def _captures(compiler, *options):
    """`cc -c sonde.c`, then a program with it."""
    folder, object_file, program = _sources(), fresh(".o"), fresh("")
    output_of(compiler, *options, "-c", folder / "sonde.c", "-o", object_file, timeout=COMPILE_SECONDS)
    output_of(compiler, "-g", "-o", program, f"-I{folder}", PROGRAM, object_file, "-pthread")
    done = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    check(done.returncode == 0, f"{compiler} {options}: status {done.returncode}: {done.stdout}{done.stderr}")
    for title, functions in STACKS.items():
        part = re.search(rf"^{title} \d+\n((?:#.*\n)+)", done.stdout, re.M)
        names = re.findall(r"^#\d+ +\S+ +(\w+)\+", part[1] if part else "", re.M)
        check([name for name in names if name in functions] == functions, f"{compiler} {options}, {title}: {names}")
    _names(object_file)


def gcc():
    needs("gcc")
    for options in OPTIONS or ([],):
        _captures("gcc", *options)


def clang():
    needs("clang")
    for options in OPTIONS or (["-O2"],):  # no pragma of clang restricts aliasing
        _captures("clang", *options)


if OPTIONS:
    def musl():
        needs("musl-gcc")
        _captures("musl-gcc", "-idirafter", "/usr/include", "-idirafter", "/usr/include/x86_64-linux-gnu")


def _names(object_file):
    """Global names are those that the header declares, and names that no program uses."""
    defined = set(re.findall(r" [A-Z] (\w+)$", output_of("nm", "-g", "--defined-only", object_file), re.M))
    declared = set(re.findall(r"SONDE_API [^(;]*?(sonde_\w+) ?\(", (FOLDER / "sonde.h").read_text()))
    public = {name for name in defined if not name.startswith("sonde_core_")}
    check(public == declared, f"defined, not declared: {public - declared}; declared, not defined: {declared - public}")


run_cases(globals())
