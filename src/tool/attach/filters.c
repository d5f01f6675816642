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
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/choose.h"
#include "attach/cpu.h"
#include "attach/runner.h"
#include "base/array.h"
#include "base/proc_file.h"
#include "target/process.h"
#include "target/stop/stop.h"

#ifndef PTRACE_SECCOMP_GET_FILTER
#define PTRACE_SECCOMP_GET_FILTER 0x420c
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA           0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

#define STATUS_BYTES  8192u
#define CAP_SYS_ADMIN 21
#define TRIES_NS      UINT64_C(1000000000)
#define PASSES        10

/* The kernel's limit for all filters of a thread, where each counts 4 more (kernel/seccomp.c). */
#define CODE_MAX    32768u
#define FILTERS_MAX (CODE_MAX / 5)

/* ---- the calls by which the agent is loaded, and leaves ------------------------------------ */

typedef struct filter_code {
  const struct sock_filter *program;
  uint32_t count;
} filter_code_t;

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
    {"mmap",
     SYS_mmap,
     0x3d,
     {0, 0, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, UINT64_MAX, 0}},
    {"clone", SYS_clone, 1, {RUNNER_CLONE_FLAGS}},
    {"mprotect", SYS_mprotect, 4, {0, 0, PROT_READ}},
    {"mprotect", SYS_mprotect, 4, {0, 0, PROT_READ | PROT_WRITE}},
    {"mprotect", SYS_mprotect, 4, {0, 0, PROT_NONE}},
    {"prctl", SYS_prctl, 3, {PR_SET_VMA, PR_SET_VMA_ANON_NAME}},
    {"prctl", SYS_prctl, 1, {PR_SET_NAME}},
    {"rt_sigreturn", SYS_rt_sigreturn, 0, {0}},
    {"restart_syscall", SYS_restart_syscall, 0, {0}}, /* the kernel makes it after a stop */
    {"exit", SYS_exit, 0, {0}},
    {"munmap", SYS_munmap, 0, {0}},
    {"openat", SYS_openat, 0, {0}},
    {"read", SYS_read, 0, {0}},
    {"close", SYS_close, 0, {0}},
};

static const needed_call_t reap_call = {
    "wait4", SYS_wait4, 0x3c, {0, 0, __WALL | WNOHANG, 0, 0, 0}};

static bool allows(const filter_code_t *filter, const needed_call_t *call) {
  return os_filter_allows(filter->program, filter->count, call->number, call->arguments,
                          call->known);
}

/* The name of a call that the filter does not let pass; NULL: none. */
static const char *forbidden_call(const filter_code_t *filter) {
  for (size_t i = 0; i < sizeof needed_calls / sizeof *needed_calls; i++)
    if (!allows(filter, &needed_calls[i])) return needed_calls[i].name;
  return NULL;
}

/* ---- one thread ---------------------------------------------------------------------------- */

static bool has_filter(pid_t pid, pid_t tid) {
  char name[64], status[STATUS_BYTES];
  snprintf(name, sizeof name, "task/%d/status", tid);
  return proc_file_read(pid, name, status, sizeof status) > 0 &&
         proc_file_number(status, "\nSeccomp:") > 0;
}

/* The filters of one thread, one program behind the other. */
typedef struct programs {
  struct sock_filter code[CODE_MAX];
  uint32_t sizes[FILTERS_MAX];
  uint32_t used, count;
  int error;
} programs_t;

static filter_code_t filter_of(const programs_t *p, uint32_t number) {
  filter_code_t filter = {.program = p->code, .count = p->sizes[number]};
  for (uint32_t i = 0; i < number; i++)
    filter.program += p->sizes[i];
  return filter;
}

static bool are_equal(const programs_t *a, const programs_t *b) {
  return a->error == b->error && a->count == b->count &&
         memcmp(a->sizes, b->sizes, a->count * sizeof *a->sizes) == 0 &&
         memcmp(a->code, b->code, a->used * sizeof *a->code) == 0;
}

static long get_filter(pid_t tid, uint32_t number, struct sock_filter *out) {
  return ptrace((enum __ptrace_request)PTRACE_SECCOMP_GET_FILTER, tid, number, out);
}

/* Number 0 is the oldest filter, so one that another thread installs meanwhile comes last. */
static int copy_programs(pid_t tid, programs_t *p) {
  for (p->used = p->count = 0;; p->count++) {
    long size = get_filter(tid, p->count, NULL);
    if (size < 0) return errno == ENOENT ? 0 : errno;
    if (p->count == FILTERS_MAX || size > (long)(CODE_MAX - p->used)) return E2BIG;
    if (get_filter(tid, p->count, p->code + p->used) != size) return EAGAIN;
    p->sizes[p->count] = (uint32_t)size;
    p->used += (uint32_t)size;
  }
}

static bool allow_restart(const programs_t *p) {
  const needed_call_t restart = {.number = SYS_restart_syscall};
  for (uint32_t i = 0; i < p->count; i++) {
    filter_code_t filter = filter_of(p, i);
    if (!allows(&filter, &restart)) return false;
  }
  return !p->error;
}

typedef struct reading {
  pid_t tid;
  programs_t *programs;
} reading_t;

/* The thread is stopped. Where the kernel would continue its wait with restart_syscall(2), which
 * the filter may punish, the wait begins again instead. */
static void read_stopped(void *context, const regs_t *unused) {
  reading_t *r = context;
  cpu_regs_t regs;
  (void)unused;
  r->programs->error = copy_programs(r->tid, r->programs);
  if (cpu_read_regs(r->tid, &regs) && cpu_repeat_wait(&regs) && !allow_restart(r->programs))
    (void)cpu_write_regs(r->tid, &regs);
}

/* False with PROBLEM. */
static bool judge(const programs_t *p, pid_t pid, filters_t *filters, problem_t *problem) {
  const char *forbidden = NULL;
  if (p->error || !p->count) {
    problem_set(problem,
                "process %d has a seccomp filter that cannot be read (%s): start it with `sonde "
                "record -- COMMAND`, or without the filter",
                pid, strerror(p->error ? p->error : EINVAL));
    return false;
  }
  for (uint32_t i = 0; i < p->count && !forbidden; i++) {
    filter_code_t filter = filter_of(p, i);
    os_calls_of_filter(filter.program, filter.count, filters->forbidden);
    filters->forbid_reaping |= !allows(&filter, &reap_call);
    forbidden = forbidden_call(&filter);
  }
  if (p->count > filters->count) filters->count = p->count;
  if (!forbidden) return true;
  problem_set(problem,
              "the seccomp filter of process %d does not permit %s, which the agent needs: "
              "start it with `sonde record -- COMMAND`, or without the filter",
              pid, forbidden);
  return false;
}

/* A transfer that is stopped returns early, so such a thread is waited for. */
static bool may_be_stopped(target_t *target, pid_t tid) {
  return choose_fitness_of(target, tid) != FIT_NEVER;
}

static stop_result_t stop_and_read(target_t *target, pid_t tid, programs_t *programs) {
  reading_t r = {.tid = tid, .programs = programs};
  regs_t regs;
  uint64_t ns, end = os_monotonic_ns() + TRIES_NS;
  stop_result_t result = STOP_LATE;
  do {
    if (may_be_stopped(target, tid))
      result = stop_thread(MACHINE_HERE, tid, &regs, read_stopped, &r, &ns);
    else if (!has_filter(target->pid, tid))
      result = STOP_GONE;
    if (result != STOP_LATE && result != STOP_TRACED) break; /* a sampler lets go soon */
    usleep(1000);
  } while (os_monotonic_ns() < end);
  return result;
}

/* LAST: the programs of the thread before. They are exchanged if they differ. */
static bool read_thread(target_t *target, pid_t tid, programs_t *last[2], filters_t *filters,
                        problem_t *problem) {
  programs_t *programs = last[1];
  if (!has_filter(target->pid, tid)) return true;
  stop_result_t result = stop_and_read(target, tid, programs);
  if (result == STOP_GONE) return true;
  if (result != STOP_DONE) {
    problem_set(problem,
                "thread %d, which has a seccomp filter, cannot be stopped now: it transfers data "
                "or waits uninterruptibly; try again",
                tid);
    return false;
  }
  if (are_equal(programs, last[0])) return true;
  last[1] = last[0];
  last[0] = programs;
  return judge(programs, target->pid, filters, problem);
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

static int by_number(const void *a, const void *b) {
  pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;
  return (x > y) - (x < y);
}

typedef struct tids {
  pid_t *items;
  size_t count, capacity;
} tids_t;

/* Reads the threads of the process that are not in KNOWN, and adds them. Sets *COUNT to their
 * number. */
static bool read_new(target_t *target, tids_t *known, programs_t *last[2], filters_t *filters,
                     size_t *count, problem_t *problem) {
  size_t before = known->count;
  *count = 0;
  if (!process_list_threads(target)) return true; /* it has ended */
  for (size_t i = 0; i < target->thread_count; i++) {
    pid_t tid = target->threads[i].tid;
    if (before && bsearch(&tid, known->items, before, sizeof tid, by_number)) continue;
    if (!ARRAY_GROW(known->items, known->count, known->capacity)) {
      problem_set(problem, "out of memory");
      return false;
    }
    known->items[known->count++] = tid;
    if (!read_thread(target, tid, last, filters, problem)) return false;
  }
  *count = known->count - before;
  qsort(known->items, known->count, sizeof *known->items, by_number);
  return true;
}

/* A new thread has the filters of one that may have ended since, so it is read as well. */
bool filters_read(target_t *target, filters_t *filters, problem_t *problem) {
  static programs_t programs[2]; /* of a tracer; touched only if there are filters */
  programs_t *last[2] = {&programs[0], &programs[1]};
  tids_t known = {0};
  size_t count = 1;
  bool good = true;
  *filters = (filters_t){.count = 0};
  for (int i = 0; good && count && i < PASSES; i++)
    good = read_new(target, &known, last, filters, &count, problem);
  free(known.items);
  if (!good || !count) return good;
  problem_set(problem, "process %d starts threads all the time: try again", target->pid);
  return false;
}

bool filters_permit_reaping(pid_t pid, const filters_t *filters, problem_t *problem) {
  if (filters->forbid_reaping)
    problem_set(problem,
                "the seccomp filter of process %d does not permit wait4, which a search for leaks "
                "needs",
                pid);
  return !filters->forbid_reaping;
}
