#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every call of functions patched at run time is counted, in thirty packaged programs and libraries:
tests/real/trace_functions.py, with its whole set."""
import os
import pathlib
import sys

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "real/trace_functions.py"
os.execve(sys.executable, [sys.executable, SCRIPT, *sys.argv[1:]], dict(os.environ, SOAK="1"))
