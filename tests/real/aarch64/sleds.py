#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""XRay sleds of clang's on aarch64: whole programs, run in an emulator and traced by the library they are
linked with. The calls, read by the second reader of recordings, are those of a shadow stack. EMULATOR and
TOOLS (compiler, nm, objdump) are in the environment, with spaces between."""
import collections
import os
import re
import subprocess

from helpers import BUILD, SOURCE, fresh, needs, output_of, run_cases, second_reader, source_file

HERE = source_file("real")
EMULATOR = os.environ["EMULATOR"].split()
CC, NM, OBJDUMP = os.environ["TOOLS"].split()
SLEDS = ["-fxray-instrument", "-fxray-instruction-threshold=1"]
SHAPES = ["fib", "mutual", "deep", "qsort", "pointers", "abi", "inline", "alloca", "huge", "tail",
          "atexit", "signal", "altstack", "threads", "short_threads", "many", "random", "nothing"]

needs("clang")


def build(source, *options, link=()):
    """Compiled by clang with sleds, linked by gcc."""
    out = fresh(".program")
    subprocess.run(["clang", "--target=aarch64-linux-gnu", "-g", "-w", "-pthread", *SLEDS, *options, "-I",
                    os.path.join(SOURCE, "include"), "-c", os.path.join(HERE, source), "-o", out + ".o"], check=True)
    subprocess.run([CC, "-pthread", "-O2", "-I", os.path.join(SOURCE, "include"), out + ".o", *link, "-L",
                    os.path.join(BUILD, "lib"), "-lsonde", "-Wl,-rpath," + os.path.join(BUILD, "lib"), "-o", out],
                   check=True)
    return out


def emulate(program, *arguments, **env):
    return subprocess.run([*EMULATOR, program, *arguments], env={**os.environ, **env}, timeout=60,
                          capture_output=True, text=True, check=True).stdout


def names_of(program):
    listed = output_of(NM, program)
    return {int(m[1], 16): m[2] for m in re.finditer(r"^([0-9a-f]+) [tTwW] ([^$\s]\S*)$", listed, re.M)}


def shadow_paths(program, path):
    names, stacks, counts = names_of(program), {}, collections.Counter()
    for line in open(path):
        tid, depth, offset = line.split()
        stack = stacks[tid] = stacks.get(tid, [])[:int(depth)] + [names[int(offset, 16)]]
        counts["/".join(stack)] += 1
    return counts


def traced_paths(program, path):
    """Calls as they ended; backwards every call comes after the one that it was made by."""
    starts, calls = sorted(names_of(program).items()), second_reader(path, "--calls")
    assert all(c[4] is not None for c in calls), "a call has no end"
    slide = slide_of(starts, {c[2] for c in calls})
    stacks, counts = {}, collections.Counter()
    for tid, depth, pc, _, _ in reversed(calls):
        name = next(n for start, n in reversed(starts) if start <= pc - slide)
        stack = stacks[tid] = stacks.get(tid, [])[:depth] + [name]
        counts["/".join(stack)] += 1
    return counts


def slide_of(starts, pcs):
    """The one at which every pc is a function's start, or four bytes in, behind a landing mark."""
    offsets = {start + mark for start, _ in starts for mark in (0, 4)}
    least = min(pcs)
    slides = {least - o for o in offsets if not (least - o) % 4096
              and all(pc - (least - o) in offsets for pc in pcs)}
    assert len(slides) == 1, slides
    return slides.pop()


def the_calls_are_those_of_a_shadow_stack():
    compared = 0
    for level in "-O0", "-O2":
        whole, shadow = (os.path.join(HERE, path) for path in ("aarch64/whole.c", "trace/shadow.c"))
        program = build("trace/shapes.c", level, "-finstrument-functions-after-inlining", link=(whole, shadow))
        for shape in SHAPES:
            said, path, seed = fresh(".txt"), fresh(), str(os.getpid())
            emulate(program, shape, SHADOW=said, TRACED=path, SEED=seed)
            found, expected = traced_paths(program, path), shadow_paths(program, said)
            assert found == expected, (level, shape, seed, found - expected, expected - found)
            compared += found.total()
    print(compared, "calls are those of a shadow stack")


def every_kind_of_end_is_told_and_keeps_the_registers():
    for options in [], ["-mbranch-protection=standard"]:
        program, path = build("aarch64/ends.c", "-O2", *options), fresh()
        assert emulate(program, path) == "right\n"
        # A tail call ends its function: none is inside another.
        assert traced_paths(program, path) == {
            "through_pointer": 1, "all": 1, "many": 1, "make_big": 1, "make_floats": 1, "even": 6,
            "odd": 5}, traced_paths(program, path)


def threads_run_through_the_change():
    program, path = build("aarch64/ends.c", "-O2"), fresh()
    assert emulate(program, path, "threads") == "right\n"


def a_sled_is_a_branch_over_nops():
    program = build("aarch64/ends.c", "-O2", "-mbranch-protection=standard")
    text = output_of(OBJDUMP, "-d", "--no-show-raw-insn", program)
    body = text[text.index("<through_pointer>:"):].split("\n\n")[0]
    said = [line.split("\t")[1:] for line in body.splitlines()[1:]]
    words = [s[0] for s in said]
    assert words[:9] == ["bti", "b"] + ["nop"] * 7, words
    # A register that a call may change is the branch's: what is patched before it must keep it.
    assert said[-1][0] == "br" and said[-1][1].strip() in ("x16", "x17"), said[-1]
    assert words[-9:-1] == ["b"] + ["nop"] * 7, words


run_cases(globals())
