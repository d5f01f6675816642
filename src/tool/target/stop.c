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

/* Reaps a stop of TID, if there is one, but not its end, for which the rest of this process may
 * wait. Results as of stop_wait. */
static int take_stop(pid_t tid, int *status) {
  siginfo_t info = {.si_pid = 0};
  if (waitid(P_PID, (id_t)tid, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL) != 0)
    return errno == EINTR ? 0 : -1;
  if (info.si_pid != tid) return 0;
  if (info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED) return -1;
  return waitpid(tid, status, __WALL | WNOHANG) == tid && WIFSTOPPED(*status) ? 1 : -1;
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
#if defined(__x86_64__)
  static const long calls[] = {
      SYS_epoll_wait,   SYS_epoll_pwait,    SYS_rt_sigtimedwait, SYS_semop,    SYS_semtimedop,
      SYS_io_getevents, SYS_io_uring_enter, SYS_recvfrom,        SYS_recvmsg,  SYS_accept,
      SYS_accept4,      SYS_sendto,         SYS_sendmsg,         SYS_read,     SYS_readv,
      SYS_poll,         SYS_ppoll,          SYS_select,          SYS_pselect6,
#ifdef SYS_epoll_pwait2
      SYS_epoll_pwait2,
#endif
  };
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
    if (calls[i] == number) return true;
#else
  (void)number;
#endif
  return false;
}

#if defined(__x86_64__)
bool stop_is_interrupted(const struct user_regs_struct *regs) {
  return (int64_t)regs->orig_rax >= 0 && (int64_t)regs->rax == -EINTR;
}

/* At a stop that is not for a signal, the kernel has yet to return from the system call. With this
 * result it starts the call again with all its arguments, unless a signal handler is to run; then
 * the call returns EINTR, as without the stop (arch/x86/kernel/signal.c). A finite timeout begins
 * anew. */
void stop_restart_call(struct user_regs_struct *regs) {
  enum { ERESTARTNOHAND = 514 }; /* linux/errno.h */
  if (stop_is_interrupted(regs) && stop_may_repeat((long)regs->orig_rax))
    regs->rax = (uint64_t) - (int64_t)ERESTARTNOHAND;
}
#else
bool stop_is_interrupted(const struct user_regs_struct *regs) {
  (void)regs;
  return false;
}

void stop_restart_call(struct user_regs_struct *regs) { (void)regs; }
#endif

static void hide_eintr(machine_t machine, pid_t tid, int status) {
  struct user_regs_struct regs;
  struct iovec iov = {&regs, sizeof regs};
  if (!STOP_HIDES_EINTR || machine != MACHINE_HERE || status >> 16 != PTRACE_EVENT_STOP ||
      ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &iov) != 0 || iov.iov_len != sizeof regs ||
      !stop_is_interrupted(&regs))
    return;
  stop_restart_call(&regs);
  (void)ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &iov);
}

stop_result_t stop_thread(machine_t machine, pid_t tid, regs_t *regs,
                          void (*while_stopped)(void *context, const regs_t *regs), void *context,
                          uint64_t *stopped_ns) {
  if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) != 0) return errno == ESRCH ? STOP_GONE : STOP_TRACED;
  uint64_t start = os_monotonic_ns();
  if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) != 0) return STOP_GONE;
  int status = 0, stopped = stop_wait(tid, &status);
  if (stopped <= 0) return stopped == 0 ? STOP_LATE : STOP_GONE;
  bool known = read_registers(machine, tid, regs);
  if (known) while_stopped(context, regs);
  if (known) hide_eintr(machine, tid, status);
  ptrace(PTRACE_DETACH, tid, NULL, (void *)(intptr_t)withheld_signal(status));
  *stopped_ns = os_monotonic_ns() - start;
  return known ? STOP_DONE : STOP_FOREIGN;
}
