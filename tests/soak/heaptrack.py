#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`heaptrack -p` and `sonde record -p --malloc=all`, each with processes of its own, of the same kinds: the five servers
under load, programs whose threads allocate or load libraries, and processes that are hard to attach to. Counts how often
each tool recorded and left a program that runs on, and prints what the program and its clients saw of it: the longest
request or the longest gap between two turns of a thread, and what part of the program's own blocks the tool counted.

Fails if sonde harms a program, or records less often than heaptrack.

usage: heaptrack.py [ATTEMPTS [CASE…]]"""
import collections
import contextlib
import os
import pathlib
import re
import select
import shutil
import signal
import statistics
import subprocess
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1]), str(pathlib.Path(__file__).resolve().parents[1] / "real")]

from helpers import SONDE, children_of, compile_c, fresh, output_of, report, until  # noqa: E402  (the path is set above)
from shared.serving import REFUSES, SERVICES, Server  # noqa: E402

ATTEMPTS = int(sys.argv[1]) if len(sys.argv) > 1 else 10
SECONDS = 30  # that a tool has to attach, or to leave
RECORDED_SECONDS = 0.5

# Threads that allocate and free, and others that load and unload a library. Of each turn the program measures how long
# it took. For a line of input it prints how many blocks it has allocated, and the longest turn since the last line.
PROGRAM = r"""
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static unsigned long blocks, longest_us;
static unsigned long now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (unsigned long)t.tv_sec * 1000000 + (unsigned long)t.tv_nsec / 1000;
}
static void *allocate(void *unused) {
  for (unsigned long before = now_us(), now; !unused; before = now) {
    free(malloc(100));
    __atomic_fetch_add(&blocks, 1, __ATOMIC_RELAXED);
    usleep(500);
    now = now_us();
    if (now - before > longest_us) longest_us = now - before;
  }
  return unused;
}
static void *load(void *unused) {
#ifndef STATIC
  while (!unused) {
    void *library = dlopen("libz.so.1", RTLD_NOW);
    if (library) dlclose(library);
    usleep(50);
  }
#endif
  return unused;
}
int main(int argc, char **argv) {
  char line[8];
  for (int kind = 1; kind < 3 && kind < argc; kind++)
    for (int i = 0; i < atoi(argv[kind]); i++) {
      pthread_t thread;
      pthread_create(&thread, NULL, kind == 1 ? allocate : load, NULL);
    }
  for (puts("ready"), fflush(stdout); fgets(line, sizeof line, stdin); fflush(stdout)) {
    printf("%lu %lu\n", blocks, longest_us);
    longest_us = 0;
  }
  return 7;
}
"""

# gdb, which heaptrack uses, writes the registers that it knows; since the kernel takes all or none, gdb before version 14
# can change no register on processors with larger ones (AMX). This completes what it writes, so that heaptrack works.
WHOLE = r"""
#define _GNU_SOURCE
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
long ptrace(enum __ptrace_request request, ...) {
  va_list more;
  va_start(more, request);
  pid_t pid = va_arg(more, pid_t);
  void *address = va_arg(more, void *), *data = va_arg(more, void *);
  va_end(more);
  static char whole[1 << 16];
  struct iovec all = {whole, sizeof whole}, *part = data;
  if (request == PTRACE_SETREGSET && address == (void *)NT_X86_XSTATE &&
      syscall(SYS_ptrace, PTRACE_GETREGSET, pid, address, &all) == 0 && part->iov_len < all.iov_len) {
    memcpy(whole, part->iov_base, part->iov_len);
    return syscall(SYS_ptrace, request, pid, address, &all);
  }
  long word;
  if (request != PTRACE_PEEKTEXT && request != PTRACE_PEEKDATA && request != PTRACE_PEEKUSER)
    return syscall(SYS_ptrace, request, pid, address, data);
  return syscall(SYS_ptrace, request, pid, address, &word) ? -1 : word;
}
"""


# ---- the tools -----------------------------------------------------------------------------------------------

class Tool:
    """A tool that records the process PID. `is_recording` is False where it refused; `why` is then its reason."""
    ENVIRONMENT = {}

    def __init__(self, pid):
        self.folder = fresh(".tool")
        os.mkdir(self.folder)
        self.out = os.path.join(self.folder, "out")
        self.log = pathlib.Path(self.folder, "log")
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(self.words(pid), env={**os.environ, **self.ENVIRONMENT}, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                            cwd=self.folder, start_new_session=True)
        self.is_recording = self._wait(lambda: self.BEGUN in self.said() or self.process.poll() is not None) and \
            self.process.poll() is None
        self.why = "" if self.is_recording else self.reason()
        if not self.is_recording:
            self.end()

    def said(self):
        return self.log.read_text(encoding="utf-8", errors="replace")

    def _wait(self, condition):
        with contextlib.suppress(AssertionError):
            until(condition, "", SECONDS)
            return True
        return False

    def reason(self):
        if self.process.poll() is None:
            return f"hangs for {SECONDS} s"
        lines = [line for line in self.said().splitlines() if line.strip()]
        return lines[-1] if lines else f"status {self.process.returncode}"

    def end(self):
        """Ends the recording as Ctrl-C does; returns False where the tool hangs."""
        self.process.send_signal(signal.SIGINT)
        ended = self._wait(lambda: self.process.poll() is not None)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        return ended


class Sonde(Tool):
    BEGUN = "with the agent in it"

    def words(self, pid):
        return [SONDE, "record", "-p", str(pid), "--malloc=all", "-o", self.out]

    def blocks(self):
        allocated = report(self.out, "malloc")["malloc"]["allocated"]
        return allocated["blocks"]


class Heaptrack(Tool):
    BEGUN = "injection finished"
    ENVIRONMENT = {"LD_PRELOAD": compile_c(WHOLE, "-shared", "-fPIC", "-w")}

    def words(self, pid):
        """Its script leaves the program at the end if bash runs it. Other shells end at once."""
        return ["bash", shutil.which("heaptrack"), "-o", self.out, "-p", str(pid)]

    def reason(self):
        said = re.findall(r".*(?:rror|warning|ptrace|Could not|cannot|No symbol|not ).*", self.said())
        return said[0] if said and self.process.poll() is not None else super().reason()

    def blocks(self):
        done = subprocess.run(["heaptrack_print", "-a", "0", "-p", "0", "-T", "0", "-f", self.out + ".zst"], check=False,
                              capture_output=True, text=True)
        found = re.search(r"calls to allocation functions: (\d+)", done.stdout)
        return int(found[1]) if found else 0


def fate_of(process, pid):
    """How it ended, or that it does nothing any more. Of a process with another parent the end alone is known."""
    if process.pid == pid and process.poll() is not None:
        return f"PROGRAM ENDED with {process.returncode}"
    return "PROGRAM HANGS" if os.path.exists(f"/proc/{pid}/exe") else "PROGRAM ENDED"


# ---- the cases -----------------------------------------------------------------------------------------------

class Served:
    """A server under load. Work is its requests."""
    UNIT = "request"

    def __init__(self, name):
        self.server = Server(name)
        self.pid = self.server.pid

    def look(self):
        """Work so far; whether the server works on, and the longest request in ms since the last look."""
        before = self.server.watched_requests
        with contextlib.suppress(AssertionError):
            until(lambda: self.server.watched_requests > before + 20 or self.server.failures, "", SECONDS)
        longest, self.server.longest = self.server.longest, 0.0
        lives = not self.server.failures and self.server.watched_requests > before and self.server.process.poll() is None
        return self.server.watched_requests, lives, 1000 * longest

    def fate(self):
        return fate_of(self.server.process, self.pid)

    def end(self):
        self.server.ended = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.server.pid, signal.SIGKILL)  # where it hangs, its clients would wait long
        self.server.process.kill()
        self.server.__exit__()


class Counting:
    """PROGRAM, with threads that allocate and threads that load. Work is the blocks that it says it has allocated."""
    UNIT = "block"

    def __init__(self, threads, loaders=0, options=(), compiler="cc", prefix=()):
        program = compile_c(PROGRAM, "-O1", "-fno-builtin", "-pthread", "-w", *options, compiler=compiler)
        self.process = subprocess.Popen([*prefix, program, str(threads), str(loaders)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        self.pid = children_of(self.process.pid)[0] if "unshare" in prefix else self.process.pid
        self.tracer = None

    def stop(self):
        os.kill(self.pid, signal.SIGSTOP)
        return self

    def trace(self):
        self.tracer = subprocess.Popen(["strace", "-f", "-o", "/dev/null", "-e", "trace=none", "-p", str(self.pid)],
                                       stderr=subprocess.DEVNULL)
        until(lambda: "TracerPid:\t0\n" not in pathlib.Path(f"/proc/{self.pid}/status").read_text(), "it is traced")
        return self

    def look(self):
        if self.process.poll() is None:
            os.kill(self.pid, signal.SIGCONT)
        line = ""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write("?\n")
            self.process.stdin.flush()
            if select.select([self.process.stdout], [], [], SECONDS)[0]:
                line = self.process.stdout.readline()
        if not line:
            return 0, False, 0.0
        blocks, longest = map(int, line.split())
        return blocks, True, longest / 1000

    def fate(self):
        return fate_of(self.process, self.pid)

    def end(self):
        if self.tracer:
            self.tracer.kill()
            self.tracer.wait()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()


def _cases():
    cases = {name: lambda name=name: Served(name) for name in SERVICES if shutil.which(name)}
    cases.update({
        "4 threads": lambda: Counting(4), "100 threads": lambda: Counting(100),
        "2 threads and 2 that load": lambda: Counting(2, 2),
        "static": lambda: Counting(4, options=["-static", "-DSTATIC"]),
        "stopped": lambda: Counting(4).stop(), "traced by strace": lambda: Counting(4).trace()})
    if shutil.which("musl-gcc"):
        cases["musl"] = lambda: Counting(4, compiler="musl-gcc")
    if os.geteuid() == 0:
        filtered = compile_c(REFUSES, "-w")
        cases["seccomp filter"] = lambda: Counting(4, prefix=[filtered])
        cases["pid namespace"] = lambda: Counting(4, prefix=["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"])
    return cases


def _attempt(make, tool, tally):
    """One process, one recording."""
    case = make()
    try:
        case.look()
        used = tool(case.pid)
        if not used.is_recording:
            _, lives, _ = case.look()
            tally["refused" if lives else case.fate()] += 1
            tally.why[used.why] += 1
            return
        first, lives, longest = case.look()
        time.sleep(RECORDED_SECONDS)
        last, still, _ = case.look() if lives else (first, False, 0)
        ended = used.end()
        _, runs_on, later = case.look() if still else (last, False, 0)
        if not (lives and still and runs_on):
            tally[case.fate()] += 1
            return
        tally.longest += [longest, later]
        counted = used.blocks() if ended else 0
        tally["recorded" if counted and ended else "recorded nothing" if ended else "does not leave"] += 1
        if counted:
            tally.shares.append(counted / (last - first) if last > first else 0)
    finally:
        case.end()


class Tally(collections.Counter):
    def __init__(self):
        super().__init__()
        self.longest, self.shares, self.why = [], [], collections.Counter()

    def __str__(self):
        text = ", ".join(f"{what} {count}" for what, count in self.most_common())
        if self.longest:
            text += f"; longest wait median {statistics.median(self.longest):.1f}, most {max(self.longest):.1f} ms"
        if self.shares:
            text += f"; blocks counted for each {self.unit}: median {statistics.median(self.shares):.2f}, least {min(self.shares):.2f}"
        return text + "".join(f"\n      {count} times: {why[:150]}" for why, count in self.why.most_common(2))


signal.signal(signal.SIGINT, signal.default_int_handler)  # else, in the background, the tools ignore it, too
failed = False
output_of("heaptrack", "--version")
for name, make in _cases().items():
    if sys.argv[2:] and name not in sys.argv[2:]:
        continue
    tallies = {tool: Tally() for tool in (Sonde, Heaptrack)}
    for _ in range(ATTEMPTS):
        for tool, tally in tallies.items():
            tally.unit = "request" if name in SERVICES else "block"
            _attempt(make, tool, tally)
    print(f"{name}, {ATTEMPTS} attempts\n" + "".join(f"  {t.__name__.lower():10} {tally}\n" for t, tally in tallies.items()),
          end="", flush=True)
    ours, theirs = tallies.values()
    if any("PROGRAM" in what or "leave" in what or "nothing" in what for what in ours) or ours["recorded"] < theirs["recorded"]:
        print("  FAILED", flush=True)
        failed = True
sys.stdout.flush()
os._exit(failed)  # clients of a server that hangs do not end
