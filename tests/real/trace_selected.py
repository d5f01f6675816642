#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Functions that nobody prepared: a program selects its own (sonde_trace_calls), and while tracing is off their bytes are
the original ones, in the program's own trace and under a recorder."""
import os
import re
import subprocess

from helpers import (
    INCLUDE, LINK_SHARED, TIMEOUT_SECONDS, check, compile_c, fresh, needs_agent, output_of, report, run_cases,
    skip, sonde, start_record, write)
from shared.calls import paths_of, record_trace, trace_of, trace_source

needs_agent()


def a_program_selects_its_own():
    path = fresh()
    program = compile_c(trace_source("selected.c"), "-O1", "-pthread", INCLUDE, *LINK_SHARED)
    lines = output_of(program, path).splitlines()
    if lines[-1].split()[0] == "-11":
        skip("the CPU keeps a shadow stack")
    check(lines[:-1] == ["selected patched", *["on patched", "off original"] * 2, "threads original"], lines)
    n = [sum(3 * (k + i) + 1 for i in range(3)) for k in (0, 0, 1, 1, 1)]
    check(lines[-1] == f"0 {sum(n)}", lines[-1])
    check(paths_of(report(path, "trace")) == {"work": 2, "work/inner": 6}, report(path, "trace")["trace"])


def _bytes_of(program, pid, name):
    """Those of the function NAME in the file, and in the process."""
    offset = int(re.search(rf"^([0-9a-f]+) [tT] {name}$", output_of("nm", program), re.M)[1], 16)
    with open(f"/proc/{pid}/maps") as maps:
        base = next(int(line.split("-")[0], 16) for line in maps if line.rstrip().endswith(program))
    with open(f"/proc/{pid}/mem", "rb") as memory, open(program, "rb") as file:
        memory.seek(base + offset)
        file.seek(offset)
        return file.read(16), memory.read(16)


def off_restores_the_bytes_under_a_recorder():
    program = compile_c(trace_source("late_steps.c"), "-O1", "-fno-builtin", "-fno-inline", "-ldl")
    path, run = start_record([program], "--malloc=off", "--trace=!say_work", stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    pid = run.stdout.readline().strip()

    def work():
        run.stdin.write("work\n")
        run.stdin.flush()
        check(run.stdout.readline() == "0 7\n", "another answer")

    work()
    for word, is_original in ("off", True), ("on", False), ("off", True), ("on", False):
        sonde("ctl", pid, f"trace={word}")
        work()
        file, memory = _bytes_of(program, pid, "say_work")
        check((file == memory) == is_original, (word, file.hex(), memory.hex()))
    run.stdin.close()
    check(run.wait(timeout=60) == 0, "the program failed")
    told = trace_of(path)
    check(sum(calls for name, calls in paths_of(told).items() if name.endswith("say_work")) == 3, paths_of(told))


def any_name_of_a_function_selects_it():
    """A function with several names has one in a stack; the others select it, too."""
    library = compile_c(write("""int first(int n) { __asm__ volatile("" : "+r"(n)); return n * 3 + n / 7; }
int second(int n) __attribute__((alias("first")));
int _third(int n) __attribute__((alias("first"), weak));""", ".c"), "-O1", "-shared", "-fPIC", out=fresh(".so"))
    source = write("""#ifdef OWN
#include <sonde/intercept.h>
static int calls;
static void before(sonde_call_t *call, void *unused) { (void)call, (void)unused; calls++; }
#endif
int first(int), second(int), _third(int);
int main(int argc, char **argv) {
#ifdef OWN
  sonde_intercept_request_t request = {.target = argv[1], .before = before};
  sonde_intercept_t *handle;
  if (sonde_intercept_add(&request, &handle) != 1) return 2;
#endif
  (void)argv;
  int sum = first(argc) + second(argc) + _third(argc);
#ifdef OWN
  return calls != 3 || sonde_intercept_remove(handle) != 0 || first(1) != 3 || calls != 3;
#endif
  return sum == 1;
}""", ".c")
    program = compile_c(source, library, f"-Wl,-rpath,{os.path.dirname(library)}")
    own = compile_c(source, library, f"-Wl,-rpath,{os.path.dirname(library)}", "-DOWN", INCLUDE, *LINK_SHARED)
    for name in "first", "second", "_third":
        target = f"{os.path.basename(library)}!{name}"
        path, done = record_trace(program, trace=f"--trace={target}")
        check(done.returncode == 0 and sum(paths_of(trace_of(path)).values()) == 3, (name, done))
        done = subprocess.run([own, target], check=False, timeout=TIMEOUT_SECONDS)
        check(done.returncode == 0, (name, done))


run_cases(globals())
