/* SPDX-License-Identifier: MIT
 *
 * PTRACE_SEIZE does not stop a thread; PTRACE_INTERRUPT does, without a signal. When the tracing
 * thread ends for any reason, SIGKILL included, the kernel detaches and resumes what it traced
 * (ptrace(2)). So a thread never remains stopped, and a process stopped by SIGSTOP remains so.
 *
 * A thread may instead stop because it is about to receive a signal; detaching then delivers that
 * signal.
 */
#define _GNU_SOURCE
#include "target/stop.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "os/os.h"
#include "target/registers.h"

/* Timeouts: for a thread in an uninterruptible wait; and for a thread that is ready to run, which
 * stops as soon as it gets a CPU. On an overloaded machine or in a throttled cgroup this takes
 * long.
 */
#define STOP_DEADLINE_NS    200000000ull
#define STARVED_DEADLINE_NS 5000000000ull
/* SIGCHLD reports the stop, but another thread may receive it, so the wait polls too. */
#define POLL_NS 1000000ull

#ifndef PTRACE_EVENT_STOP
#define PTRACE_EVENT_STOP 128
#endif

/* Whether TID is ready to run: state R of proc_pid_stat(5). */
static bool wants_to_run(pid_t tid) {
  char path[64], text[256];
  snprintf(path, sizeof path, "/proc/%d/stat", tid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  if (fd >= 0) close(fd);
  text[n > 0 ? n : 0] = 0;
  const char *name_end = strrchr(text, ')');
  return name_end && strncmp(name_end, ") R", 3) == 0;
}

/* Reaps a stop of TID, if there is one, but not its end, for which the rest of this process may
 * wait. Results as of wait_stopped. */
static int take_stop(pid_t tid, int *status) {
  siginfo_t info = {.si_pid = 0};
  if (waitid(P_PID, (id_t)tid, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL) != 0)
    return errno == EINTR ? 0 : -1;
  if (info.si_pid != tid) return 0;
  if (info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED) return -1;
  return waitpid(tid, status, __WALL | WNOHANG) == tid && WIFSTOPPED(*status) ? 1 : -1;
}

/* Waits for a stop of TID. 1: stopped, with STATUS; 0: timeout; -1: it has ended. */
static int wait_stopped(pid_t tid, int *status) {
  uint64_t start = os_monotonic_ns(), deadline = start + STOP_DEADLINE_NS;
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  while (true) {
    int taken = take_stop(tid, status);
    if (taken != 0) return taken;
    uint64_t now = os_monotonic_ns();
    if (now >= start + STARVED_DEADLINE_NS) return 0;
    if (now >= deadline) {
      if (!wants_to_run(tid)) return 0;
      deadline = now + STOP_DEADLINE_NS;
    }
    uint64_t left = deadline - now < POLL_NS ? deadline - now : POLL_NS;
    sigtimedwait(&child, NULL, &(struct timespec){0, (long)left});
  }
}

/* The signal that the stop withheld; 0 for our own stop or a group stop. */
static int withheld_signal(int status) {
  return status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status);
}

static bool read_registers(machine_t machine, pid_t tid, regs_t *regs) {
  unsigned char data[REGISTERS_BYTES_MAX];
  struct iovec iov = {data, sizeof data};
  return ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &iov) == 0 &&
         registers_read(machine, data, iov.iov_len, regs);
}

stop_result_t stop_thread(machine_t machine, pid_t tid, regs_t *regs,
                          void (*while_stopped)(void *context, const regs_t *regs), void *context,
                          uint64_t *stopped_ns) {
  if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) != 0) return errno == ESRCH ? STOP_GONE : STOP_TRACED;
  uint64_t start = os_monotonic_ns();
  if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) != 0) return STOP_GONE;
  int status = 0, stopped = wait_stopped(tid, &status);
  if (stopped <= 0) return stopped == 0 ? STOP_LATE : STOP_GONE;
  bool known = read_registers(machine, tid, regs);
  if (known) while_stopped(context, regs);
  ptrace(PTRACE_DETACH, tid, NULL, (void *)(intptr_t)withheld_signal(status));
  *stopped_ns = os_monotonic_ns() - start;
  return known ? STOP_DONE : STOP_FOREIGN;
}
