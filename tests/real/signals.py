#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The actions of all signals are to a program what they are without sonde, before and after it changes that of
SIGURG, which sonde uses: with each function that queries it, and in a child."""
import platform
import re
import subprocess

from helpers import compile_c, fresh, needs_agent, record, report, run_cases, skip, write

needs_agent()

SOURCE = r"""
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile int count;
static void first(int number) { (void)number; count++; }
static void second(int number, siginfo_t *info, void *context) { (void)number, (void)info, (void)context; count += 10; }
static const char *name_of(void (*handler)(int)) {
  if (handler == SIG_DFL) return "default";
  if (handler == SIG_IGN) return "ignore";
  if (handler == first) return "first";
  return (void *)handler == (void *)second ? "second" : "another";
}
static void print_all(void) {
  struct sigaction now;
  for (int number = 1; number < NSIG; number++) {
    if (sigaction(number, NULL, &now) != 0 || (now.sa_handler == SIG_DFL && !now.sa_flags)) continue;
    printf("%d %s %x", number, name_of(now.sa_handler), (unsigned)now.sa_flags);
    for (int other = 1; other < NSIG; other++)
      if (sigismember(&now.sa_mask, other) == 1) printf(" %d", other);
    puts("");
  }
  raise(SIGURG);
  printf("count %d\n", count);
}
/* Computes for long enough that ticks of CPU time arrive, and sonde's handler is there again. */
static void work(void) {
  clock_t end = clock() + CLOCKS_PER_SEC / 20;
  while (clock() < end) {
  }
}
int main(void) {
  struct sigaction action = {.sa_sigaction = second, .sa_flags = SA_SIGINFO | SA_RESTART}, old;
  sigaddset(&action.sa_mask, SIGUSR1);
  setvbuf(stdout, NULL, _IOLBF, 0);
  work();
  print_all();
  for (int i = 0; i < 10; i++) {
    puts(name_of(signal(SIGURG, i % 2 ? SIG_IGN : SIG_DFL)));
    work();
  }
  puts(name_of(signal(SIGURG, first)));
  work();
  print_all();
  sigaction(SIGURG, &action, &old);
  puts(name_of(old.sa_handler));
  work();
  print_all();
  if (fork() == 0) {
    print_all();
    return 0;
  }
  wait(NULL);
  sigaction(SIGURG, &old, &action);
  puts(name_of(action.sa_handler));
  return 0;
}
"""


def actions_are_those_without_sonde():
    program = compile_c(write(SOURCE, ".c"), "-O1", out=fresh(".program"))
    plain = subprocess.run([program], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    path, done = record([program], "--sample", "--malloc", text=True)
    assert "another" not in plain.stdout and re.search("^count 1$", plain.stdout, re.M), plain
    assert (done.returncode, done.stdout) == (0, plain.stdout), (done.stdout, plain.stdout)
    samples = report(path, "sample")["sample"]
    assert samples["samples"] > 20, samples


def an_interpreter_saves_and_restores_them():
    """Python has no object for a handler that is none of its own, and refuses to install it again."""
    script = "import signal\nfor s in signal.valid_signals() - {9, 19, 32, 33}: signal.signal(s, signal.getsignal(s))"
    _, done = record(["python3", "-c", script], "--sample", text=True)
    assert done.returncode == 0 and "TypeError" not in done.stderr, done


PREEMPTED = r"""
#define _GNU_SOURCE
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
void preempted(void);
__asm__(".text\n.globl preempted\n.type preempted, @function\npreempted: ret\n.size preempted, . - preempted\n");
static volatile int calls;
/* As Go preempts a goroutine: it is made to call a function. */
static void handle(int number, siginfo_t *info, void *context) {
  greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
  (void)number, (void)info;
  g[REG_RSP] -= sizeof(greg_t);
  *(greg_t *)g[REG_RSP] = g[REG_RIP];
  g[REG_RIP] = (greg_t)preempted;
  calls++;
}
/* The program's signal waits first, then a tick of CPU time. */
__attribute__((noinline)) static void turn(sigset_t *set) {
  clock_t end = clock() + CLOCKS_PER_SEC / 40;
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, set, NULL, 8);
  raise(SIGURG);
  while (clock() < end) {
  }
  syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, set, NULL, 8);
}
int main(void) {
  struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGURG);
  sigaction(SIGURG, &action, NULL);
  for (int i = 0; i < 20; i++) turn(&set);
  return calls != 20;
}
"""


def a_handler_that_makes_a_call_takes_no_samples():
    if platform.machine() != "x86_64":
        skip("the handler is written for x86_64")
    path, done = record([compile_c(PREEMPTED, "-g", "-O1", "-mno-red-zone")], "--sample")
    assert done.returncode == 0, done
    stacks = report(path, "sample")["sample"]["stacks"]
    names = [[frame.get("function") for frame in stack["frames"]] for stack in stacks]
    assert any("turn" in stack for stack in names), names
    assert not any(stack[0] == "preempted" for stack in names), names


run_cases(globals())
