/* SPDX-License-Identifier: MIT */
#include "recorder/monitor/thread_stats.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "recorder/monitor/thread_file.h"

static const char *const names[THREAD_STATS_FILES] = {"stat", "schedstat", "syscall", "wchan"};
enum { STAT, SCHEDSTAT, SYSCALL, WCHAN };

void thread_stats_open(thread_stats_files_t *files, pid_t pid, pid_t tid) {
  files->pid = pid;
  files->tid = tid;
  for (int i = 0; i < THREAD_STATS_FILES; i++)
    files->fds[i] = thread_file_open(pid, tid, names[i]);
}

void thread_stats_close(thread_stats_files_t *files) {
  for (int i = 0; files->tid && i < THREAD_STATS_FILES; i++)
    thread_file_close(files->fds[i]);
  files->tid = 0;
}

static bool read_text(const thread_stats_files_t *files, int which, char *out, size_t size) {
  return thread_file_read(files->fds[which], files->pid, files->tid, names[which], out, size);
}

#define EXITING   0x4u  /* PF_EXITING of linux/sched.h */
#define IO_WORKER 0x10u /* PF_IO_WORKER, since Linux 5.12 */

/* Field 3, the state, follows the name, which may contain any character. Then: flags 9, minflt 10,
 * majflt 12, utime 14, stime 15, blocked 32 (proc(5)). */
bool thread_stats_parse_stat(const char *text, thread_stats_t *out) {
  const char *p = strrchr(text, ')');
  if (!p || p[1] != ' ' || !p[2]) return false;
  out->state = p[2];
  p += 3;
  for (int field = 4; field <= 15; field++) {
    char *end;
    unsigned long long value = strtoull(p, &end, 10); /* negative ones are not used */
    if (end == p) return false;
    p = end;
    switch (field) {
    case 9:
      out->exiting = value & EXITING;
      out->kernel = value & IO_WORKER;
      break;
    case 10: out->minor_faults = value; break;
    case 12: out->major_faults = value; break;
    case 14: out->user_ticks = value; break;
    case 15: out->system_ticks = value; break;
    default: break;
    }
  }
  return true;
}

bool thread_stats_parse_schedstat(const char *text, thread_stats_t *out) {
  char *at;
  uint64_t values[3];
  for (int i = 0; i < 3; i++, text = at) {
    values[i] = strtoull(text, &at, 10);
    if (at == text) return false;
  }
  out->run_ns = values[0];
  out->runq_ns = values[1];
  out->slices = values[2];
  return true;
}

#define TICK_NS UINT64_C(10000000) /* USER_HZ */

static void count_by_ticks(thread_stats_t *out) {
  if (!out->slices && !out->run_ns) out->run_ns = (out->user_ticks + out->system_ticks) * TICK_NS;
}

bool thread_stats_read_use(int schedstat_fd, pid_t pid, pid_t tid, thread_stats_t *out) {
  char text[1024];
  memset(out, 0, sizeof *out);
  if (thread_file_read(schedstat_fd, pid, tid, "schedstat", text, sizeof text) &&
      thread_stats_parse_schedstat(text, out) && out->slices)
    return true;
  if (!thread_file_read(-1, pid, tid, "stat", text, sizeof text) ||
      !thread_stats_parse_stat(text, out))
    return false;
  count_by_ticks(out);
  return true;
}

/* Calls in which a thread may be frozen (kernel/freezer.c: TASK_FREEZABLE). Since Linux 6.1 such a
 * thread is in state D, which these calls otherwise never cause. */
static bool is_freezable(long call) {
  static const long calls[] = {
    SYS_nanosleep,
    SYS_clock_nanosleep,
    SYS_futex,
    SYS_ppoll,
    SYS_pselect6,
    SYS_epoll_pwait,
    SYS_recvmsg,
    SYS_recvfrom,
    SYS_accept,
    SYS_accept4,
    SYS_waitid,
    SYS_wait4,
#if defined(__x86_64__)
    SYS_poll,
    SYS_select,
    SYS_epoll_wait,
#endif
    SYS_rt_sigtimedwait
  };
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
    if (calls[i] == call) return true;
  return false;
}

static void parse_call(const char *text, thread_stats_t *out) {
  char *at;
  out->call = strtol(text, &at, 10);
  if (at == text) out->call = -1; /* "running" */
  for (int i = 0; out->call >= 0 && i < 3; i++)
    out->args[i] = strtoull(at, &at, 16);
}

bool thread_stats_read(const thread_stats_files_t *files, thread_stats_t *out) {
  char text[1024];
  memset(out, 0, sizeof *out);
  out->call = -1;
  if (!read_text(files, STAT, text, sizeof text) || !thread_stats_parse_stat(text, out))
    return false;
  if (read_text(files, SCHEDSTAT, text, sizeof text)) (void)thread_stats_parse_schedstat(text, out);
  count_by_ticks(out);
  if (out->state == 'R' || out->state == 'Z' || out->state == 'X') return true;
  if (read_text(files, SYSCALL, text, sizeof text)) parse_call(text, out);
  if (read_text(files, WCHAN, text, sizeof text))
    out->frozen = strstr(text, "freezer_trap") || strstr(text, "refrigerator");
  if (out->state == 'D' && is_freezable(out->call)) out->frozen = true;
  return true;
}
