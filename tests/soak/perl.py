#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Stacks with Perl frames in random programs against `caller`: every function, file and line. Every other program has
threads.

usage: perl.py [STACKS]"""
import os
import pathlib
import random
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1]), str(pathlib.Path(__file__).resolve().parents[1] / "real")]

from shared.perl_frames import compare_rounds  # noqa: E402  (the path is set above)

WANTED = int(sys.argv[1]) if len(sys.argv) > 1 else 20000

seeds = random.Random(int(os.environ.get("SONDE_SEED", random.randrange(1 << 30))))
total = [0, 0, 0]
programs = 0
while total[0] < WANTED:
    options = ["threads"] if programs % 2 else []
    programs += 1
    total = [a + b for a, b in zip(total, compare_rounds("/usr/bin/perl", seeds.randrange(1 << 30), 200, *options))]
    print(f"{total[0]} stacks of {programs} programs, {total[1]} frames compared, {total[2]} stacks said to be incomplete, "
          "0 differ", flush=True)
