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
#include "target/stop/stop.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
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

/* One call for the usual case: reaps a stop of TID, if there is one. Returns false if not. */
static bool reap_stop(pid_t tid, int *status) {
  siginfo_t info = {.si_pid = 0};
  if (waitid(P_PID, (id_t)tid, &info, WSTOPPED | WNOHANG | __WALL) != 0 || info.si_pid != tid)
    return false;
  *status = info.si_status << 8 | 0x7f;
  return true;
}

/* As reap_stop, with the results of stop_wait. Does not reap the end of TID, for which the rest of
 * this process may wait. */
static int take_stop(pid_t tid, int *status) {
  siginfo_t info = {.si_pid = 0};
  if (reap_stop(tid, status)) return 1;
  if (waitid(P_PID, (id_t)tid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0)
    return errno == EINTR ? 0 : -1;
  if (info.si_pid != tid) return 0;
  bool has_stopped = info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED; /* just now */
  return has_stopped && reap_stop(tid, status) ? 1 : -1;
}

int stop_wait(pid_t tid, int *status) {
  uint64_t start = os_monotonic_ns(), deadline = start + STOP_DEADLINE_NS;
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  while (true) {
    int taken = take_stop(tid, status);
    if (taken != 0) return taken;
    uint64_t now = os_monotonic_ns();
    bool is_over = now >= start + STARVED_DEADLINE_NS || (now >= deadline && !wants_to_run(tid));
    /* This thread may have got no CPU time either, and the other has stopped meanwhile. */
    if (is_over) return take_stop(tid, status);
    if (now >= deadline) deadline = now + STOP_DEADLINE_NS;
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

/* Calls that return EINTR only if they have done nothing yet. Others have: close(2) has released
 * the descriptor, and a second close could close another thread's file. */
bool stop_may_repeat(long number) {
  static const long calls[] = {
    SYS_epoll_pwait,
    SYS_rt_sigtimedwait,
    SYS_semop,
    SYS_semtimedop,
    SYS_io_getevents,
    SYS_recvfrom,
    SYS_recvmsg,
    SYS_accept,
    SYS_accept4,
    SYS_sendto,
    SYS_sendmsg,
    SYS_read,
    SYS_readv,
    SYS_ppoll,
    SYS_pselect6,
    SYS_io_uring_enter,
#ifdef SYS_epoll_pwait2
    SYS_epoll_pwait2,
#endif
#if defined(__x86_64__)
    SYS_epoll_wait,
    SYS_poll,
    SYS_select,
#endif
  };
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
    if (calls[i] == number) return true;
  return false;
}

/* Detaches from TID, which has stopped with STATUS. */
static void release(pid_t tid, int status, waiting_t *waiting) {
  struct user_regs_struct regs;
  struct iovec iov = {&regs, sizeof regs};
  bool restarts = status >> 16 == PTRACE_EVENT_STOP &&
                  ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &iov) == 0 &&
                  iov.iov_len == sizeof regs && stop_is_interrupted(tid, &regs, waiting);
  if (restarts) stop_restart_call(&regs, waiting);
  if (restarts && ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &iov) == 0)
    stop_release(tid, &regs, waiting);
  else
    ptrace(PTRACE_DETACH, tid, NULL, (void *)(intptr_t)withheld_signal(status));
}

stop_result_t stop_thread(machine_t machine, pid_t tid, regs_t *regs,
                          void (*while_stopped)(void *context, const regs_t *regs), void *context,
                          uint64_t *stopped_ns) {
  if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) != 0) return errno == ESRCH ? STOP_GONE : STOP_TRACED;
  waiting_t waiting = stop_waiting(tid);
  uint64_t start = os_monotonic_ns();
  if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) != 0) return STOP_GONE;
  int status = 0, stopped = stop_wait(tid, &status);
  if (stopped <= 0) return stopped == 0 ? STOP_LATE : STOP_GONE;
  bool known = read_registers(machine, tid, regs);
  if (known) while_stopped(context, regs);
  release(tid, status, &waiting);
  *stopped_ns = os_monotonic_ns() - start;
  return known ? STOP_DONE : STOP_FOREIGN;
}
