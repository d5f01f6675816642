/* SPDX-License-Identifier: MIT
 *
 * The agent runs in every thread, so what one filter forbids is forbidden.
 */
#define _GNU_SOURCE
#include "attach/filters.h"

#include <errno.h>
#include <linux/filter.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach/runner.h"
#include "base/proc_file.h"
#include "target/process.h"
#include "target/stop.h"

#ifndef PTRACE_SECCOMP_GET_FILTER
#define PTRACE_SECCOMP_GET_FILTER 0x420c
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA           0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

#define STATUS_BYTES  8192u
#define CAP_SYS_ADMIN 21
#define TRIES         10

/* ---- the calls by which the agent is loaded, and leaves ------------------------------------ */

typedef struct needed_call {
  const char *name;
  uint32_t number;
  uint8_t known; /* bit I: argument I has this value */
  uint64_t arguments[6];
} needed_call_t;

static const needed_call_t needed_calls[] = {
    {"mmap",
     SYS_mmap,
     0x3d,
     {0, 0, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, UINT64_MAX, 0}},
    {"clone", SYS_clone, 1, {RUNNER_CLONE_FLAGS}},
    {"mprotect", SYS_mprotect, 4, {0, 0, PROT_READ}},
    {"mprotect", SYS_mprotect, 4, {0, 0, PROT_READ | PROT_WRITE}},
    {"mprotect", SYS_mprotect, 4, {0, 0, PROT_NONE}},
    {"prctl", SYS_prctl, 3, {PR_SET_VMA, PR_SET_VMA_ANON_NAME}},
    {"prctl", SYS_prctl, 1, {PR_SET_NAME}},
    {"rt_sigreturn", SYS_rt_sigreturn, 0, {0}},
    {"exit", SYS_exit, 0, {0}},
    {"munmap", SYS_munmap, 0, {0}},
    {"openat", SYS_openat, 0, {0}},
    {"read", SYS_read, 0, {0}},
    {"close", SYS_close, 0, {0}},
};

/* The name of a call that the filter does not let pass; NULL: none. */
static const char *forbidden_call(const struct sock_filter *program, uint32_t count) {
  for (size_t i = 0; i < sizeof needed_calls / sizeof *needed_calls; i++) {
    const needed_call_t *needed = &needed_calls[i];
    if (!os_filter_allows(program, count, needed->number, needed->arguments, needed->known))
      return needed->name;
  }
  return NULL;
}

/* ---- one thread ---------------------------------------------------------------------------- */

typedef struct reading {
  pid_t tid;
  filters_t *filters;
  uint32_t count;
  int error;
  const char *forbidden;
} reading_t;

static void add(reading_t *r, const struct sock_filter *program, uint32_t count) {
  os_calls_of_filter(program, count, r->filters->forbidden);
  if (!r->forbidden) r->forbidden = forbidden_call(program, count);
}

/* The thread is stopped. Its last filter is number 0; ENOENT comes behind the first one. */
static void read_stopped(void *context, const regs_t *unused) {
  static struct sock_filter program[BPF_MAXINSNS];
  reading_t *r = context;
  (void)unused;
  r->error = 0;
  r->forbidden = NULL;
  for (r->count = 0;; r->count++) {
    long size = ptrace((enum __ptrace_request)PTRACE_SECCOMP_GET_FILTER, r->tid, r->count, NULL);
    if (size < 0 || size > BPF_MAXINSNS) break;
    size = ptrace((enum __ptrace_request)PTRACE_SECCOMP_GET_FILTER, r->tid, r->count, program);
    if (size < 0) break;
    add(r, program, (uint32_t)size);
  }
  r->error = errno == ENOENT ? 0 : errno;
}

/* False with PROBLEM. */
static bool judge(const reading_t *r, pid_t pid, problem_t *problem) {
  if (r->error || !r->count) {
    problem_set(problem,
                "process %d has a seccomp filter that cannot be read (%s): start it with `sonde "
                "record -- COMMAND`, or without the filter",
                pid, strerror(r->error ? r->error : EINVAL));
    return false;
  }
  if (!r->forbidden) return true;
  problem_set(problem,
              "the seccomp filter of process %d does not permit %s, which loading the agent needs: "
              "start it with `sonde record -- COMMAND`, or without the filter",
              pid, r->forbidden);
  return false;
}

static bool read_thread(target_t *target, pid_t tid, filters_t *filters, problem_t *problem) {
  char status[STATUS_BYTES];
  regs_t regs;
  uint64_t ns;
  if (proc_file_read(tid, "status", status, sizeof status) <= 0 ||
      proc_file_number(status, "\nSeccomp:") <= 0)
    return true;
  reading_t r = {.tid = tid, .filters = filters};
  stop_result_t result = STOP_LATE;
  for (int i = 0; i < TRIES && (result == STOP_LATE || result == STOP_TRACED); i++)
    result = stop_thread(MACHINE_HERE, tid, &regs, read_stopped, &r, &ns);
  if (result == STOP_GONE) return true;
  if (result != STOP_DONE) {
    problem_set(problem, "thread %d, which has a seccomp filter, cannot be stopped: try again",
                tid);
    return false;
  }
  if (r.count > filters->count) filters->count = r.count;
  return judge(&r, target->pid, problem);
}

/* ---- all of them --------------------------------------------------------------------------- */

bool filters_are_readable(void) {
  char status[STATUS_BYTES];
  if (proc_file_read(getpid(), "status", status, sizeof status) <= 0) return false;
  const char *line = strstr(status, "\nCapEff:\t");
  unsigned long long capabilities = 0;
  return proc_file_number(status, "\nSeccomp:") == 0 && line &&
         sscanf(line + 9, "%llx", &capabilities) == 1 && capabilities >> CAP_SYS_ADMIN & 1;
}

bool filters_read(target_t *target, filters_t *filters, problem_t *problem) {
  *filters = (filters_t){.count = 0};
  if (!process_list_threads(target)) return true; /* it has ended */
  for (size_t i = 0; i < target->thread_count; i++)
    if (!read_thread(target, target->threads[i].tid, filters, problem)) return false;
  return true;
}
