#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs built with a sanitizer, whose runtime must come before every other library, behave under `sonde
record` as without it: the same output, findings and exit status. The oracle is the program itself."""
import glob
import os
import re
import shlex
import subprocess

from helpers import compile_c, fresh, needs_agent, output_of, record, report, run_cases, skip

needs_agent()

SOURCE = r"""
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static jmp_buf place;
static int racy, written;
static void *work(void *finds) {
  for (int i = 0; i < 100; i++) free(memset(malloc(100 + i), 1, 100));
  if (finds) racy = 1;
  __atomic_store_n(&written, 1, __ATOMIC_RELAXED);
  while (__atomic_load_n(&written, __ATOMIC_RELAXED) != 2) sched_yield();
  return NULL;
}
static void leave(int depth) {
  if (depth) leave(depth - 1);
  longjmp(place, 1);
}
/* Stale words on the stack can hide a leaked block. */
static __attribute__((noinline)) void clear_stack(void) {
  char words[65536];
  memset(words, 0, sizeof words);
  __asm__ volatile("" ::"r"(words) : "memory");
}
int main(int argc, char **argv) {
  int finds = argc > 1 && !strcmp(argv[1], "find");
  pthread_t thread;
  pthread_create(&thread, NULL, work, finds ? &racy : NULL);
  while (!__atomic_load_n(&written, __ATOMIC_RELAXED)) sched_yield();
  if (finds) racy = 2;
  __atomic_store_n(&written, 2, __ATOMIC_RELAXED);
  pthread_join(thread, NULL);
  if (!setjmp(place)) leave(4);
  if (argc > 1 && !strcmp(argv[1], "exec")) execl(argv[0], argv[0], (char *)NULL);
  printf("%s %s\n", getenv("LD_PRELOAD") ? "preload" : "-", getenv("SONDE_RECORD") ? "settings" : "-");
  fflush(stdout);
  if (finds) {
    char *volatile block = malloc(77);
    if (argc > 2) free(block);
    if (argc > 2) return block[5];
    block = NULL;
    clear_stack();
    return 0;
  }
  return 5;
}
"""
SENSORS = ["--malloc=all", "--sample=500", "--stall", "--audit", "--wall", "--trace=libc.so*:*"]


def _program(sanitizer, *options):
    program = fresh(".program")
    try:
        return compile_c(SOURCE, "-g", "-pthread", f"-fsanitize={sanitizer}", *options, out=program)
    except AssertionError as error:
        skip(str(error))


def _said(done):
    """Exit status and output, without what differs between two runs."""
    text = "\n".join(line for line in (done.stdout + done.stderr).decode().splitlines() if not line.startswith("sonde record:"))
    text = re.sub(r"==\d+==|0x[0-9a-f]+|\b(pid|tid)=\d+|\d+ microseconds", "…", text)
    return done.returncode, text


def _same(sanitizer, *ways):
    program = _program(sanitizer)
    for way in ways:
        command = [program, *way]
        plain = _said(subprocess.run(command, capture_output=True, check=False, timeout=60))
        path, done = record(command, *SENSORS)
        assert _said(done) == plain, (command, _said(done), plain)
        assert report(path)["arguments"][0] == program
    return plain[0]


def address():
    assert _same("address", ["exec"], ["find", "after free"]) == 1


def leak():
    assert _same("leak", ["find"]) == 23


def thread():
    assert _same("thread", ["find"]) == 66


def children_get_the_runtime_that_they_need():
    program = _program("address")
    maps = "grep -c -e libasan /proc/self/maps"
    path, done = record(["/bin/sh", "-c", f"{shlex.quote(program)}; echo $?; {maps}; exec env {shlex.quote(program)}"], "--follow", "--malloc=all")
    lines = done.stdout.decode().split()
    assert done.returncode == 5 and lines == ["preload", "settings", "5", "0", "preload", "settings"], done
    assert report(path)["arguments"][0] == program
    children = glob.glob(path.replace(".sonde", ".*.sonde"))
    assert program in [report(child)["arguments"][0] for child in children]


def a_runtime_that_the_user_preloads():
    """As for a program that loads a library built with the sanitizer."""
    runtime = os.path.realpath(output_of("cc", "-print-file-name=libasan.so").strip())
    if not os.path.exists(runtime):
        skip("no shared libasan")
    command = ["env", f"LD_PRELOAD={runtime}", "ASAN_OPTIONS=detect_leaks=0", "printenv", "LD_PRELOAD"]
    path, done = record(command)
    assert (done.returncode, done.stdout.decode()) == (0, runtime + "\n"), done
    assert report(path)["arguments"] == command[3:]


run_cases(globals())
