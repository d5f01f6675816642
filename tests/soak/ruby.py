#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Stacks with Ruby frames against Ruby: of threads that wait, in random programs, every function, file and line; of a
thread that is stopped at any instruction, whether Ruby's own trace has a place with these frames.

usage: ruby.py [STACKS [SAMPLES]]"""
import collections
import json
import os
import pathlib
import random
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1]), str(pathlib.Path(__file__).resolve().parents[1] / "real")]

from helpers import kill, output_of, sonde, source_file  # noqa: E402  (the path is set above)
from shared.ruby_frames import compare, ruby_frames, start  # noqa: E402

RUBY = "/usr/bin/ruby3.1"
WANTED = int(sys.argv[1]) if len(sys.argv) > 1 else 100000
SAMPLES = int(sys.argv[2]) if len(sys.argv) > 2 else 5000
BUSY = source_file("real", "ruby", "busy.rb")


def waiting():
    seeds = random.Random(int(os.environ.get("SONDE_SEED", random.randrange(1 << 30))))
    threads = frames = 0
    while threads < WANTED:
        seed = seeds.randrange(1 << 30)
        program, told = start(RUBY, seed, 400)
        try:
            found = compare(told, json.loads(sonde("stacks", "--json", program.pid)))
        except AssertionError:
            print(f"seed {seed} of states.rb", flush=True)
            raise
        finally:
            kill(program)
        threads, frames = threads + found[0], frames + found[1]
    print(f"threads that wait: {threads} stacks, {frames} frames compared, 0 differ", flush=True)


def _of_work(frames):
    """The frames of the function `run` and inside of it, innermost first; None: it does not run."""
    functions = [frame[0] for frame in frames]
    return [tuple(frame) for frame in frames[:functions.index("run") + 1]] if "run" in functions else None


def stopped():
    told = [json.loads(line) for line in output_of(RUBY, BUSY, "told").splitlines()]
    chains = {tuple(map(tuple, _of_work(stack) or stack)) for stack in told}
    outer = {chain[1:] for chain in chains}
    lines = {frame for chain in chains for frame in chain}
    program = subprocess.Popen([RUBY, BUSY], stdout=subprocess.PIPE)
    program.stdout.readline()
    count, wrong = collections.Counter(), collections.Counter()
    try:
        for _ in range(SAMPLES):
            thread = json.loads(sonde("stacks", "--json", program.pid))["threads"][0]
            frames = ruby_frames(thread)
            stack = tuple(_of_work(frames) or map(tuple, frames))
            # The last instruction may be one that is no event. Its line is still one of the function's.
            known = stack in chains or (stack and stack[1:] in outer and stack[0] in lines)
            kind = ("flagged as incomplete" if "ruby_missing" in thread else "compared" if known else
                    "in the loop around" if frames and frames[-1][0] == "<main>" and not _of_work(frames) else
                    "of a fiber without a frame" if not frames else "differ")
            count[kind] += 1
            if kind == "differ":
                wrong[stack] += 1
    finally:
        kill(program)
    print("a thread stopped at any instruction:", ", ".join(f"{n} {kind}" for kind, n in sorted(count.items())), flush=True)
    assert not wrong, wrong.most_common(5)


waiting()
stopped()
