#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every call of sonde's own fails once, in every verb: tests/real/faults.py, with its whole set.

usage: faults.py [NUMBER]   of the calls of each verb and class; default: all"""
import os
import pathlib
import sys

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "real/faults.py"
os.execve(sys.executable, [sys.executable, SCRIPT], dict(os.environ, SONDE_FAULTS=(sys.argv[1:] or ["all"])[0]))
