# SPDX-License-Identifier: MIT
"""Stacks with Python frames in signal handlers and inside malloc, compared with what the interpreter prints at the same
instant (python/compare.c, python/torture.py)."""
import os
import pathlib
import re

from helpers import BUILD, INCLUDE, SOURCE, compile_c, fresh, output_of, source_file


def compare_library():
    """tests/real/python/compare.c with the objects of the library, whose internal functions it calls."""
    objects = sorted(str(path) for path in pathlib.Path(BUILD, "src", "CMakeFiles", "sonde_lib.dir").rglob("*.o"))
    return compile_c(source_file("real", "python", "compare.c"), "-std=gnu11", "-O1", "-fPIC", "-shared", INCLUDE,
                     "-I" + os.path.join(SOURCE, "src", "lib"), "-fvisibility=default", *objects, "-ldl", out=fresh(".so"))


def _frames(lines):
    """(file, line, last part of the name), innermost first, of lines as faulthandler prints them. 3.12 may print a frame
    of the evaluator itself, "<shim>"."""
    found = [re.fullmatch(r'  File "(.*)", line (\d+|\?\?\?) in (.*)', line) for line in lines]
    return [(m[1], 0 if m[2] == "???" else int(m[2]), m[3].rpartition(".")[2]) for m in found if m and m[1] != "<shim>"]


def compare_handlers(interpreter, library, seconds):
    """Runs the INTERPRETER for SECONDS. Returns the numbers of captures, of those inside the evaluator, which are not
    compared, of compared stacks and of their frames. Fails at the first difference."""
    out = fresh(".txt")
    printed = output_of(interpreter, source_file("real", "python", "torture.py"), library, seconds, out,
                        env={**os.environ, "LD_PRELOAD": library, "PYTHONMALLOC": "malloc"})
    captures, inside = map(int, printed.split())
    compared = frames = 0
    for part in pathlib.Path(out).read_text(encoding="utf-8", errors="replace").split("==\n"):
        if "--\n" not in part:
            continue
        ours, theirs = (_frames(text.splitlines()) for text in part.split("--\n"))
        if len(theirs) >= 100:  # the interpreter prints no more
            ours = ours[:len(theirs)]
        assert ours == theirs, (ours, theirs)
        compared, frames = compared + 1, frames + len(ours)
    os.unlink(out)
    return captures, inside, compared, frames
