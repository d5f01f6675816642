#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde record -p --leaks, and sonde leaks PID of a process recorded with -p: all threads are stopped from outside and
the process is copied. The oracle is the program, which knows what it loses. Some blocks are referenced by one register
only, threads are stopped inside the allocator, and a thread waits for children all the time."""
import json
import os
import signal

from helpers import TIMEOUT_SECONDS, children_of, compile_c, fresh, needs_agent, output_of, run_cases, sonde, try_sonde
from shared.attached import Program
from shared.serving import agents_in, start_attached

needs_agent()

LOSES = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static void *volatile kept[100];
static volatile int bad_waits;

/* The only reference is in a register; HIDDEN is the complement. From HELD on it is there. */
#if defined(__x86_64__)
#define WAIT "movl $1, (%1)\n1: movl $34, %%eax\n syscall\n jmp 1b" /* pause */
#define GENERAL "movq %0, %%rbx\n notq %%rbx\n"
#define VECTOR GENERAL "movq %%rbx, %%xmm7\n xorl %%ebx, %%ebx\n"
#define CLOBBERED "rax", "rbx", "rcx", "r11", "xmm7", "memory"
#else
#define WAIT "mov w0, 1\n stlr w0, [%1]\n1: mov x8, 73\n mov x0, 0\n mov x1, 0\n mov x2, 0\n mov x3, 0\n svc 0\n b 1b" /* ppoll */
#define GENERAL "mvn x20, %0\n"
#define VECTOR GENERAL "fmov d9, x20\n mov x20, 0\n"
#define CLOBBERED "x0", "x1", "x2", "x3", "x8", "x20", "d9", "memory"
#endif
static volatile int held[2];
static void *in_register(void *hidden) { __asm__ volatile(GENERAL WAIT ::"r"(hidden), "r"(&held[0]) : CLOBBERED); return NULL; }
static void *in_vector(void *hidden) { __asm__ volatile(VECTOR WAIT ::"r"(hidden), "r"(&held[1]) : CLOBBERED); return NULL; }

static void *churn(void *unused) {
  for (;;) {
    for (int i = 0; i < 200; i++) {
      void *volatile block = malloc((size_t)(16 + i));
      block = realloc(block, (size_t)(400 + 7 * i));
      free(block);
    }
    usleep(100);
  }
  return unused;
}
static void *waits_for_children(void *unused) {
  for (;; usleep(200))
    if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD) bad_waits++;
  return unused;
}
static void *waits_for_events(void *unused) {
  void *volatile block = malloc(500);
  for (;;) poll(NULL, 0, 3);
  return block ? unused : NULL;
}

__attribute__((noinline)) static void lose(void) {
  for (int i = 0; i < 50; i++) memset(malloc(333), 1, 333);
  for (int i = 0; i < 20; i++) {
    void *volatile *head = malloc(40);
    memset((void *)head, 0, 40);
    head[2] = memset(malloc(400), 1, 400);
  }
}
/* Nothing of it remains above the stack pointer. */
__attribute__((noinline)) static void far(void (*call)(void)) {
  volatile char room[20000];
  room[0] = 0;
  call();
  room[1] = room[0];
}
static uintptr_t hidden[2];
__attribute__((noinline)) static void hide(void) {
  hidden[0] = ~(uintptr_t)memset(malloc(128), 1, 128);
  hidden[1] = ~(uintptr_t)memset(malloc(136), 1, 136);
}
__attribute__((noinline)) static void overwrite(void) {
  volatile char room[10000];
  for (int i = 0; i < 10000; i++) room[i] = 1;
}
static void start(void *(*run)(void *), void *argument) {
  pthread_t thread;
  pthread_create(&thread, NULL, run, argument);
  pthread_detach(thread);
}
int main(void) {
  char line;
  for (int i = 0; i < 3; i++) start(churn, NULL);
  start(waits_for_children, NULL);
  if (write(1, "ready\n", 6) != 6) return 1;
  while (read(0, &line, 1) == 1) {
    if (line == 'c') {
      char text[32];
      int n = snprintf(text, sizeof text, "%d\n", bad_waits);
      if (write(1, text, (size_t)n) != n) return 1;
      continue;
    }
    for (int i = 0; i < 100; i++) kept[i] = malloc(1000);
    far(lose);
    far(hide);
    start(in_register, (void *)hidden[0]);
    start(in_vector, (void *)hidden[1]);
    start(waits_for_events, NULL);
    far(overwrite);
    while (!held[0] || !held[1]) usleep(1000);
    if (write(1, "done\n", 5) != 5) return 1;
  }
  return 0;
}
"""
LEAKED = {"blocks": 70, "bytes": 50 * 333 + 20 * 40}
INDIRECT = {"blocks": 20, "bytes": 20 * 400}


def _program(folder):
    return Program(compile_c(LOSES, "-g", "-O1", "-pthread", out=os.path.join(folder, "loses")))


def _stop(recorder):
    recorder.send_signal(signal.SIGINT)
    said = recorder.stderr.read()
    assert recorder.wait(TIMEOUT_SECONDS) == 0, said
    return said


def _check(told):
    assert told["leaked"] == LEAKED and told["indirect"] == INDIRECT, told
    assert [stack["frames"][0]["function"] for stack in told["stacks"]] == ["lose"] * len(told["stacks"]), told
    assert not any(stack["uncertain"] for stack in told["stacks"]), told
    assert not told["every_block_recorded"], told


def _unharmed(program):
    """No wait of the program saw a child, and none is left."""
    assert program.work(b"c") == b"0\n"
    assert not children_of(program.pid) and not agents_in(program.pid)


def leaks_at_the_end_are_exact(folder):
    with _program(folder) as program:
        path = fresh()
        recorder = start_attached(program.pid, path, "--leaks")
        program.work()
        said = _stop(recorder)
        assert "25.4 KB in 90 blocks leaked: 17.4 KB in 70 blocks that nothing points to, the rest" in said, said
        _check(json.loads(sonde("leaks", "--json", path)))
        assert "searched   at the end of the recording" in sonde("leaks", path)
        _unharmed(program)


def leaks_are_found_while_it_records(folder):
    with _program(folder) as program:
        recorder = start_attached(program.pid, fresh(), "--malloc=live")  # which loses nothing
        program.work()
        for _ in range(3):
            told = json.loads(sonde("leaks", "--json", program.pid))
            _check(told)
            assert {thread["registers"] for thread in told["threads"]} == {"stopped"}, told["threads"]
        block = told["blocks"][0]["address"]
        assert not json.loads(sonde("leaks", "--json", program.pid, block))["referrers"]
        _stop(recorder)
        _unharmed(program)


def a_process_that_ends_before_is_told(folder):
    with _program(folder) as program:
        path = fresh()
        recorder = start_attached(program.pid, path, "--leaks")
        program.work()
        assert program.end() == 0
        said = recorder.stderr.read()
        assert recorder.wait(TIMEOUT_SECONDS) == 0 and "the process ended before the recording" in said, said
        assert "the program ended before the recording did" in sonde("leaks", path)


def modes_without_every_block_are_refused(folder):
    with _program(folder) as program:
        done = try_sonde("record", "-p", program.pid, "--leaks", "--malloc=sample:1K")
        assert done.returncode == 2 and "--leaks needs every block" in done.stderr, done
        assert output_of("cat", f"/proc/{program.pid}/comm") and not agents_in(program.pid)


run_cases(globals())
