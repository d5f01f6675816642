#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Functions that a compiler left room in, patched by sonde: XRay sleds of clang's, and entries of
-fpatchable-function-entry by gcc and clang. The calls are those that the program's own hooks count, the
code is unchanged while tracing is off, and patches come and go under running threads."""
import collections
import functools
import inspect
import os
import platform
import re
import shutil
import subprocess

from helpers import compile_c, fresh, needs, needs_agent, output_of, run_cases, skip, write
from shared.calls import no_call_missing, paths_of, record_trace, switched, trace_of, trace_source

needs_agent()
needs("clang")
if platform.machine() != "x86_64":
    skip("the patchable code is x86_64's")
FLAGS = ["-g", "-w", "-pthread"]
KINDS = {  # compiler, what leaves the room, what makes the hooks of the shadow stack count the same
    "sleds": ("clang", ["-fxray-instrument", "-fxray-instruction-threshold=1"],
              ["-finstrument-functions-after-inlining"]),
    "entries": ("gcc", ["-fpatchable-function-entry=5"],
                ["-finstrument-functions", "-fno-inline", "-fno-partial-inlining", "-fno-ipa-cp",
                 "-fno-ipa-sra", "-fno-ipa-icf"]),
    "entries, marked": ("gcc", ["-fpatchable-function-entry=8,3", "-fcf-protection"],
                        ["-finstrument-functions", "-fno-inline", "-fno-partial-inlining", "-fno-ipa-cp",
                         "-fno-ipa-sra", "-fno-ipa-icf"]),
    "entries, clang": ("clang", ["-fpatchable-function-entry=5"],
                       ["-finstrument-functions-after-inlining"]),
}
SHAPES = ["fib", "mutual", "deep", "qsort", "pointers", "abi", "inline", "alloca", "huge", "tail",
          "atexit", "signal", "altstack", "threads", "short_threads", "many", "random", "nothing"]


@functools.lru_cache(maxsize=None)
def build(kind, source, *options, link=()):
    """Compiled with room, linked by cc: nothing of compiler-rt is needed."""
    compiler, room, _ = KINDS[kind]
    out = fresh(".program")
    plus = {"gcc": "g++", "clang": "clang++"} if source.endswith("cc") else {}
    subprocess.run([plus.get(compiler, compiler), *FLAGS, *room, *options, "-c", trace_source(source),
                    "-o", out + ".o"], check=True)
    subprocess.run(["g++" if plus else "gcc", "-pthread", out + ".o", *link, "-o", out], check=True)
    return out


@functools.lru_cache(maxsize=None)
def _names(program):
    listed = output_of("nm", program)
    return {int(m[1], 16): m[2] for m in re.finditer(r"^([0-9a-f]+) [tTwW] (\S+)$", listed, re.M)}


def shadow_paths(program, path):
    names = _names(program)
    stacks, counts = collections.defaultdict(list), collections.Counter()
    for line in open(path):
        tid, depth, offset = line.split()
        stack = stacks[tid] = stacks[tid][:int(depth)] + [names[int(offset, 16)]]
        counts["/".join(stack)] += 1
    return counts


def the_calls_are_those_of_a_shadow_stack(kind):
    shadow = fresh(".o")
    subprocess.run(["gcc", "-O2", "-c", trace_source("shadow.c"), "-o", shadow], check=True)
    compared = 0
    for level in {"entries, marked": ["-O2"], "entries, clang": ["-O0"]}.get(kind, ["-O0", "-O2"]):
        program = build(kind, "shapes.c", level, *KINDS[kind][2], link=(shadow,))
        for shape in SHAPES:
            if shape == "inline" and KINDS[kind][0] == "gcc":
                continue  # its hooks count what is always inlined
            said = fresh(".txt")
            env = dict(os.environ, SEED=str(os.getpid()), SHADOW=said)
            path, done = record_trace(program, shape, env=env)
            assert done.returncode == 0, (shape, done)
            told = trace_of(path)
            found, expected = paths_of(told), shadow_paths(program, said)
            assert found == expected, (level, shape, os.getpid(), found - expected, expected - found)
            no_call_missing(told)
            assert told["trace"]["left"] == 0, told["trace"]
            compared += told["trace"]["calls"]
    print(compared, "calls are those of a shadow stack")


def exceptions_and_jumps_are_paired(kind):
    program = build(kind, "shapes.cc", "-O1")
    for shape, key in ("throw", "catch_it(int)"), ("rethrow", "rethrow(int)"):
        told = trace_of(record_trace(program, shape)[0])
        found = paths_of(told)
        assert sum(n for p, n in found.items() if p.endswith("/" + key)) == 5, found
        assert all(p.count(key) <= 1 for p in found), found
        if kind != "sleds":  # they have no exit then; a trampoline has
            assert told["trace"]["left"] == told["trace"]["open"] == 0, told["trace"]
    found = paths_of(trace_of(record_trace(build(kind, "shapes.c", "-O0"), "longjmp")[0]))
    assert found["main/shape_longjmp/add"] == 10, found


def first_instructions(program, count):
    done = output_of("objdump", "-d", "--no-show-raw-insn", program)
    text = done[done.index("<main>:"):].splitlines()[1:]
    return [line.split("\t")[1].split()[0] for line in text[:count]]


def without_tracing_the_room_is_nops(kind):
    program = build(kind, "shapes.c", "-O0")
    expected = {"sleds": ["jmp", "nopw"], "entries": ["nop"] * 5, "entries, clang": ["nopl"],
                "entries, marked": ["endbr64"] + ["nop"] * 5}[kind]
    assert first_instructions(program, len(expected)) == expected
    _, done = record_trace(program, "fib", trace="--sample")
    assert done.returncode == 0
    # A stripped program has its map still.
    stripped = fresh(".program")
    shutil.copy(program, stripped)
    subprocess.run(["strip", stripped], check=True)
    whole, bare = (trace_of(record_trace(p, "fib")[0]) for p in (program, stripped))
    assert paths_of(whole).total() == bare["trace"]["calls"] > 100, (whole["trace"], bare["trace"])


def patterns_choose_functions(kind):
    program = build(kind, "shapes.c", "-O0")
    path, done = record_trace(program, "abi", trace="--trace=make_*")
    names = {n["function"] for n in trace_of(path)["trace"]["nodes"]}
    assert names == {"make_big", "make_pair"}, (names, done.stderr)
    stripped = fresh(".program")
    shutil.copy(program, stripped)
    subprocess.run(["strip", stripped], check=True)
    path, done = record_trace(stripped, "abi", trace="--trace=make_*")
    assert b"stripped" in done.stderr and done.returncode == 0, done
    assert trace_of(path)["trace"]["calls"] == 0


def patches_come_and_go_under_running_threads(kind):
    program = build(kind, "code_threads.c", "-O1")
    path, out, changed, same = switched(program, "--malloc=off")
    assert out.endswith("right\n"), out
    told = trace_of(path)["trace"]
    print(changed + same, "switches seen in the code,", told["calls"], "calls,", told["left"], "left")
    assert told["calls"] > 1000 and told["lost"] == 0, told
    assert changed and (same or kind == "sleds"), (changed, same)


def images_loaded_later_are_patched_before_their_constructors(kind):
    compiler, room, _ = KINDS[kind]
    library, program = fresh(".so"), fresh(".program")
    subprocess.run([compiler, "-O1", "-g", "-fPIC", *room, "-c", trace_source("late_library.c"), "-o",
                    library + ".o"], check=True)
    subprocess.run(["gcc", "-shared", library + ".o", "-o", library], check=True)
    compile_c(trace_source("late_main.c"), "-O1", "-w", "-ldl", compiler="gcc", out=program)
    plain = subprocess.run([program, library], capture_output=True, check=True)
    path, done = record_trace(program, library)
    assert (done.returncode, done.stdout) == (0, plain.stdout), done
    found = paths_of(trace_of(path))
    assert found == {"late_begins": 2, "late_begins/late_work": 2, "late_begins/late_work/late_inner": 4,
                     "late_work": 10, "late_work/late_inner": 20}, (found, done.stderr)


def an_import_of_a_patched_function_is_told_once(kind):
    compiler, room, _ = KINDS[kind]
    library, program = fresh(".so"), fresh(".program")
    tail_c, objects = write("int late_work(int); int late_tail(int x) { return late_work(x + 1); }", ".c"), []
    for source in trace_source("late_library.c"), tail_c:
        objects.append(fresh(".o"))
        subprocess.run([compiler, "-O2", "-g", "-w", "-fPIC", *room, "-c", source, "-o", objects[-1]], check=True)
    subprocess.run(["gcc", "-shared", "-Wl,-Bsymbolic", *objects, "-o", library], check=True)
    main_c = write("int late_work(int), late_tail(int);"
                   "int main(void) { return late_work(1) + late_work(2) + late_tail(3) > 100; }", ".c")
    subprocess.run(["gcc", "-O0", main_c, library, "-o", program], check=True)
    path, done = record_trace(program, trace="--trace=late_*")
    told = trace_of(path)
    no_call_missing(told)
    # A tail call ends the function there; when that was told as an import, the other one is inside it.
    tail = "late_tail/" if kind == "sleds" else ""
    expected = collections.Counter(["late_tail", tail + "late_work"] + ["late_work"] * 2)
    expected += collections.Counter({path + "/late_inner": 2 * calls for path, calls in expected.items()
                                     if path != "late_tail"})
    assert paths_of(told) == expected, (paths_of(told), done.stderr)


def too_little_room_is_said():
    program = compile_c(trace_source("shapes.c"), *FLAGS, "-fpatchable-function-entry=3", compiler="gcc")
    path, done = record_trace(program, "fib")
    assert done.returncode == 0 and b"too little space at their entry" in done.stderr, done
    assert trace_of(path)["trace"]["calls"] == 0


def _of(test, kind):
    def case():
        test(kind)
    case.__name__ = f"{test.__name__}/{kind.replace(', ', '-')}"
    return case


for _test in [t for t in globals().values() if inspect.isfunction(t)]:
    if list(inspect.signature(_test).parameters) == ["kind"]:
        for _kind in KINDS:
            globals()[f"{_test.__name__}/{_kind}"] = _of(_test, _kind)
run_cases(globals())
