#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Audited arguments in memory that goes away: pointers to nothing, and pages that another thread unmaps while calls
read their path from them. The program notices nothing, whoever handles SIGSEGV, and every call is counted."""
import subprocess

from helpers import needs_agent, run_cases
from shared.audits import audit_of, compile_audited, record_audit

needs_agent()

RACE = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static char *page;
static atomic_int done;
static long efault, enoent, faults, gone;

static void *come_and_go(void *unused) {
  (void)unused;
  while (!done) {
    mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    strcpy(page, "/nonexistent/file");
    if (gone++ % 2)
      munmap(page, 4096);
    else
      mprotect(page, 4096, PROT_NONE);
  }
  return NULL;
}

static void handler(int number) {
  (void)number;
  faults++;
  _exit(9);
}

int main(int argc, char **argv) {
  pthread_t other;
  struct timespec start, now;
  /* Far below where the kernel looks for room: nobody else's memory comes to lie there. */
  page = (char *)(1L << 40);
  if (argc > 1 && !strcmp(argv[1], "handler")) signal(SIGSEGV, handler);
  if (argc > 1 && !strcmp(argv[1], "sigaction")) {
    struct sigaction action = {.sa_handler = handler}, old;
    sigaction(SIGBUS, &action, &old);
    sigaction(SIGSEGV, &action, &old);
    if (old.sa_handler != SIG_DFL) return 8;
  }
  if (argc > 1 && !strcmp(argv[1], "back")) {
    signal(SIGSEGV, handler);
    if (signal(SIGSEGV, SIG_DFL) != handler) return 7;
  }
  pthread_create(&other, NULL, come_and_go, NULL);
  clock_gettime(CLOCK_MONOTONIC, &start);
  int sock = socket(AF_UNIX, SOCK_DGRAM, 0);
  long calls = 0;
  do {
    for (int i = 0; i < 1000; i++, calls++) {
      unlink(page);
      if (errno == EFAULT) efault++;
      else if (errno == ENOENT || errno == ENOTDIR) enoent++;
      else return 6;
    }
    connect(sock, (struct sockaddr *)page, 110);
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (now.tv_sec - start.tv_sec < 2);
  done = 1;
  pthread_join(other, NULL);
  printf("%ld %ld %ld %ld %ld\n", calls, efault, enoent, faults, gone);
  return 0;
}"""

BLOCKED = r"""
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static void try_all(const char *when) {
  char *end = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(end + 4096, 4096, PROT_NONE);
  end[4095] = 'x'; /* a string that runs out of memory */
  const char *paths[] = {(char *)16, (char *)-8, (char *)0x4141414141414141, end + 4095, end + 4096, NULL};
  for (int i = 0; i < 6; i++)
    printf("%s %d %s\n", when, i, unlink(paths[i]) < 0 && errno == EFAULT ? "EFAULT" : "?");
}

static void in_handler(int number) { try_all("handler"); }

int main(void) {
  sigset_t all;
  sigfillset(&all);
  try_all("open");
  struct sigaction action = {.sa_handler = in_handler, .sa_mask = all};
  sigaction(SIGUSR1, &action, NULL);
  raise(SIGUSR1);
  sigprocmask(SIG_SETMASK, &all, NULL);
  try_all("blocked");
  return 0;
}"""


def memory_that_another_thread_unmaps():
    program = compile_audited(RACE, "-pthread")
    for how in "default", "handler", "sigaction", "back":
        path, done = record_audit([program, how])
        assert done.returncode == 0, (how, done)
        calls, efault, enoent, faults, gone = map(int, done.stdout.split())
        assert efault and enoent and not faults and gone > 1000, (how, done.stdout)
        found = [r for r in audit_of(path)["findings"] if r["function"] == "unlink"]
        assert sum(r["calls"] for r in found) == calls, (how, calls, found)
        assert {r["arguments"] for r in found} <= {'"' + "/nonexistent/file"[:n] + '"' for n in range(18)}, (how, found)
        print(f"{how}: {calls} calls, {efault} of them EFAULT, while the page went {gone} times")


def pointers_to_nothing():
    program = compile_audited(BLOCKED)
    path, done = record_audit([program])
    assert done.returncode == 0, done
    assert done.stdout == subprocess.run([program], capture_output=True, check=True).stdout
    assert done.stdout.count(b"EFAULT") == 18 and b"?" not in done.stdout, done.stdout
    found = [r for r in audit_of(path)["findings"] if r["function"] == "unlink"]
    assert sum(r["calls"] for r in found) == 18, found


run_cases(globals())
