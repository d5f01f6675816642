#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Inside traced calls every unwinder sees the stack that is there without tracing: hooks and sleds add
nothing to it, trampolines (patched entries, imports) one frame named sonde_trampoline a call."""
import os
import re
import subprocess
import time

from helpers import SONDE, fresh, needs, needs_agent, output_of, run_cases, skip
from shared.calls import paths_of, trace_of, trace_source

needs_agent()
WAYS = {  # compiler, its options, --trace, frames that tracing adds
    "hooks": ("gcc", ["-finstrument-functions"], "--trace", 0),
    "sleds": ("clang", ["-fxray-instrument", "-fxray-instruction-threshold=1"], "--trace", 0),
    "entries": ("gcc", ["-fpatchable-function-entry=5"], "--trace", 4),
    "import": ("gcc", [], "--trace=depth_inner", 1),
}


def _build(way):
    compiler, options, _, _ = WAYS[way]
    library, program = fresh(".so"), fresh(".program")
    source = trace_source("depth.c")
    for made, more in ((library + ".o", ["-fPIC"]), (program + ".o", ["-DOUTER"])):
        subprocess.run([compiler, "-O0", "-g", "-w", *options, *more, "-c", source, "-o", made], check=True)
    subprocess.run(["gcc", "-shared", library + ".o", "-lunwind", "-o", library], check=True)
    subprocess.run(["gcc", program + ".o", library, "-o", program], check=True)
    return program


needs("clang", "gdb")
try:
    _build("hooks")
except subprocess.CalledProcessError:
    skip("libunwind is not installed")


def _command(way, program, traced):
    return ([SONDE, "record", WAYS[way][2], "-o", fresh(), "--"] if traced else []) + [program]


def unwinders_see_the_plain_stack():
    for way, (_, _, _, more) in WAYS.items():
        program = _build(way)
        plain, traced = ([int(n) for n in output_of(*_command(way, program, t)).split()] for t in (False, True))
        if way in ("hooks", "sleds"):
            assert traced[1:] == plain[1:], (way, plain, traced)
        else:
            # Of the unwinders' own helpers some are traced as well, being functions of the program.
            own = traced[4]
            assert more <= own <= more + 1, (way, traced)
            assert traced[1] - plain[1] in (more, own), (way, plain, traced)
            assert traced[2] - plain[2] in (more, own) and traced[3] - plain[3] == own, (way, plain, traced)
        print(way, plain[1:], traced[1:])


def _gdb_names(way, program, traced):
    process = subprocess.Popen([*_command(way, program, traced), "wait"], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL)
    pid = process.stdout.readline().split()[0].decode()
    try:
        for _ in range(20):
            done = subprocess.run(["gdb", "-nx", "-batch", "-p", pid, "-ex", "bt"], capture_output=True, text=True,
                                  timeout=150, check=False)
            names = re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?(\S+)", done.stdout, re.M)
            if "depth_probe" in names and any("sleep" in n for n in names):
                return names[names.index("depth_probe"):]
            time.sleep(0.1)
        raise AssertionError((way, done))
    finally:
        os.kill(int(pid), 9)
        process.communicate()


def gdb_sees_the_plain_stack():
    for way, (_, _, _, more) in WAYS.items():
        program = _build(way)
        plain, traced = (_gdb_names(way, program, t) for t in (False, True))
        assert plain == ["depth_probe", "middle", "depth_inner", "main"], (way, plain)
        assert [n for n in traced if n != "sonde_trampoline"] == plain, (way, traced)
        assert traced.count("sonde_trampoline") == min(more, 3), (way, traced)  # it stops at main


def a_program_that_gdb_has_started_is_traced():
    """gdb has its breakpoint at the loader's function then, where images that come later are noticed:
    whoever gets it, the program runs, and calls of what was there before are traced."""
    program, path = _build("import"), fresh()
    done = subprocess.run(["gdb", "-nx", "-batch", "-ex", "set follow-fork-mode child", "-ex",
                           "set breakpoint pending on", "-ex", "break depth_probe", "-ex", "run", "-ex", "bt",
                           "-ex", "continue", "--args", SONDE, "record", "--trace=depth_inner", "-o", path,
                           "--", program], capture_output=True, text=True, timeout=100, check=False)
    assert "exited normally" in done.stdout, done
    names = re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?(\S+)", done.stdout, re.M)
    assert names == ["depth_probe", "middle", "depth_inner", "sonde_trampoline", "main"], done.stdout
    assert paths_of(trace_of(path)) == {"depth_inner": 1}, trace_of(path)["trace"]


run_cases(globals())
