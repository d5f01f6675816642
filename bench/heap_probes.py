#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What malloc and free cost with the probes of otel_memory, while nobody is attached and with a profiler that has
attached by uprobes. The base is a preloaded library of empty wrappers, which only call the C library.

usage: heap_probes.py

A program allocates and frees blocks of 1 to 256 bytes in batches of 20,000 pairs. A batch's time is the thread's CPU
time. The least one shows what a call costs; the mean of the faster half has the samples, too, one in 512 KB."""
import os
import statistics
import subprocess

from helpers import LIB, child_of, compile_c, source_file, start_record
from shared.probes import notes, offset_of

BATCHES, PAIRS, ROUNDS = 300, 20000, 4
AGENT = os.path.join(LIB, "libsonde-agent.so")

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static void *blocks[64];
static unsigned long now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (unsigned long)t.tv_sec * 1000000000 + (unsigned long)t.tv_nsec;
}
int main(int argc, char **argv) {
  char line;
  unsigned random = 1;
  if (argc != 3 || write(1, "ready\n", 6) != 6 || read(0, &line, 1) != 1) return 1;
  for (long batch = atol(argv[1]); batch; batch--) {
    unsigned long began = now_ns();
    for (long i = atol(argv[2]); i; i--) {
      random = random * 1664525 + 1013904223;
      free(blocks[i % 64]);
      blocks[i % 64] = malloc((random >> 24) + 1);
    }
    dprintf(1, "%lu\n", now_ns() - began);
  }
  dprintf(1, "end\n");
  return read(0, &line, 1) != 1;
}
"""
WRAPPERS = r"""
#include <stddef.h>
void *__libc_malloc(size_t size);
void __libc_free(void *block);
__attribute__((noinline)) void *malloc(size_t size) { return __libc_malloc(size); }
__attribute__((noinline)) void free(void *block) { __libc_free(block); }
"""


def batches(process):
    """The times of a pair in the batches of a program that has said "ready"."""
    process.stdin.write("x")
    process.stdin.flush()
    times = [int(line) / PAIRS for line in iter(process.stdout.readline, "end\n")]
    process.communicate("x")
    assert process.returncode == 0 and len(times) == BATCHES, process.returncode
    return times


PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}


def bare(command, **environment):
    with subprocess.Popen(command, env={**os.environ, **environment}, **PIPES) as process:
        assert process.stdout.readline() == "ready\n"
        return batches(process)


def recorded(command, profiler, *options):
    _, recorder = start_record(command, *options, **PIPES)
    assert recorder.stdout.readline() == "ready\n"
    if not profiler:
        return batches(recorder)
    places = [str(offset_of(AGENT, place)) for name in ("alloc", "free") for place in notes(AGENT)[name][:2]]
    with subprocess.Popen([profiler, str(child_of(recorder.pid)), AGENT, *places], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as attached:
        if attached.stdout.readline() != "attached\n":
            recorder.kill()
            return None
        times = batches(recorder)
        hits = attached.communicate()[0].count("alloc ")
        assert hits > 0, "the profiler saw nothing"
        return times


def main():
    program = compile_c(PROGRAM, "-O2", "-fno-builtin")
    wrappers = compile_c(WRAPPERS, "-O2", "-shared", "-fPIC", "-fno-builtin")
    profiler = compile_c(source_file("real", "heap", "probes.c"), "-O1")
    command = [program, str(BATCHES), str(PAIRS)]
    ways = {
        "the C library": lambda: bare(command),
        "empty wrappers": lambda: bare(command, LD_PRELOAD=wrappers),
        "no sample is taken": lambda: recorded(command, None, "--malloc=sample:1G"),
        "sampled, nobody attached": lambda: recorded(command, None, "--malloc=sample:512K"),
        "sampled, a profiler attached": lambda: recorded(command, profiler, "--malloc=sample:512K"),
    }
    times = {name: [] for name in ways}
    for _ in range(ROUNDS):  # in turn, so that other work disturbs all ways alike
        for name, way in ways.items():
            times[name] += way() or []
    base = None
    for name, of in times.items():
        if not of:
            print(f"{name}: the kernel refuses uprobes")
            continue
        half = statistics.mean(sorted(of)[:len(of) // 2])
        if name == "empty wrappers":
            base = min(of), half
        more = f", {(min(of) - base[0]) / 2:+.2f} and {(half - base[1]) / 2:+.2f} ns a call" if base else ""
        print(f"{name}: {min(of):.1f} ns for malloc and free, faster half {half:.1f} ns{more}")


if __name__ == "__main__":
    main()
