#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde record -p --audit --coverage: the system calls of a program that already runs are traced, and not any more
when the recording ends. The oracle is the program's own count; it also compares every result of its waits."""
import collections
import contextlib
import pathlib
import platform
import signal
import subprocess

from helpers import SONDE, TIMEOUT_SECONDS, fresh, needs_agent, report, run_cases, skip, until, until_threads
from shared.attached import Attached, Program, compile_program

needs_agent()
if platform.machine() != "x86_64":
    skip("elsewhere the interruption that joins a thread cannot be hidden")

# At an order: 100 calls of open, and 30 of the system call itself, from each of 4 threads and from a new one. Between
# orders the threads wait in calls that the kernel ends with EINTR at a stop, or that it starts again, and count
# unexpected results.
WAITS = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <unistd.h>
static int events[4], answers, epoll, wrong, set;
static void opens(void) {
  for (int i = 0; i < 100; i++) close(open("/dev/null", O_RDONLY));
  for (int i = 0; i < 30; i++) close((int)syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY));
}
static void *opens_once(void *unused) { opens(); return unused; }
static int waits(long how) {
  struct epoll_event event = {.events = EPOLLIN};
  struct pollfd in = {.fd = events[how], .events = POLLIN};
  struct sembuf down = {0, -1, 0};
  switch (how) {
  case 0: return epoll_wait(epoll, &event, 1, -1) == 1;
  case 1: return poll(&in, 1, 600000) == 1;
  case 2: return semop(set, &down, 1) == 0;
  default: return 1; /* its read waits */
  }
}
static void *work(void *number) {
  uint64_t count;
  for (;;) {
    if (!waits((long)number)) __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
    if (read(events[(long)number], &count, sizeof count) != sizeof count) __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
    opens();
    count = 1;
    if (write(answers, &count, sizeof count) != sizeof count) abort();
  }
  return NULL;
}
int main(void) {
  char line;
  uint64_t one = 1;
  pthread_t threads[4], once;
  set = semget(IPC_PRIVATE, 1, 0600);
  answers = eventfd(0, EFD_SEMAPHORE);
  for (long i = 0; i < 4; i++) events[i] = eventfd(0, 0);
  epoll = epoll_create1(0);
  epoll_ctl(epoll, EPOLL_CTL_ADD, events[0], &(struct epoll_event){.events = EPOLLIN});
  for (long i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, (void *)i);
  if (write(1, "ready\n", 6) != 6) return 1;
  while (read(0, &line, 1) == 1) {
    struct sembuf up = {0, 1, 0};
    semop(set, &up, 1);
    for (int i = 0; i < 4; i++) if (write(events[i], &one, sizeof one) != sizeof one) return 1;
    pthread_create(&once, NULL, opens_once, NULL);
    for (int i = 0; i < 4; i++) if (read(answers, &one, sizeof one) != sizeof one) return 1;
    pthread_join(once, NULL);
    one = 1;
    if (write(1, "done\n", 5) != 5) return 1;
  }
  int result = __atomic_load_n(&wrong, __ATOMIC_RELAXED) ? 3 : 0;
  semctl(set, 0, IPC_RMID); /* ends a wait */
  return result;
}
"""

# Threads whose calls are so short that some is always at a stop of the tracer: each must time out.
SHORT_WAITS = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sys/sem.h>
#include <time.h>
#include <unistd.h>
static int wrong, over, set;
static void *work(void *unused) {
  struct sembuf down = {0, -1, 0};
  while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
    struct timespec moment = {0, 1000};
    if (semtimedop(set, &down, 1, &moment) == 0 || errno != EAGAIN) __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
  }
  return unused;
}
int main(void) {
  char line;
  pthread_t threads[8];
  set = semget(IPC_PRIVATE, 1, 0600);
  for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, work, NULL);
  if (write(1, "ready\n", 6) != 6) return 1;
  while (read(0, &line, 1) == 1 && write(1, "done\n", 5) == 5) continue;
  __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
  semctl(set, 0, IPC_RMID);
  return __atomic_load_n(&wrong, __ATOMIC_RELAXED) ? 3 : 0;
}
"""


def _is_traced(thread):
    """A thread that was joined may end meanwhile."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return "TracerPid:\t0\n" not in thread.joinpath("status").read_text(encoding="utf-8")
    return False


def _traced(pid):
    return any(map(_is_traced, pathlib.Path(f"/proc/{pid}/task").iterdir()))


def _end_well(program):
    status = program.end()
    assert status == 0, f"status {status}; 3: a wait of the program had another result"


def calls_of_hooks_and_below_them_are_told_apart(folder):
    with Program(compile_program(WAITS)) as program:
        program.work()
        until_threads(program.pid, 5)  # a joined one may still end
        state = program.state()
        for _ in range(3):
            with Attached(program, "--audit=files", "--coverage") as attached:
                program.work()
                told = attached.end("audit", sleeps=True)
            until_threads(program.pid, 5)
            assert not _traced(program.pid)
            now = program.state(sleeps=True)
            assert now == state, [pair for pair in zip(state, now) if pair[0] != pair[1]]
            coverage = told["coverage"]
            assert coverage["complete"] and not coverage["detached"], coverage
            rows = collections.Counter()
            for row in coverage["system_calls"]:
                rows[row["class"]] += row["calls"] * ("/dev/null" in row["arguments"])
            assert (rows["hooked"], rows["below"], rows["unexplained"]) == (500, 150, 0), coverage
            program.work()
        _end_well(program)


def a_killed_recorder_ends_the_tracing(folder):
    with Program(compile_program(WAITS)) as program:
        with Attached(program, "--audit=files", "--coverage") as attached:
            program.work()
            assert _traced(program.pid)
            attached.recorder.kill()
            attached.recorder.wait(timeout=TIMEOUT_SECONDS)
        until(lambda: not _traced(program.pid), "the tracer has left")
        program.work()
        with Attached(program, "--audit=files") as attached:
            program.work()
            assert sum(row["calls"] for row in attached.end("audit", sleeps=True)["findings"]) == 500
        _end_well(program)


def calls_that_are_stopped_when_the_tracing_ends_go_on(folder):
    """The system fails a call with EINTR if its thread is at the entry's stop when the tracer ends."""
    with Program(compile_program(SHORT_WAITS)) as program:
        for end in [signal.SIGINT] * 5 + [signal.SIGKILL] * 5:
            with Attached(program, "--audit=files", "--coverage") as attached:
                until(lambda: _traced(program.pid), "the program is traced")
                program.work()
                attached.recorder.send_signal(end)
                attached.recorder.communicate(timeout=TIMEOUT_SECONDS)
            until(lambda: not _traced(program.pid), "the tracer has left")
        _end_well(program)


def a_program_that_ends_while_it_is_traced(folder):
    with Program(compile_program(WAITS)) as program, Attached(program, "--audit=files", "--coverage") as attached:
        program.work()
        _end_well(program)
        _, said = attached.recorder.communicate(timeout=TIMEOUT_SECONDS)
        assert attached.recorder.returncode == 0 and "killed" not in said, said
        coverage = report(attached.path, "audit")["audit"]["coverage"]
        assert coverage["complete"] and coverage["hooked"] >= 500, coverage


def a_program_under_a_debugger_is_refused(folder):
    with Program(compile_program(WAITS)) as program:
        with subprocess.Popen(["strace", "-f", "-o", f"{folder}/strace", "-p", str(program.pid)],
                              stderr=subprocess.PIPE, text=True) as tracer:
            assert "attached" in tracer.stderr.readline()
            done = subprocess.run([SONDE, "record", "-p", str(program.pid), "--coverage", "-o", fresh()], check=False,
                                  capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
            assert done.returncode == 2 and "is traced by" in done.stderr, done
            tracer.send_signal(signal.SIGINT)
            tracer.communicate(timeout=TIMEOUT_SECONDS)
        program.work()  # strace itself lets waits fail


run_cases(globals())
