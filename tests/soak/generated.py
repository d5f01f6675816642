#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Hundreds of random programs with random sets of sensors, every figure as counted: tests/real/generated.py.

usage: generated.py [PROGRAMS]"""
import os
import pathlib
import sys

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "real/generated.py"
os.execve(sys.executable, [sys.executable, SCRIPT], dict(os.environ, SONDE_PROGRAMS=(sys.argv[1:] or ["500"])[0]))
