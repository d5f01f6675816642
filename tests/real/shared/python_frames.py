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


def compare_handlers(interpreter, library, seconds, lines=True):
    """Runs the INTERPRETER for SECONDS of CPU time. LINES: events have the lines of all frames. Returns the numbers of
    captures, of those inside the evaluator, which are not compared, of compared stacks, of their frames, and of events
    compared with an uncached capture. Fails at the first difference."""
    out = fresh(".txt")
    printed = output_of(interpreter, source_file("real", "python", "torture.py"), library, seconds, out, int(lines),
                        env={**os.environ, "LD_PRELOAD": library, "PYTHONMALLOC": "malloc"})
    captures, inside, events, different, merged = map(int, printed.split())
    assert different == 0, printed
    assert not events or merged > 0.9 * events, printed  # by the cache, not by the slow path
    compared = frames = without = truncated = 0
    for part in pathlib.Path(out).read_text(encoding="utf-8", errors="replace").split("==\n"):
        if "--\n" not in part:
            continue
        ours, theirs = (_frames(text.splitlines()) for text in part.split("--\n"))
        if re.search(r"^native 0x[12] .*\n--$", part, re.M):  # a native stack with the mark of one that ends early
            truncated += 1
            continue
        if len(theirs) >= 100:  # the interpreter prints no more
            ours = ours[:len(theirs)]
        if not lines and len(ours) == len(theirs):
            without += bool(ours) and ours[0][1] == 0 != theirs[0][1]
            theirs = [(file, at and line, name) for (file, line, name), (_, at, _) in zip(theirs, ours)]
        assert ours == theirs, (part[:2000], ours, theirs)
        compared, frames = compared + 1, frames + len(ours)
    assert truncated <= 1 + compared / 1000, (truncated, compared)
    assert without <= compared / 50, (without, compared)  # calls that begin; others have the innermost line
    os.unlink(out)
    return captures, inside, compared, frames, events
