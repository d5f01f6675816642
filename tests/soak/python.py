#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A million stacks with Python frames, taken in signal handlers and inside malloc, against what the interpreter prints
at the same instant. In every other program events have the lines of the innermost functions only, as by default. The
interpreters must export _Py_DumpTraceback, as CPython 3.11 and 3.12 do.

usage: python.py [STACKS [INTERPRETER…]]"""
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1]), str(pathlib.Path(__file__).resolve().parents[1] / "real")]

from shared.python_frames import compare_handlers, compare_library  # noqa: E402  (the path is set above)

WANTED = int(sys.argv[1]) if len(sys.argv) > 1 else 1000000

library = compare_library()
for interpreter in sys.argv[2:] or ["/usr/bin/python3"]:
    total = [0] * 5
    lines = False
    while total[2] < WANTED:
        lines = not lines
        found = compare_handlers(interpreter, library, 5, lines)
        if not found[2] or not found[4]:
            sys.exit(f"{interpreter}: {found[2]} stacks and {found[4]} events compared; does it export _Py_DumpTraceback?")
        total = [a + b for a, b in zip(total, found)]
        print(f"{interpreter}{'' if lines else ', without lines'}: {total[0]} captures, {total[1]} in the evaluator; {total[2]} compared, "
              f"{total[3]} frames, {total[4]} events with an uncached capture, 0 differ", flush=True)
