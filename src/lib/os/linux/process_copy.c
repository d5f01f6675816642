/* SPDX-License-Identifier: MIT
 *
 * A copy of this process that has no effect on the program, and what the thread of a blocked system
 * call does after a signal.
 *
 * clone(2) without CLONE_VM copies the memory as fork does. The copy has no exit signal, so its end
 * raises no SIGCHLD, and wait(-1) ignores it unless the caller passes __WALL or __WCLONE. With
 * CLONE_PARENT the copy is not a child of this process; the parent of both is notified of its end.
 *
 * The copy starts with the shared table of descriptors (CLONE_FILES) and then takes an empty table
 * of its own (close_range(2), Linux 5.9). So it never keeps a pipe or a lock of the program open,
 * and a descriptor that it opened before it was killed does not stay open in the program. Before
 * Linux 5.9 the copy continues to share the table.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "os/linux/calls/call.h"
#include "os/linux/internal.h"
#include "os/os.h"

#define COPY_FILES  0x400u /* CLONE_FILES, CLONE_PARENT: linux/sched.h */
#define COPY_PARENT 0x8000u

pid_t os_process_copy(bool beside) {
  return (pid_t)call5(clone, COPY_FILES | (beside ? COPY_PARENT : 0), 0, 0, 0, 0);
}

pid_t os_parent(void) { return (pid_t)call0(getppid); }

void os_exit(int status) {
  for (;;)
    (void)call1(exit_group, status);
}

/* prctl(2): PR_SET_NAME; setrlimit(2): RLIMIT_CORE; oom_score_adj: proc(5). */
void os_process_copy_settle(const char *name) {
  const uint64_t none[2] = {0, 0};
  (void)call3(close_range, 0, ~0u, 2 /* CLOSE_RANGE_UNSHARE */);
  (void)call5(prctl_name, 15, name, 0, 0, 0);
  (void)call2(setrlimit, 4, none);
  int fd = (int)call4(openat_score, -100, "/proc/self/oom_score_adj", 1 | 02000000, 0);
  if (fd < 0) return;
  (void)os_write(fd, "1000", 4);
  os_close(fd);
}

bool os_reap(pid_t copy) {
  return call4(wait4, copy, NULL, 0x40000001 /* __WALL | WNOHANG */, NULL) != 0;
}

uint64_t os_signals_block(void) {
  const uint64_t all = UINT64_MAX;
  uint64_t before = 0;
  (void)call4(rt_sigprocmask, SIG_BLOCK, &all, &before, 8);
  return before;
}

void os_signals_restore(uint64_t mask) { (void)call4(rt_sigprocmask, SIG_SETMASK, &mask, NULL, 8); }

/* ---- system calls and signals ------------------------------------------------------- */

/* A receive or send call with a time limit (socket(7): SO_RCVTIMEO, SO_SNDTIMEO) is not restarted.
 */
static bool has_time_limit(uint64_t fd) {
  for (int option = 20; option <= 21; option++) {
    int64_t limit[2] = {0, 0};
    uint32_t size = sizeof limit;
    long r = call5(getsockopt, fd, 1 /* SOL_SOCKET */, option, limit, &size);
    if (r == -EPERM || (r == 0 && (limit[0] || limit[1]))) return true;
  }
  return false;
}

/* The calls that SA_RESTART restarts: signal(7), "Interruption of system calls". A futex call with
 * a time limit is not restarted, although the C library's own waits repeat it. */
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

/* Calls that end with EINTR whatever the handler's flags, and that may be repeated with the same
 * arguments: they wait without limit, or until an absolute time, or the kernel has written the
 * remaining time to their argument (select(2), "The timeout"; ppoll(2)). */
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
  case SYS_futex: return (a[1] & 127) == 9; /* FUTEX_WAIT_BITSET: an absolute time */
  default: return false;
  }
}

/* A repeated sleep uses the remaining time, which the kernel has written to its argument. */
static void remaining_arguments(const os_blocked_t *at, uint64_t *arguments) {
  memcpy(arguments, at->arguments, sizeof at->arguments);
  if (at->call == SYS_nanosleep) arguments[0] = arguments[1];
  if (at->call == SYS_clock_nanosleep && !(arguments[1] & 1)) arguments[2] = arguments[3];
}

void os_call_resume(void *ucontext, const os_blocked_t *at) {
  uint64_t arguments[6];
  if (at->call < 0 || !os_call_resumes(at) || !arch_context_interrupted(ucontext, at->pc, at->sp))
    return;
  remaining_arguments(at, arguments);
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

/* Reads the number after the character SEPARATOR at AT and returns the text after it. Returns NULL
 * if AT is another character. */
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
