/* SPDX-License-Identifier: MIT
 *
 * The order of the steps matters, because the command may be killed after any of them:
 *
 *   frame       the thread's state, in memory that the program does not use
 *   registers   the call; behind it, a return through the frame
 *   mask        all signals but those of faults are blocked. A handler that runs before this
 *               returns to the call.
 *   call        PTRACE_SYSCALL, then PTRACE_INTERRUPT. No stop is a signal: the kernel would
 *               deliver the SIGTRAP of a single step if the tracer died at that stop.
 *   mask, then registers: as they were
 *
 * The kernel restarts the interrupted system call only after an event stop (PTRACE_INTERRUPT), so
 * the last stop is one. PTRACE_INTERRUPT before mmap and munmap saves a stop: they do not look at
 * signals. clone would fail, so its event comes first.
 */
#define _GNU_SOURCE
#include "attach/borrow.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/choose.h"
#include "attach/tracer.h"
#include "os/os.h"

/* On a busy machine a try takes long, so some are made in any case. */
#define TRIES_NS      UINT64_C(1000000000)
#define TRIES_MIN     100
#define PATIENCE      100             /* stops for other reasons */
#define FRAME_GAP     UINT64_C(65536) /* that the main thread may use meanwhile */
#define FRAME_RESERVE ((CPU_FRAME_MAX + 4095u) & ~(uint64_t)4095)

/* SEGV, BUS, FPE, ILL, TRAP, SYS: if such a signal is forced while it is blocked, the kernel resets
 * the program's handler (kernel/signal.c: force_sig_info_to_task). */
#define BIT(signal) (UINT64_C(1) << ((signal)-1))
#define BLOCKED                                                                                    \
  (~(BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGFPE) | BIT(SIGILL) | BIT(SIGTRAP) | BIT(SIGSYS)))

#define EVENT_OF(status) ((status) >> 16)

/* ---- stops -------------------------------------------------------------------------------- */

static bool resume(pid_t tid, long how, int signal) {
  return ptrace((enum __ptrace_request)how, tid, NULL, (void *)(intptr_t)signal) == 0;
}

static bool is_event_stop(int status) {
  return EVENT_OF(status) == PTRACE_EVENT_STOP && WSTOPSIG(status) == SIGTRAP;
}

/* The signal that a stop holds back. */
static int held_back(int status) {
  return EVENT_OF(status) || WSTOPSIG(status) == (SIGTRAP | 0x80) ? 0 : WSTOPSIG(status);
}

/* Waits for the stop that PTRACE_INTERRUPT causes. A signal that comes first is delivered; WAITING
 * is then not known. */
static taken_t wait_for_interrupt(pid_t tid, waiting_t *waiting) {
  int status;
  for (int i = 0; i < PATIENCE; i++) {
    int stopped = stop_wait(tid, &status);
    if (stopped < 0) return TAKEN_NOT;
    if (stopped == 0) return TAKEN_LATE;
    if (is_event_stop(status)) return TAKEN;
    if (EVENT_OF(status) == PTRACE_EVENT_STOP) {
      resume(tid, PTRACE_DETACH, 0);
      return TAKEN_STOPPED;
    }
    waiting->known = false;
    if (!resume(tid, PTRACE_CONT, held_back(status))) return TAKEN_NOT;
  }
  return TAKEN_LATE;
}

/* ---- which thread ------------------------------------------------------------------------- */

/* The kernel ends a restartable sequence only if it finds the thread's own pc in it (rseq(2)). */
static bool is_in_sequence(const attach_t *attach, const borrowed_t *b) {
#ifdef PTRACE_GET_RSEQ_CONFIGURATION
  struct __ptrace_rseq_configuration rseq = {0};
  uint64_t at = 0, section[4]; /* version and flags, start, size, abort */
  if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, b->tid, sizeof rseq, &rseq) <= 0) return false;
  if (!rseq.rseq_abi_pointer || !session_read(attach, rseq.rseq_abi_pointer + 8, &at, sizeof at) ||
      !at || !session_read(attach, at, section, sizeof section))
    return false;
  return cpu_pc(&b->state.regs) - section[1] < section[2];
#else
  (void)attach, (void)b;
  return false;
#endif
}

static bool is_interrupted(const borrowed_t *b) {
  return stop_is_interrupted(b->tid, &b->state.regs, &b->waiting);
}

/* Whether the thread, chosen for another call, was caught in a transfer that fails with EINTR. */
static bool is_unfit(const attach_t *attach, const borrowed_t *b) {
  static const uint64_t args[6] = {0};
  if (is_in_sequence(attach, b)) return true;
  return is_interrupted(b) &&
         choose_fitness(cpu_interrupted_call(&b->state.regs), args) == FIT_NEVER;
}

/* The kernel forgets which call restart_syscall(2) continues, and rt_sigreturn(2) makes it fail
 * with EINTR. So the frame of a second loan in the same wait repeats the call of the first. */
static void remember_call(attach_t *attach, borrowed_t *b) {
  interrupted_t *last = &attach->shared->last;
  const cpu_regs_t *regs = &b->state.regs;
  interrupted_t now = {b->tid, cpu_pc(regs), cpu_sp(regs), cpu_interrupted_call(regs)};
  bool same = now.tid == last->tid && now.pc == last->pc && now.sp == last->sp;
  b->state.original_call = same ? last->call : -1;
  if (now.call != SYS_restart_syscall) *last = now;
}

taken_t borrow_one(attach_t *attach, borrowed_t *b) {
  long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE;
  if (ptrace(PTRACE_SEIZE, b->tid, NULL, (void *)options) != 0)
    return errno == EPERM ? TAKEN_TRACED : TAKEN_NOT;
  b->waiting = stop_waiting(b->tid);
  if (ptrace(PTRACE_INTERRUPT, b->tid, NULL, NULL) != 0) return TAKEN_NOT;
  taken_t taken = wait_for_interrupt(b->tid, &b->waiting);
  if (taken != TAKEN) return taken;
  b->begun_ns = os_monotonic_ns();
  bool known = cpu_read(b->tid, &b->state);
  bool unfit = !known || is_unfit(attach, b);
  if (known && is_interrupted(b)) {
    stop_restart_call(&b->state.regs, &b->waiting);
    (void)cpu_write_regs(b->tid, &b->state.regs);
  }
  if (unfit) stop_release(b->tid, &b->state.regs, &b->waiting);
  if (!unfit) remember_call(attach, b);
  return unfit ? TAKEN_NOT : TAKEN;
}

static taken_t take(attach_t *attach, borrowed_t *b) {
  tracer_hurry(true);
  taken_t taken = borrow_one(attach, b);
  if (taken != TAKEN) tracer_hurry(false);
  return taken;
}

static void explain(const attach_t *attach, taken_t taken, problem_t *problem) {
  int pid = attach->pid;
  if (taken == TAKEN_STOPPED)
    problem_set(problem, "process %d is stopped by a signal: `kill -CONT %d` continues it", pid,
                pid);
  else if (taken == TAKEN_TRACED)
    problem_set(problem,
                "a thread of process %d is traced by another program or may not be traced: end "
                "the debugger or tracer, or run sonde with sudo",
                pid);
  else if (taken == TAKEN_LATE)
    problem_set(problem,
                "a thread of process %d did not stop in time: it gets no CPU time or waits "
                "uninterruptibly; try again",
                pid);
  else
    problem_set(problem,
                "no thread of process %d can be interrupted now: each transfers data, waits "
                "uninterruptibly or ends; try again",
                pid);
}

bool borrow_thread(attach_t *attach, borrowed_t *b, problem_t *problem) {
  uint64_t end = os_monotonic_ns() + TRIES_NS;
  taken_t taken = TAKEN_NOT;
  int tries = 0;
  do {
    fitness_t fitness;
    b->tid = choose_thread(attach->target, &fitness);
    if (fitness == FIT_TIMED) choose_wait(attach->target, b->tid);
    if (fitness != FIT_NEVER) taken = take(attach, b);
    if (taken == TAKEN) return true;
    if (taken != TAKEN_NOT && taken != TAKEN_TRACED) break; /* a sampler lets go soon */
    usleep(1000);
  } while (++tries < TRIES_MIN || os_monotonic_ns() < end);
  explain(attach, taken, problem);
  return false;
}

/* ---- where the frame is ------------------------------------------------------------------- */

/* The stack of a thread or a coroutine may end just below its stack pointer, so the frame is below
 * what the main thread has ever used of its own stack: bytes that are still 0. */
static bool is_untouched(const attach_t *attach, uint64_t address) {
  uint64_t words[512];
  for (uint64_t at = 0; at < FRAME_GAP; at += sizeof words) {
    if (!session_read(attach, address + at, words, sizeof words)) return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
      if (words[i]) return false;
  }
  return true;
}

/* The start of the main thread's stack now; 0: unknown. */
static uint64_t main_stack(const attach_t *attach) {
  maps_t maps = {0};
  problem_t ignored;
  uint64_t found = 0;
  (void)process_read_maps(attach->pid, attach->target->reader, &maps, &ignored);
  for (size_t i = 0; i < maps.count; i++)
    if (strcmp(maps.items[i].path, "[stack]") == 0) found = maps.items[i].start;
  maps_free(&maps);
  return found;
}

/* An access below a stack lets it grow (mm/mmap.c: expand_stack). */
uint64_t borrow_place(attach_t *attach) {
  uint64_t start = attach->code.restore ? main_stack(attach) : 0;
  if (!start) return 0;
  if (is_untouched(attach, start + FRAME_RESERVE)) return start;
  start -= FRAME_RESERVE + FRAME_GAP;
  return session_write(attach, start, "", 1) ? start : 0;
}

static bool prepare(attach_t *attach, borrowed_t *b, const borrow_call_t *call) {
  uint8_t frame[CPU_FRAME_MAX];
  if (!call->frame) return true;
  size_t size = cpu_frame(&b->state, call->frame, call->code.restore, frame);
  return session_write(attach, call->frame, frame, size);
}

/* ---- the call ----------------------------------------------------------------------------- */

/* Resumes the thread with HOW until it stops with one of the stops that IS_WANTED. */
static bool run_until(pid_t tid, long how, bool (*is_wanted)(int status), int *status) {
  int signal = 0;
  for (int i = 0; i < PATIENCE; i++) {
    if (!resume(tid, how, signal) || stop_wait(tid, status) <= 0) return false;
    if (is_wanted(*status)) return true;
    signal = held_back(*status);
    /* The call's instruction itself faulted; nothing can be done here. */
    if (signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGSYS) return false;
  }
  return false;
}

static bool is_call_stop(int status) {
  return WSTOPSIG(status) == (SIGTRAP | 0x80) || EVENT_OF(status) == PTRACE_EVENT_CLONE;
}

static bool make_call(borrowed_t *b, borrow_call_t *call) {
  int status;
  unsigned long child = 0;
  if (!run_until(b->tid, PTRACE_SYSCALL, is_call_stop, &status)) return false;
  if (call->call.number == SYS_clone) {
    if (!run_until(b->tid, PTRACE_SYSCALL, is_call_stop, &status)) return false;
    if (EVENT_OF(status) == PTRACE_EVENT_CLONE &&
        ptrace(PTRACE_GETEVENTMSG, b->tid, NULL, &child) == 0)
      call->child = (pid_t)child;
  }
  if (ptrace(PTRACE_INTERRUPT, b->tid, NULL, NULL) != 0) return false;
  return run_until(b->tid, PTRACE_CONT, is_event_stop, &status);
}

static void give_back(borrowed_t *b) {
  (void)ptrace(PTRACE_SETSIGMASK, b->tid, sizeof b->state.signal_mask, &b->state.signal_mask);
  (void)cpu_restore(b->tid, &b->state);
  stop_release(b->tid, &b->state.regs, &b->waiting);
}

int64_t borrow_call(attach_t *attach, borrowed_t *b, borrow_call_t *call, uint64_t *pause_ns) {
  cpu_regs_t regs = b->state.regs;
  uint64_t blocked = BLOCKED;
  int64_t result = -ECANCELED;
  cpu_call(&regs, &call->code, call->frame ? call->frame : cpu_sp(&regs), &call->call);
  call->child = 0;
  if (prepare(attach, b, call) && cpu_write_regs(b->tid, &regs) &&
      ptrace(PTRACE_SETSIGMASK, b->tid, sizeof blocked, &blocked) == 0 && make_call(b, call) &&
      cpu_read_regs(b->tid, &regs))
    result = cpu_result(&regs);
  give_back(b);
  *pause_ns = os_monotonic_ns() - b->begun_ns;
  tracer_hurry(false);
  return result;
}
