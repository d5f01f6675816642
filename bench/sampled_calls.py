#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What one in 512 KB costs a call of malloc and free, calloc and free, or realloc: sonde beside preloaded wrappers that
only call the C library, and the samplers of jemalloc and tcmalloc beside these allocators without them.

usage: sampled_calls.py [ROUNDS]

A loop replaces random blocks of 16 to 143 bytes among 1,000. Each run reports its fastest fifth, in CPU time of the
thread. Variants run in turn; the least and the median of all rounds."""
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "record"))
from measure import SONDE, library, version  # noqa: E402

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 9
KINDS = {"malloc and free": 2, "calloc and free": 2, "realloc": 1}  # and its calls
PROGRAM = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
enum { BLOCKS = 1000, PARTS = 5, PART = 600000 };
static void *blocks[BLOCKS];
static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}
int main(int argc, char **argv) {
  int kind = argc > 1 ? atoi(argv[1]) : 0;
  uint64_t random = 88172645463325252u;
  double least = 1e18;
  for (int part = 0; part < PARTS; part++) {
    double began = now_ns();
    for (int i = 0; i < PART; i++) {
      random ^= random << 13, random ^= random >> 7, random ^= random << 17;
      void **block = &blocks[(uint32_t)random % BLOCKS];
      size_t size = 16 + (random >> 32 & 127);
      if (kind == 2) {
        *block = realloc(*block, size);
        continue;
      }
      free(*block);
      *block = kind ? calloc(1, size) : malloc(size);
    }
    double took = (now_ns() - began) / PART;
    if (took < least) least = took;
  }
  printf("%.3f\n", least);
}
"""
WRAPPERS = r"""
#include <stddef.h>
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void __libc_free(void *);
void *malloc(size_t size) { return __libc_malloc(size); }
void free(void *block) { __libc_free(block); }
void *calloc(size_t count, size_t size) { return __libc_calloc(count, size); }
void *realloc(void *block, size_t size) { return __libc_realloc(block, size); }
"""


def build(folder, name, text, *options):
    path = os.path.join(folder, name)
    subprocess.run(["gcc", "-O2", "-fno-builtin", *options, "-x", "c", "-", "-o", path], input=text, text=True,
                   check=True)
    return path


def variants(folder):
    """{name: (its base, the command before the program, its environment)}"""
    wrappers = build(folder, "wrappers.so", WRAPPERS, "-shared", "-fPIC", "-fno-plt")
    found = {"the C library": (None, [], {}),
             "empty wrappers": ("the C library", [], {"LD_PRELOAD": wrappers}),
             "sonde sample:512K": ("the C library", [SONDE, "record", "--malloc=sample:512K", "-o",
                                                     os.path.join(folder, "x.sonde"), "--"], {})}
    for name, file, sampler in (("jemalloc", "libjemalloc.so.2", {"MALLOC_CONF": "prof:true,lg_prof_sample:19"}),
                                ("tcmalloc", "libtcmalloc.so.4", {"TCMALLOC_SAMPLE_PARAMETER": "524288"})):
        path = library(file)
        if path:
            found[name] = None, [], {"LD_PRELOAD": path}
            found[name + "'s sampler"] = name, [], {"LD_PRELOAD": path, **sampler}
    return found


def run(program, kind, before, env, folder):
    for old in os.listdir(folder):
        if old.endswith(".sonde"):
            os.unlink(os.path.join(folder, old))
    return float(subprocess.run([*before, program, str(kind)], capture_output=True, text=True, check=True,
                                env={**os.environ, **env}).stdout)


def main():
    print(f"{version('libjemalloc2')}, {version('libgoogle-perftools4')}; rounds {ROUNDS}")
    with tempfile.TemporaryDirectory() as folder:
        program, all_of_them = build(folder, "program", PROGRAM), variants(folder)
        for kind, (what, calls) in enumerate(KINDS.items()):
            times = {name: [] for name in all_of_them}
            for _ in range(ROUNDS):
                for name, (_, before, env) in all_of_them.items():
                    times[name].append(run(program, kind, before, env, folder))
            print(f"{what}, ns: least, median; added to a call: least, median")
            for name, (base, *_) in all_of_them.items():
                added = [(of(times[name]) - of(times[base])) / calls for of in (min, statistics.median)] if base else []
                print(f"  {name:20} {min(times[name]):7.2f} {statistics.median(times[name]):7.2f}"
                      + "".join(f" {a:+7.2f}" for a in added))


main()
