/* SPDX-License-Identifier: MIT
 *
 * The new thread is traced from its first instruction on, so the borrowed one is released at once.
 * The thread first gives the mapping its final access. This order works where a program may never
 * make memory executable (PR_SET_MDWE): all of the mapping is executable at first, and parts lose
 * that.
 */
#define _GNU_SOURCE
#include "attach/runner.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/attach_block.h"
#include "attach/borrow.h"
#include "attach/patience.h"
#include "target/stop/stop.h"

#ifndef PR_SET_VMA
#define PR_SET_VMA           0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

#define CALLS_MAX   28u
#define CALLS_AT    1024u /* in the page of the stub */
#define NAMES_AT    (CALLS_AT + CALLS_MAX * sizeof(stub_call_t))
#define REGION_NAME "sonde-agent"

/* ---- what the stub does first ------------------------------------------------------------- */

typedef struct calls {
  stub_call_t items[CALLS_MAX];
  size_t count;
} calls_t;

static void add_call(calls_t *calls, long number, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                     uint64_t e, bool must_succeed) {
  if (calls->count < CALLS_MAX - 1)
    calls->items[calls->count++] = (stub_call_t){number, {a, b, c, d, e, 0}, must_succeed};
}

static void add_protection(calls_t *calls, uint64_t start, uint64_t end, int protection) {
  add_call(calls, SYS_mprotect, start, end - start, (uint64_t)protection, 0, 0, true);
}

static void add_protections(const attach_t *attach, calls_t *calls) {
  const layout_t *l = &attach->layout;
  uint64_t base = attach->shared->base;
  for (size_t i = 0; i < attach->object.segment_count; i++) {
    const object_segment_t *s = &attach->object.segments[i];
    if (s->protection & PROT_EXEC) continue;
    add_protection(calls, base + s->start, base + s->end, s->protection);
  }
  add_protection(calls, base + l->block, base + l->stub, PROT_READ | PROT_WRITE);
  add_protection(calls, base + l->guard, base + l->stack, PROT_NONE);
  add_protection(calls, base + l->stack, base + l->stack_end, PROT_READ | PROT_WRITE);
}

bool runner_prepare(attach_t *attach) {
  const layout_t *l = &attach->layout;
  uint64_t base = attach->shared->base, stub = base + l->stub;
  char names[2][16] = {REGION_NAME, SESSION_THREAD_NAME};
  calls_t calls = {.count = 0};
  add_protections(attach, &calls);
  add_call(&calls, SYS_prctl, PR_SET_VMA, PR_SET_VMA_ANON_NAME, base, l->size, stub + NAMES_AT,
           false);
  add_call(&calls, SYS_prctl, PR_SET_NAME, stub + NAMES_AT + sizeof names[0], 0, 0, 0, false);
  add_call(&calls, -1, 0, 0, 0, 0, 0, false);
  uint8_t area[2 * 8192];
  cpu_fill_thread_area(area, sizeof area, base + l->area, base + l->tls);
  return session_write(attach, stub, attach_stub, (size_t)(attach_stub_end - attach_stub)) &&
         session_write(attach, stub + CALLS_AT, calls.items, sizeof calls.items) &&
         session_write(attach, stub + NAMES_AT, names, sizeof names) &&
         session_write(attach, base + l->area, area, sizeof area);
}

/* ---- the thread --------------------------------------------------------------------------- */

static uint64_t stub_address(const attach_t *attach, const uint8_t *label) {
  return attach->shared->base + attach->layout.stub + (uint64_t)(label - attach_stub);
}

static pid_t clone_thread(attach_t *attach, problem_t *problem) {
  const layout_t *l = &attach->layout;
  uint64_t base = attach->shared->base;
  borrow_call_t call = {
      .call = cpu_clone(RUNNER_CLONE_FLAGS, base + l->stack_end, base + l->tls),
      .code = {stub_address(attach, attach_stub_call), stub_address(attach, attach_stub_restore)},
      .frame = base + l->frame};
  borrowed_t borrowed;
  if (!borrow_thread(attach, &borrowed, problem)) return 0;
  int64_t result = borrow_call(attach, &borrowed, &call, &attach->shared->pauses.run_ns);
  if (call.child > 0) return call.child;
  problem_set(problem, "process %d cannot start a thread for the agent: %s", attach->pid,
              strerror(result < 0 ? (int)-result : ESRCH));
  return 0;
}

/* What the agent must not do. */
static bool write_filters(const attach_t *attach) {
  const filters_t *filters = &attach->shared->filters;
  uint64_t block = attach->shared->base + attach->layout.block;
  _Static_assert(OS_CALLS_MAX == ATTACH_CALLS_MAX, "the same rows");
  return session_write(attach, block + offsetof(attach_block_t, filter_count), &filters->count,
                       sizeof filters->count) &&
         session_write(attach, block + offsetof(attach_block_t, forbidden), filters->forbidden,
                       sizeof filters->forbidden);
}

static void start_thread(const attach_t *attach, cpu_regs_t *regs) {
  const layout_t *l = &attach->layout;
  const object_t *o = &attach->object;
  uint64_t base = attach->shared->base;
  bool fresh = !attach->shared->is_started;
  cpu_start(regs, &(stub_start_t){.pc = stub_address(attach, attach_stub_run),
                                  .stack = base + l->stack_end,
                                  .calls = base + l->stub + CALLS_AT,
                                  .init_start = base + o->init_start,
                                  .init_end = base + (fresh ? o->init_end : o->init_start),
                                  .entry = base + o->entry,
                                  .block = base + l->block});
}

/* How the thread ended, or why it was ended. */
typedef struct outcome {
  bool has_exited;
  int exit_status;
  int fault; /* a signal */
  uint64_t fault_pc;
  bool is_late;
} outcome_t;

/* Waits for a change of the thread. 0: none within the limit; -1: it is gone. */
static int wait_for(patience_t *patience, int *status) {
  const struct timespec step = {.tv_nsec = PATIENCE_STEP_NS};
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  while (true) {
    pid_t got = waitpid(patience->tid, status, __WALL | WNOHANG);
    if (got == patience->tid) return 1;
    if (got < 0 && errno != EINTR) return -1;
    if (sigtimedwait(&child, NULL, &step) < 0 && errno == EAGAIN && patience_is_over(patience))
      return 0;
  }
}

static bool is_fault(int status) {
  int signal = WSTOPSIG(status);
  return status >> 16 == 0 && (signal == SIGSEGV || signal == SIGBUS || signal == SIGILL ||
                               signal == SIGFPE || signal == SIGTRAP || signal == SIGSYS);
}

/* Resumes the stopped thread until it has exited, faults, or hangs. In a group stop it goes on, as
 * the program waits for nothing that it does. */
static void watch(const attach_t *attach, pid_t tid, uint64_t limit_ns, outcome_t *outcome) {
  patience_t patience = patience_begin(attach->pid, tid, limit_ns);
  int status;
  cpu_regs_t regs;
  while (ptrace(PTRACE_CONT, tid, NULL, NULL) == 0) {
    int got = wait_for(&patience, &status);
    outcome->is_late = got == 0;
    outcome->has_exited = got < 0 || (got > 0 && !WIFSTOPPED(status));
    if (got > 0 && WIFEXITED(status)) outcome->exit_status = WEXITSTATUS(status);
    if (got > 0 && WIFSTOPPED(status) && is_fault(status)) {
      outcome->fault = WSTOPSIG(status);
      outcome->fault_pc = cpu_read_regs(tid, &regs) ? cpu_pc(&regs) : 0;
    }
    if (outcome->is_late || outcome->has_exited || outcome->fault) return;
  }
  outcome->has_exited = true;
}

/* Makes a thread that faulted or hangs exit. False if it cannot be stopped. */
static bool end_thread(const attach_t *attach, pid_t tid, bool is_stopped) {
  int status;
  cpu_regs_t regs;
  outcome_t last = {.has_exited = false};
  if (!is_stopped &&
      (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) != 0 || stop_wait(tid, &status) <= 0))
    return false;
  if (!cpu_read_regs(tid, &regs)) return false;
  cpu_jump(&regs, stub_address(attach, attach_stub_exit));
  if (!cpu_write_regs(tid, &regs)) return false;
  watch(attach, tid, UINT64_C(2000000000), &last);
  return last.has_exited;
}

/* A name for messages. */
static const char *fault_name(int signal) {
  const char *name = strsignal(signal);
  return name ? name : "unknown signal";
}

static bool explain_end(const attach_t *attach, const outcome_t *outcome, problem_t *problem) {
  uint64_t offset = outcome->fault_pc - attach->shared->base;
  if (outcome->fault) {
    problem_set(problem,
                "the agent faulted in process %d (%s at offset 0x%llx); the program continues "
                "without it",
                attach->pid, fault_name(outcome->fault), (unsigned long long)offset);
    return false;
  }
  if (outcome->is_late) {
    problem_set(problem,
                "the agent did not answer in process %d in time; the program continues without it",
                attach->pid);
    return false;
  }
  if (outcome->exit_status) {
    problem_set(problem, "process %d refuses the agent's memory: %s", attach->pid,
                strerror(outcome->exit_status));
    return false;
  }
  return true;
}

/* Runs the agent in its new thread TID, which is stopped with REGS. */
static outcome_t run(attach_t *attach, pid_t tid, cpu_regs_t *regs, unsigned limit_ms) {
  const uint32_t running = ATTACH_RUNNING;
  outcome_t outcome = {.has_exited = false};
  /* What the agent starts is not traced. */
  (void)ptrace(PTRACE_SETOPTIONS, tid, NULL, NULL);
  /* Until the agent says that it is done, no other command may call it (attach/place.c). */
  (void)session_write(attach,
                      attach->shared->base + attach->layout.block + offsetof(attach_block_t, state),
                      &running, sizeof running);
  start_thread(attach, regs);
  (void)cpu_write_regs(tid, regs);
  watch(attach, tid, limit_ms * UINT64_C(1000000), &outcome);
  return outcome;
}

/* Runs it with what is to be done around that. False with PROBLEM if that could not begin. */
static bool run_around(attach_t *attach, pid_t tid, cpu_regs_t *regs, unsigned limit_ms,
                       outcome_t *outcome, problem_t *problem) {
  const around_t *around = attach->around;
  bool begun = !around || around->begin(attach, tid, problem);
  if (begun) *outcome = run(attach, tid, regs, limit_ms);
  if (around) around->end(attach);
  if (!begun) (void)end_thread(attach, tid, true);
  return begun;
}

bool runner_run(attach_t *attach, unsigned limit_ms, problem_t *problem) {
  int status;
  cpu_regs_t regs;
  outcome_t outcome;
  if (!filters_read(attach->target, &attach->shared->filters, problem)) return false;
  if (!write_filters(attach)) {
    access_explain(attach->pid, errno, problem);
    return false;
  }
  pid_t tid = clone_thread(attach, problem);
  if (!tid) return false;
  if (stop_wait(tid, &status) <= 0 || !cpu_read_regs(tid, &regs)) {
    problem_set(problem, "process %d ended while it was attached to", attach->pid);
    return false;
  }
  if (!run_around(attach, tid, &regs, limit_ms, &outcome, problem)) return false;
  if (!outcome.has_exited && !end_thread(attach, tid, outcome.fault != 0)) {
    attach->shared->is_broken = true;
    problem_set(problem, "the agent hangs in process %d, and its thread cannot be ended",
                attach->pid);
    return false;
  }
  attach->shared->is_started |= outcome.exit_status == 0;
  attach->shared->is_broken = outcome.fault || outcome.is_late;
  return explain_end(attach, &outcome, problem);
}
