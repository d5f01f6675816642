#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Stacks with Lua frames in random programs against debug.getinfo: every function, file and line.

usage: lua.py [STACKS]     LUA: another interpreter of Lua 5.4"""
import os
import pathlib
import random
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1]), str(pathlib.Path(__file__).resolve().parents[1] / "real")]

from shared.lua_frames import compare_rounds  # noqa: E402  (the path is set above)

LUA = os.environ.get("LUA", "/usr/bin/lua5.4")
WANTED = int(sys.argv[1]) if len(sys.argv) > 1 else 20000

seeds = random.Random(int(os.environ.get("SONDE_SEED", random.randrange(1 << 30))))
total = [0, 0, 0]
while total[0] < WANTED:
    total = [a + b for a, b in zip(total, compare_rounds(LUA, seeds.randrange(1 << 30), 200))]
    print(f"{total[0]} stacks, {total[1]} frames compared, {total[2]} stacks said to be incomplete, 0 differ", flush=True)
