#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""With --async, the stacks of every sensor continue with the callers of Swift's async functions; without it
they are the thread's own. clang makes the frames, with Swift's calling convention (fixtures/async.c); the
program itself makes the contexts, so the expected callers are known."""
import json
import os
import shutil
import subprocess

from helpers import (
    INCLUDE, LINK_SHARED, WORK, check, compile_c, kill, needs_agent, output_of, record, report, run_cases, skip, sonde, source_file,
    start_record, until, until_asleep, write)

needs_agent()

SOURCE = r"""
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
typedef struct context {
  struct context *parent;
  void (*resume)(void);
  void (*call_back)(void *argument);
  void *argument;
} context_t;
void run_async(context_t *context);
void fetch_image(void) {}
void show_page(void) {}
void *volatile kept;
volatile uint64_t sum;
__attribute__((noinline)) void body(void *argument) {
  const char *what = argument;
  if (!strcmp(what, "allocate")) for (int i = 0; i < 1000; i++) kept = malloc(100);
  if (!strcmp(what, "burn")) for (long i = 0; i < 250000000; i++) sum += i;
  if (!strcmp(what, "audit")) close(open("/dev/null", O_RDONLY));
  void told(void) __attribute__((weak));
  if (!strcmp(what, "told")) told();
  if (!strcmp(what, "wait")) { puts("waits"); fflush(stdout); char c; while (read(0, &c, 1) > 0) {} }
  __asm__ volatile("");
}
__attribute__((noinline)) void executor(char *what) {
  context_t second = {0, 0, 0, 0};
  context_t first = {&second, show_page, 0, 0};
  context_t inner = {&first, fetch_image, body, what};
  context_t outer = {&inner, fetch_image, 0, 0};
  run_async(&outer);
  __asm__ volatile("");
}
int main(int argc, char **argv) { executor(argv[argc - 1]); return 0; }
"""
# A program that watches itself: `body` goes on until its stall was told with the stack of contexts, or without.
WATCHER = r"""
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sonde/sonde.h>
int executor_main(int count, char **arguments);
static volatile int is_told, is_watched;
void told(void) { while (!is_told) {} }
static void stalled(const sonde_stall_t *s, void *context) {
  (void)context;
  if (s->phase == SONDE_STALL_ENDED || s->count <= 0) return;
  char text[4096] = "";
  for (int i = 0; i < s->count; i++) {
    sonde_name_t name;
    if (sonde_name(s->pcs[i], i == 0 ? SONDE_NAME_EXACT : 0, &name) == 0 && name.symbol)
      strcat(strcat(text, name.symbol), " ");
  }
  if (!strstr(text, "body ")) return; /* it has just begun */
  puts(strstr(text, "body "));
  fflush(stdout);
  is_told = 1;
}
static void *watch(void *unused) { sonde_stall_monitor(20, stalled, NULL); return unused; }
int main(int count, char **arguments) {
  pthread_t thread;
  if (arguments[1][0] == 'f') sonde_stack_async(SONDE_ASYNC_FOLLOW);
  pthread_create(&thread, NULL, watch, NULL);
  while (sonde_stall_begin(0) != 0) {}
  arguments[count - 1] = "told";
  executor_main(count, arguments);
  sonde_stall_end();
  sonde_stall_monitor_stop();
  pthread_join(thread, NULL);
  return 0;
}
"""
CALLERS = ["body", "async_inner", "fetch_image", "show_page"]
OWN = ["body", "async_inner", "between", "async_outer", "run_async", "executor", "main"]
_made = []


def _program():
    if not shutil.which("clang"):
        skip("only clang knows Swift's calling convention")
    if not _made:
        library = f"{WORK}/async.o"
        output_of("clang", "-O2", "-g", "-fno-omit-frame-pointer", "-fswift-async-fp=always", "-fPIC", "-c",
                  source_file("fixtures", "async.c"), "-o", library)
        _made.append(compile_c(write(SOURCE, ".c"), "-O2", "-g", library))
    return _made[0]


def recorded(what, *options, **how):
    path, done = record([_program(), what], *options, **how)
    assert done.returncode == 0, done
    return path


def collapsed(path):
    """The stacks of an export, innermost first, that have `body`: inlined calls of the libc are inside it."""
    stacks = [line.rsplit(" ", 1)[0].split(";")[::-1] for line in sonde("export", path, "--as", "collapsed").splitlines()]
    assert stacks, path
    return [stack[stack.index("body"):] for stack in stacks if "body" in stack]


def is_all(stacks, wanted):
    check(stacks and all(stack[:len(wanted)] == wanted for stack in stacks), (stacks, wanted))


def allocations_and_samples_follow():
    for what, sensor in ("allocate", "--malloc"), ("burn", "--sample=500"):
        is_all(collapsed(recorded(what, "--async", sensor)), CALLERS)
        is_all(collapsed(recorded(what, sensor)), OWN)


def audited_calls_follow():
    for options, wanted in (["--async"], CALLERS), ([], OWN):
        told = report(recorded("audit", "--audit=files", *options), "audit")
        stacks = [[frame["function"] for frame in finding["frames"]] for finding in told["audit"]["findings"]
                  if finding["arguments"].startswith('"/dev/null"')]
        is_all([stack[stack.index("body"):] for stack in stacks], wanted)


def a_waiting_thread_follows():
    """Read from outside: by `stacks`, and by the recorder."""
    process = subprocess.Popen([_program(), "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "waits\n"
    until_asleep(process.pid)
    told = json.loads(sonde("stacks", "--async", "--json", process.pid))["threads"][0]
    own = json.loads(sonde("stacks", "--json", process.pid))["threads"][0]
    kill(process)
    names = [(frame["function"], frame.get("async", False)) for frame in told["frames"]]
    assert names[-4:] == [("body", False), ("async_inner", False), ("fetch_image", True), ("show_page", True)], names
    check(told["complete"] and own["complete"], (told, own))
    names = [frame["function"] for frame in own["frames"]]
    assert names[names.index("body"):][:len(OWN)] == OWN, names


def recorded_waits_follow():
    read_end, write_end = os.pipe()
    path, process = start_record([_program(), "wait"], "--async", "--wall=500", stdin=read_end, stdout=subprocess.PIPE,
                                 text=True)
    assert process.stdout.readline() == "waits\n"
    until(lambda: any(wait["syscall"] == "read" for wait in report(path, "waits").get("waits", {"waits": []})["waits"]), "it waits")
    os.close(read_end)
    os.close(write_end)
    assert process.wait(60) == 0
    wait = next(wait for wait in report(path, "waits")["waits"]["waits"] if wait["syscall"] == "read")
    names = [frame["function"] for frame in wait["frames"]]
    assert names[names.index("body"):] == CALLERS, names


def own_monitors_follow():
    _program()
    whole = SOURCE.replace("int main(", "int executor_main(")
    made = compile_c(write(whole + WATCHER, ".c"), "-O2", "-g", "-rdynamic", f"{WORK}/async.o", INCLUDE, *LINK_SHARED, "-pthread")
    for how, wanted in ("follow", CALLERS), ("own", OWN):
        names = output_of(made, how).split()
        assert names[:len(wanted)] == wanted, (how, names)


run_cases(globals())
