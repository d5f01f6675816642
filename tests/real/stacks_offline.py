#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Stacks of a stripped build, named later: `sonde stacks --json` where the program runs, `sonde
symbolize` where its debug file is, must say what `sonde stacks` says of the build with debug
information. The debug file is found in each place that docs/symbols.md names."""
import json
import re
import shutil

from helpers import SONDE, kill, output_of, run_cases, sonde, start_ready, states_of, until

PROGRAM = """
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
namespace app {
template <typename T> struct Tree { __attribute__((noipa)) T wait(T n) { pause(); return n; } };
static Tree<long> tree;
__attribute__((noinline)) static long jumps(long n) { return tree.wait(n + 3); }
static inline __attribute__((always_inline)) long inlined(long n) { return jumps(n) * 3; }
__attribute__((noinline)) long outer(long n) { return inlined(n) + 1; }
}
static void *work(void *) { return (void *)app::outer(1); }
int main() {
  pthread_t thread;
  pthread_create(&thread, nullptr, work, nullptr);
  puts("ready"); fflush(stdout);
  return (int)app::outer(2) + 1; }
"""


def stacks(program):
    """The JSON of PROGRAM's stacks once its threads wait."""
    process = start_ready([program], asleep=False)
    until(lambda: list(states_of(process.pid).values()) == ["S", "S"], "both threads wait")
    answer = json.loads(sonde("stacks", "--json", process.pid))
    kill(process)
    return answer


def names(answer, whose):
    """What is said of the frames in the image WHOSE, of each thread."""
    said = ("function", "function_offset", "file", "line", "column", "inlined", "tail_call", "offset", "exact")
    return [[tuple(frame.get(key) for key in said) for frame in thread["frames"]
             if frame.get("module") == str(whose)] for thread in answer["threads"]]


def compare(what, expected, folder, program, *options):
    later = json.loads(sonde("symbolize", "--json", *options, folder / "stacks.json"))
    assert names(later, program) == expected, (what, names(later, program), expected)
    print(f"{what}: {sum(map(len, expected))} frames as with debug information")


def unnamed(folder, *options):
    later = sonde("symbolize", *options, folder / "stacks.json")
    assert "app::" not in later and "pause" in later, later


def a_stripped_build_is_named_elsewhere(folder):
    (folder / "bin").mkdir()
    program, whole = folder / "bin/program", folder / "whole"
    (folder / "program.cc").write_text(PROGRAM)
    output_of("g++", "-g", "-O2", "-pthread", "-Wl,--build-id=sha1", "-o", program, folder / "program.cc")
    expected = names(stacks(program), program)
    functions = [[frame[0].split("(")[0] for frame in frames][:4] for frames in expected]
    assert functions == [["app::Tree<long>::wait", "app::jumps", "app::inlined", "app::outer"]] * 2, expected
    shutil.copy(program, whole)
    output_of("strip", program)
    (folder / "stacks.json").write_text(json.dumps(stacks(program)))
    unnamed(folder)
    program.unlink()  # named on another machine
    unnamed(folder)
    identity = re.search(r"Build ID: ([0-9a-f]+)", output_of("readelf", "-n", whole))[1]
    by_id = folder / "id/.build-id" / identity[:2] / (identity[2:] + ".debug")
    by_name, by_whole, wrong = (folder / name for name in ("names/program.debug", "whole-builds/program", "wrong/program"))
    for place in (by_id, by_name, by_whole, wrong):
        place.parent.mkdir(parents=True)
    output_of("objcopy", "--only-keep-debug", whole, by_id)
    shutil.copy(by_id, by_name)
    shutil.copy(whole, by_whole)
    shutil.copy(SONDE, wrong)
    unnamed(folder, "--debug-dir", wrong.parent)
    for what, place in (("by build-id", folder / "id"), ("by name", by_name.parent),
                        ("by the build before it was stripped", by_whole.parent)):
        compare(what, expected, folder, program, "--debug-dir", wrong.parent, "--debug-dir", place)
        compare(f"{what}, without an index", expected, folder, program, "--no-index", "--debug-dir", place)


run_cases([a_stripped_build_is_named_elsewhere])
