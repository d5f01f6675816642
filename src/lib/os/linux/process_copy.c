/* SPDX-License-Identifier: MIT
 *
 * A copy of this process that nobody waits for, and what has to be known of memory and of threads
 * to make one.
 *
 * clone(2) without CLONE_VM copies the memory as fork does. Without an exit signal the end of the
 * copy raises no SIGCHLD, and wait(-1) passes it over, unless it asks for such children (__WALL,
 * __WCLONE). With CLONE_PARENT it is no child of this process at all, and its end is told to the
 * parent of both as that of any child. It is made without a table of descriptors of its own
 * (CLONE_FILES), then takes an empty one (close_range(2), Linux 5.9): a pipe or a lock of the
 * program's is not kept open by it when the program closes it or ends, and what it opens, should it
 * be killed meanwhile, does not stay open in the program. Before Linux 5.9 it goes on sharing.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "os/linux/call.h"
#include "os/linux/internal.h"
#include "os/os.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define COPY_FILES  0x400u /* CLONE_FILES, CLONE_PARENT: linux/sched.h */
#define COPY_PARENT 0x8000u

pid_t os_process_copy(bool beside) {
  return (pid_t)call5(SYS_clone, COPY_FILES | (beside ? COPY_PARENT : 0), 0, 0, 0, 0);
}

pid_t os_parent(void) { return (pid_t)call0(SYS_getppid); }

void os_exit(int status) {
  for (;;)
    (void)call1(SYS_exit_group, status);
}

/* prctl(2): PR_SET_NAME; setrlimit(2): RLIMIT_CORE. The file is written as a whole (proc(5)). */
void os_process_copy_settle(const char *name) {
  const uint64_t none[2] = {0, 0};
  (void)call3(SYS_close_range, 0, ~0u, 2 /* CLOSE_RANGE_UNSHARE */);
  (void)call5(SYS_prctl, 15, name, 0, 0, 0);
  (void)call2(SYS_setrlimit, 4, none);
  int fd = (int)call4(SYS_openat, -100, "/proc/self/oom_score_adj", 1 | 02000000, 0);
  if (fd < 0) return;
  (void)os_write(fd, "1000", 4);
  os_close(fd);
}

bool os_reap(pid_t copy) {
  return call4(SYS_wait4, copy, NULL, 0x40000001 /* __WALL | WNOHANG */, NULL) != 0;
}

uint64_t os_signals_block(void) {
  const uint64_t all = UINT64_MAX;
  uint64_t before = 0;
  (void)call4(SYS_rt_sigprocmask, SIG_BLOCK, &all, &before, 8);
  return before;
}

void os_signals_restore(uint64_t mask) {
  (void)call4(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, 8);
}

/* ---- calls that a signal does not end ------------------------------------------------------- */

/* A receive or send with a time limit of its own (socket(7): SO_RCVTIMEO, SO_SNDTIMEO) ends. */
static bool has_time_limit(uint64_t fd) {
  for (int option = 20; option <= 21; option++) {
    int64_t limit[2] = {0, 0};
    uint32_t size = sizeof limit;
    long r = call5(SYS_getsockopt, fd, 1 /* SOL_SOCKET */, option, limit, &size);
    if (r == 0 && (limit[0] || limit[1])) return true;
  }
  return false;
}

/* signal(7), "Interruption of system calls": restarted with SA_RESTART. A futex with a time limit
 * is not, though the C library's own waits go on by themselves. */
bool os_call_restarts_anywhere(const os_blocked_t *at) {
  uint64_t operation = at->arguments[1] & 127;
  if (at->call == SYS_futex) return (operation == 0 || operation == 9) && at->arguments[3] == 0;
  return at->call == SYS_wait4 || at->call == SYS_waitid || at->call == SYS_flock;
}

bool os_call_restarts(const os_blocked_t *at) {
  if (!linux_signal_restarts()) return false;
  switch (at->call) {
  case SYS_read:
  case SYS_readv:
  case SYS_write:
  case SYS_writev:
  case SYS_accept:
  case SYS_accept4:
  case SYS_recvfrom:
  case SYS_recvmsg:
  case SYS_sendto:
  case SYS_sendmsg: return !has_time_limit(at->arguments[0]);
  default: return os_call_restarts_anywhere(at);
  }
}

/* Calls that end with EINTR whatever the handler's flags, and that may be made again with the same
 * arguments: they wait without limit, or until a moment, or the kernel has put the time that is
 * left where it took it from (select(2), "The timeout"; ppoll(2)). */
bool os_call_resumes(const os_blocked_t *at) {
  const uint64_t *a = at->arguments;
  switch (at->call) {
#if defined(SYS_pause)
  case SYS_pause:
#endif
#if defined(SYS_select)
  case SYS_select:
#endif
  case SYS_pselect6:
  case SYS_ppoll:
  case SYS_semop:
  case SYS_msgrcv:
  case SYS_msgsnd: return true;
#if defined(SYS_epoll_wait)
  case SYS_epoll_wait: return (int32_t)a[3] < 0;
  case SYS_poll: return (int32_t)a[2] < 0;
#endif
  case SYS_epoll_pwait: return (int32_t)a[3] < 0;
  case SYS_semtimedop: return a[3] == 0;
  case SYS_clock_nanosleep: return a[1] & 1 /* TIMER_ABSTIME */ || a[3];
  case SYS_nanosleep: return a[1] != 0;
  case SYS_futex: return (a[1] & 127) == 9; /* FUTEX_WAIT_BITSET: until a moment */
  default: return false;
  }
}

/* A sleep goes on with what is left of it, which the kernel has told. */
static void take_the_rest(const os_blocked_t *at, uint64_t *arguments) {
  memcpy(arguments, at->arguments, sizeof at->arguments);
  if (at->call == SYS_nanosleep) arguments[0] = arguments[1];
  if (at->call == SYS_clock_nanosleep && !(arguments[1] & 1)) arguments[2] = arguments[3];
}

void os_call_resume(void *ucontext, const os_blocked_t *at) {
  uint64_t arguments[6];
  if (at->call < 0 || !os_call_resumes(at) || !arch_context_interrupted(ucontext, at->pc, at->sp))
    return;
  take_the_rest(at, arguments);
  arch_context_repeat(ucontext, at->call, arguments);
}

/* ---- mappings ------------------------------------------------------------------------------- */

static const char *hex(const char *at, uint64_t *value) {
  for (*value = 0;; at++) {
    unsigned c = (unsigned char)*at;
    if (c - '0' < 10u)
      *value = *value << 4 | (c - '0');
    else if (c - 'a' < 6u)
      *value = *value << 4 | (c - 'a' + 10);
    else
      return at;
  }
}

/* The number behind the character SEPARATOR at AT, and what follows it; NULL where it is another
 * one. */
static const char *next_hex(const char *at, char separator, uint64_t *value) {
  return at && *at == separator ? hex(at + 1, value) : NULL;
}

/* proc(5): "start-end perms offset dev inode   path" */
bool linux_parse_region(const char *line, os_region_t *out) {
  uint64_t device;
  const char *at = next_hex(hex(line, &out->start), '-', &out->end);
  for (int i = 0; i < 5; i++)
    if (!at || !at[i]) return false;
  out->protection = (uint8_t)((at[1] == 'r') | (at[2] == 'w') << 1 | (at[3] == 'x') << 2);
  out->is_shared = at[4] == 's';
  at = next_hex(at + 5, ' ', &out->offset);
  at = next_hex(next_hex(at, ' ', &device), ':', &device);
  if (!at || *at++ != ' ') return false;
  out->inode = decimal_read(&at);
  while (*at == ' ')
    at++;
  out->name = at;
  return out->start < out->end;
}

int os_regions(bool (*visit)(const os_region_t *region, void *context), void *context) {
  char text[8192];
  size_t have = 0;
  bool more = true;
  int fd = os_open_read("/proc/self/maps");
  if (fd < 0) return fd;
  while (more) {
    ssize_t n = os_read(fd, text + have, sizeof text - 1 - have);
    if (n <= 0) break;
    have += (size_t)n;
    size_t from = 0;
    for (size_t i = 0; i < have && more; i++) {
      if (text[i] != '\n') continue;
      os_region_t region;
      text[i] = 0;
      if (linux_parse_region(text + from, &region)) more = visit(&region, context);
      from = i + 1;
    }
    memmove(text, text + from, have - from);
    have -= from;
  }
  os_close(fd);
  return 0;
}
