#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every cell of tests/real/reliability.py, where the program with many threads has 30,000.

usage: reliability.py [THREADS]   default: 30000"""
import os
import pathlib
import sys

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "real/reliability.py"
os.execve(sys.executable, [sys.executable, SCRIPT, ""], dict(os.environ, SONDE_THREADS=(sys.argv[1:] or ["30000"])[0]))
