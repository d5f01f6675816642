#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Audited arguments in memory that the audit takes to be there without asking the kernel, as strace shows that it does;
and what comes of it when such memory goes all the same."""
import os
import subprocess

from helpers import SONDE, fresh, needs_agent, needs_strace, run_cases
from shared.audits import audit_of, compile_audited, record_audit

needs_agent()

# Parts of the heap that brk(2) grows, and of mapped memory, that go: each in a process of its own, since what is seen once
# is not trusted again. "raw" ways pass no function that could be seen.
GOES = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void handler(int number) { _exit(9); }

static void block(void) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL);
}

static void raw_block(void) {
  unsigned long all = ~0ul;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, 8);
}

static void raw_handler(void) {
  struct { void *handler; unsigned long flags; void *restorer; unsigned long mask; } action = {(void *)handler};
  syscall(SYS_rt_sigaction, SIGSEGV, &action, NULL, 8);
}

static char *heap_page(void) {
  char *at = sbrk(3 * 4096);
  return (char *)(((unsigned long)at + 4095) & -4096);
}

static char *mapped_page(void) { return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }

static const char *outcome(const char *path) { return unlink(path) == 0 ? "?" : errno == EFAULT ? "EFAULT" : errno == ENOENT ? "ENOENT" : "?"; }

int main(int argc, char **argv) {
  const char *where = argv[1], *how = argv[2], *also = argv[3];
  char *page = strcmp(where, "heap") ? mapped_page() : heap_page();
  strcpy(page, "/nonexistent/there");
  for (int i = 0; i < 3; i++) puts(outcome(page));
  if (!strcmp(also, "block")) block();
  if (!strcmp(also, "raw-block")) raw_block();
  if (!strcmp(also, "raw-handler")) raw_handler();
  puts(outcome(page));
  if (!strcmp(how, "munmap")) munmap(page, 4096);
  if (!strcmp(how, "mprotect")) mprotect(page, 4096, PROT_NONE);
  if (!strcmp(how, "mremap")) mremap(page, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, mapped_page());
  if (!strcmp(how, "mmap")) mmap(page, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (!strcmp(how, "sbrk")) sbrk(-3 * 4096);
  if (!strcmp(how, "raw")) syscall(SYS_munmap, page, 4096);
  puts(outcome(page));
  return 0;
}"""

PLACES = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static char data[] = "/nonexistent/data";
int main(int argc, char **argv) {
  char local[] = "/nonexistent/stack", *at = local;
  if (!strcmp(argv[1], "argument")) at = argv[2];
  if (!strcmp(argv[1], "environment")) at = getenv("PATH_TO_IT");
  if (!strcmp(argv[1], "data")) at = data;
  if (!strcmp(argv[1], "heap")) at = strdup(local);
  if (!strcmp(argv[1], "vfork") && vfork() == 0) { /* the handler that goes is the child's */
    signal(SIGSEGV, SIG_IGN);
    sigaction(SIGBUS, &(struct sigaction){.sa_handler = SIG_IGN}, 0);
    _exit(0);
  }
  if (!strcmp(argv[1], "mapped") || !strcmp(argv[1], "vfork"))
    at = strcpy(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), local);
  printf("%#lx\n", (unsigned long)at & -8);
  for (int i = 0; i < 1000; i++) unlink(at);
  return 0;
}"""


# Not among them, since it is not held (sensor/audit/memory.h): a raw call for the heap where faults are not caught.
WAYS = [("heap", "munmap", "nothing"), ("heap", "munmap", "block"), ("heap", "munmap", "raw-handler"), ("heap", "mprotect", "block"),
        ("heap", "mremap", "block"), ("heap", "mmap", "block"), ("heap", "sbrk", "block"), ("heap", "sbrk", "raw-handler"),
        ("heap", "raw", "nothing"), ("mapped", "munmap", "block"), ("mapped", "raw", "block"), ("mapped", "raw", "raw-block"),
        ("mapped", "raw", "raw-handler")]


def memory_that_goes():
    program = compile_audited(GOES)
    for where, how, also in WAYS:
        path, done = record_audit([program, where, how, also])
        said = ["ENOENT"] * 4 + ["EFAULT"]
        assert (done.returncode, done.stdout.decode().split()) == (0, said), (where, how, also, done)
        found = {}
        for r in audit_of(path)["findings"]:
            if r["function"] == "unlink":
                found[r["arguments"]] = found.get(r["arguments"], 0) + r["calls"]
        assert found == {'"/nonexistent/there"': 4, '""': 1}, (where, how, also, found)
    print(f"{len(WAYS)} ways for memory to go")


def memory_that_is_there_is_not_asked_for():
    needs_strace()
    program, asked = compile_audited(PLACES), {}
    # Not the stack: a variable in a page above the caller's is proved, and where pages end is chance.
    for place in "argument", "environment", "data", "heap", "mapped", "vfork":
        trace, path = fresh(".txt"), fresh()
        done = subprocess.run(["strace", "-f", "-o", trace, "-e", "trace=rt_sigprocmask", "-e", "raw=rt_sigprocmask", SONDE, "record", "--audit", "-o", path,
                               "--", program, place, "/nonexistent/argument"], capture_output=True, timeout=120,
                              env={**os.environ, "PATH_TO_IT": "/nonexistent/environment"})
        assert done.returncode == 0, done
        calls = {r["arguments"]: r["calls"] for r in audit_of(path)["findings"] if r["function"] == "unlink"}
        assert sum(calls.values()) == 1000 and len(calls) == 1, (place, calls)
        with open(trace) as f:
            asked[place] = sum(f"rt_sigprocmask(0xffffffff, {done.stdout.decode().strip()}, " in line.replace("0xffffffffffffffff", "0xffffffff") for line in f)
    print("system calls to prove that a path can be read, of 1000 calls:", asked)
    assert all((n >= 1000) == (place in ("mapped", "vfork")) and (n < 100 or n >= 1000) for place, n in asked.items()), asked


run_cases(globals())
