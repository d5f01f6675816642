#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of tests/real whose programs run four times as long here, or ask four times as much: they compare figures, and
more of them decide better.

usage: larger.py [NAME…]"""
import os
import pathlib
import subprocess
import sys

NAMES = ["code_names", "sample_weights", "llvm_symbolizer", "stall_programs"]
FOLDER = pathlib.Path(__file__).resolve().parents[1] / "real"

failed = []
for name in sys.argv[1:] or NAMES:
    print(f"-- {name}", flush=True)
    done = subprocess.run([sys.executable, FOLDER / f"{name}.py"], env=dict(os.environ, SOAK="1"), check=False)
    if done.returncode not in (0, 77):
        failed.append(name)
sys.exit(f"failed: {' '.join(failed)}" if failed else 0)
