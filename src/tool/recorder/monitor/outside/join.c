/* SPDX-License-Identifier: MIT
 *
 * A running thread may start another, which the kernel traces from its start if its parent is
 * seized by then. So the list of threads is read until it has none that is not traced here.
 */
#define _GNU_SOURCE
#include "recorder/monitor/outside/join.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include "attach/choose.h"
#include "attach/cpu.h"
#include "base/proc_file.h"
#include "os/os.h"
#include "target/stop/stop.h"
#include "target/target.h"

#define STATUS_BYTES 8192u
/* A transfer ends soon, and a sampler of the recorder lets go of a thread after microseconds. */
#define PATIENCE_NS UINT64_C(1000000000)
#define AGAIN_US    1000u

/* The tracer of TID; 0: none; negative: the thread has ended. The first thread may remain as a
 * zombie. */
static long tracer_of(pid_t pid, pid_t tid) {
  char name[64], status[STATUS_BYTES];
  snprintf(name, sizeof name, "task/%d/status", (int)tid);
  if (proc_file_read(pid, name, status, sizeof status) <= 0) return -1;
  if (strstr(status, "\nState:\tZ") || strstr(status, "\nState:\tX")) return -1;
  return proc_file_number(status, "\nTracerPid:");
}

static bool is_unfit(target_t *target, pid_t pid, pid_t tid) {
  return choose_fitness_of(target, tid) == FIT_NEVER && tracer_of(pid, tid) >= 0;
}

/* 1: TID was seized; 0: it was before, or has ended; negative: -errno. */
static int join_thread(target_t *target, pid_t pid, pid_t tid, long options) {
  uint64_t end_ns = os_monotonic_ns() + PATIENCE_NS;
  while (is_unfit(target, pid, tid)) {
    if (os_monotonic_ns() > end_ns) return -EAGAIN;
    usleep(AGAIN_US);
  }
  while (ptrace(PTRACE_SEIZE, tid, NULL, (void *)options) != 0) {
    long tracer = tracer_of(pid, tid);
    if (tracer == getpid() || tracer < 0 || errno == ESRCH) return 0;
    if (os_monotonic_ns() > end_ns) return -EPERM;
    usleep(AGAIN_US);
  }
  return ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) == 0;
}

int join_threads(pid_t pid, long options, size_t *count) {
  problem_t problem;
  size_t before;
  int result = 0;
  *count = 0;
  if (!STOP_HIDES_EINTR) return EOPNOTSUPP;
  target_t *target = target_open_process(pid, &problem);
  if (!target) return EPERM;
  do {
    before = *count;
    if (!process_list_threads(target)) result = -ESRCH;
    for (size_t i = 0; i < target->thread_count && result >= 0; i++) {
      pid_t tid = target->threads[i].tid;
      if (tracer_of(pid, tid) == getpid()) continue;
      result = join_thread(target, pid, tid, options);
      *count += result > 0;
    }
  } while (result >= 0 && *count > before);
  target_close(target);
  return result < 0 ? -result : 0;
}

void join_stopped(pid_t tid) {
  waiting_t unknown = {.known = false};
  cpu_regs_t regs;
  if (!cpu_read_regs(tid, &regs) || !stop_is_interrupted(tid, &regs, &unknown)) return;
  stop_restart_call(&regs, &unknown);
  (void)cpu_write_regs(tid, &regs);
}

void join_interrupt(pid_t pid) {
  problem_t problem;
  target_t *target = target_open_process(pid, &problem);
  bool listed = target && process_list_threads(target);
  for (size_t i = 0; listed && i < target->thread_count; i++) {
    pid_t tid = target->threads[i].tid;
    if (tracer_of(pid, tid) == getpid() && !is_unfit(target, pid, tid))
      (void)ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
  }
  target_close(target);
}
