/* SPDX-License-Identifier: MIT
 *
 * Captures the stacks of all threads and disturbs the program as little as possible.
 *
 * A blocked thread is not stopped, because a ptrace stop would make its epoll_wait fail with EINTR.
 * The capture reads its stack pointer and pc from /proc, copies and walks its stack, and samples
 * the thread again. If the thread ran meanwhile, the copy may be inconsistent and is discarded. The
 * frame register is not in /proc; it is inferred where a rule needs it (unwind/infer/infer.h).
 *
 * A thread is stopped if it runs, if its samples keep changing, or if its walk needs a register, as
 * in a leaf function whose return address is only in the link register. The stop lasts until its
 * registers and the innermost 64 KB of its stack are copied; the walk comes later. Only if the walk
 * needs memory beyond the copy is the thread stopped again and walked in place. By then all images
 * are open.
 *
 * If threads may be stopped, a separate thread of the command captures the process and ends before
 * symbolization. The kernel then detaches from everything that this thread traced.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "os/os.h"
#include "target/process.h"
#include "target/interpreter/interpreter.h"
#include "target/interpreter/python/python.h"
#include "target/registers.h"
#include "target/state.h"
#include "target/stop/stop.h"
#include "target/walk.h"

#define SAMPLE_ATTEMPTS 4
#define STOP_ATTEMPTS   3

typedef struct capture {
  target_t *target;
  const stacks_options_t *options;
  walk_t walk;
  interpreter_t *interpreter; /* NULL: do not merge its frames */
  bool denied;                /* the system refused /proc/…/syscall */
} capture_t;

static void set_none(thread_t *thread, const char *reason) {
  thread->ending = ENDING_NONE;
  thread->reason = reason;
}

/* ---- interpreters --------------------------------------------------------------------------- */

bool stacks_has_interpreter(target_t *target) {
  if (!target->interpreter_tried) target->interpreter = interpreter_open(target);
  target->interpreter_tried = true;
  return target->interpreter && !target->interpreter->problem;
}

/* The interpreter, if OPTIONS ask for its frames. */
static interpreter_t *interpreter_of(target_t *target, const stacks_options_t *options) {
  if (!options->interpreted || !stacks_has_interpreter(target)) return NULL;
  target->interpreter->kind->list_threads(target->interpreter);
  return target->interpreter;
}

static void read_interpreter(capture_t *capture, const thread_t *thread, const regs_t *regs) {
  if (capture->interpreter)
    interpreter_read(capture->interpreter, thread->tid,
                     regs->r[machine_sp(capture->target->machine)], capture->options->depth);
}

/* Merges the frames that were read last into the walk's. */
static void place_interpreter(capture_t *capture, thread_t *thread) {
  if (!capture->interpreter) return;
  capture->walk.frames_problem = interpreter_place(capture->interpreter, &capture->walk);
  thread->holds_gil = python_holds_lock(capture->interpreter);
}

/* ---- stopped ------------------------------------------------------------------------------ */

typedef struct stopped {
  capture_t *capture;
  thread_t *thread;
  bool in_place; /* walk while it is stopped */
} stopped_t;

static void load_window(target_t *target, const regs_t *regs) {
  process_window_load(&process_of(target)->memory, regs->r[machine_sp(target->machine)]);
}

/* Discards cached memory: later reads are current. */
static void forget_window(target_t *target) { process_of(target)->memory.size = 0; }

static void while_stopped(void *context, const regs_t *regs) {
  stopped_t *stopped = context;
  capture_t *capture = stopped->capture;
  load_window(capture->target, regs);
  read_interpreter(capture, stopped->thread, regs);
  if (stopped->in_place) walk_stack(capture->target, regs, capture->options->depth, &capture->walk);
}

/* Walks the copy that was made while the thread was stopped. True if the copy sufficed. */
static bool walk_copy(capture_t *capture, const regs_t *regs) {
  process_memory_t *memory = &process_of(capture->target)->memory;
  memory->sealed = true;
  memory->missed = false;
  walk_stack(capture->target, regs, capture->options->depth, &capture->walk);
  memory->sealed = false;
  return !memory->missed;
}

static const char *stop_reason(stop_result_t result) {
  switch (result) {
  case STOP_TRACED: return "running, and a debugger has it or the system forbids to stop it";
  case STOP_LATE: return "it did not stop in time: it is in an uninterruptible wait or got no CPU";
  case STOP_FOREIGN: return "it runs 32-bit code";
  default: return "it ended";
  }
}

/* True if the thread was read; else sets REASON. */
static bool read_stopped(capture_t *capture, thread_t *thread, const char **reason) {
  stopped_t stopped = {capture, thread, false};
  for (int attempt = 0; attempt < STOP_ATTEMPTS; attempt++) {
    uint64_t ns = 0;
    stop_result_t result = stop_thread(capture->target->machine, thread->tid, &thread->regs,
                                       while_stopped, &stopped, &ns);
    if (ns > thread->stopped_ns) thread->stopped_ns = ns;
    if (result != STOP_DONE) {
      *reason = stop_reason(result);
      return false;
    }
    if (stopped.in_place || walk_copy(capture, &thread->regs)) break;
    stopped.in_place = true;
  }
  place_interpreter(capture, thread);
  walk_give(&capture->walk, thread);
  return true;
}

/* ---- blocked ------------------------------------------------------------------------------ */

static void regs_of_sample(machine_t machine, const sample_t *sample, regs_t *regs) {
  memset(regs, 0, sizeof *regs);
  regs->pc = sample->pc;
  regs_set(regs, machine_sp(machine), sample->sp);
}

/* Reads a thread that does not run. False if it ran meanwhile; NOW is its latest sample. */
static bool read_blocked(capture_t *capture, thread_t *thread, const thread_files_t *files,
                         sample_t *now) {
  target_t *target = capture->target;
  sample_t before = *now;
  regs_of_sample(target->machine, &before, &thread->regs);
  forget_window(target);
  state_wait(target, thread, before.number, before.args);
  load_window(target, &thread->regs);
  walk_stack(target, &thread->regs, capture->options->depth, &capture->walk);
  read_interpreter(capture, thread, &thread->regs);
  thread_sample(files, now);
  if (!sample_same(&before, now)) return false;
  place_interpreter(capture, thread);
  return true;
}

/* ---- one thread --------------------------------------------------------------------------- */

/* The result for a thread that must not or cannot be stopped. */
static void settle(capture_t *capture, thread_t *thread, activity_t activity, bool whole,
                   const char *reason) {
  if (whole)
    walk_give(&capture->walk, thread); /* the incomplete stack */
  else if (activity == ACTIVITY_RUNNING)
    set_none(thread, reason ? reason : "running");
  else
    set_none(thread, reason ? reason : "it ran while it was read");
}

/* A stop interrupts the call, and the kernel restarts it. */
static bool would_notice(const thread_t *thread, const sample_t *sample) {
  os_blocked_t at = {.call = sample->number};
  memcpy(at.arguments, sample->args, sizeof at.arguments);
  return thread->state != 'S' || sample->activity != ACTIVITY_BLOCKED ||
         !os_call_restarts_anywhere(&at);
}

static bool must_not_stop(const capture_t *capture, const thread_t *thread,
                          const sample_t *sample) {
  touch_t touch = capture->options->touch;
  if (touch == TOUCH_NONE || (touch == TOUCH_UNSEEN && would_notice(thread, sample))) return true;
  return thread->state == 'D' || thread->state == 'Z' || thread->state == 'X';
}

static void forget_wait(thread_t *thread) {
  free(thread->wait.path);
  thread->wait = (wait_t){.number = -1, .fd = -1};
}

/* Whether the registers of THREAD are those of SAMPLE. */
static bool is_where(const thread_t *thread, const sample_t *sample, machine_t machine) {
  return thread->regs.pc == sample->pc && thread->regs.r[machine_sp(machine)] == sample->sp;
}

static void read_thread(capture_t *capture, thread_t *thread, const thread_files_t *files) {
  sample_t sample;
  bool whole = false; /* the walk is consistent */
  thread_sample(files, &sample);
  for (int i = 0; i < SAMPLE_ATTEMPTS && sample.activity == ACTIVITY_BLOCKED && !whole; i++) {
    forget_wait(thread);
    whole = read_blocked(capture, thread, files, &sample);
  }
  if (sample.activity == ACTIVITY_GONE) {
    thread->gone = true;
    return;
  }
  if (sample.activity == ACTIVITY_DENIED) capture->denied = true;
  if (whole && !capture->walk.wants_registers) {
    walk_give(&capture->walk, thread);
    return;
  }
  if (!whole) forget_wait(thread);
  const char *reason = NULL;
  if (must_not_stop(capture, thread, &sample) || !read_stopped(capture, thread, &reason))
    settle(capture, thread, sample.activity, whole, reason);
  else if (!is_where(thread, &sample, capture->target->machine))
    forget_wait(thread); /* it ran before it was stopped */
}

static void capture_thread(capture_t *capture, thread_t *thread) {
  const process_t *process = process_of(capture->target);
  thread_files_t files;
  if (!process_read_stat(process, thread)) {
    thread->gone = true;
    return;
  }
  if (thread->state == 'Z' || thread->state == 'X') {
    set_none(thread, "it has ended");
    return;
  }
  if (!thread_files_open(process, thread->tid, &files)) {
    thread->gone = true;
    return;
  }
  read_thread(capture, thread, &files);
  thread_files_close(&files);
}

void stacks_of_copy(target_t *target, const stack_copy_t *copy, uint32_t depth, thread_t *out) {
  process_memory_t *memory = &process_of(target)->memory;
  walk_t walk = {0};
  memory->start = copy->regs.r[machine_sp(target->machine)];
  memory->size = copy->size < WINDOW_BYTES ? copy->size : WINDOW_BYTES;
  memcpy(memory->window, copy->stack, memory->size);
  memory->sealed = true;
  walk_stack(target, &copy->regs, depth, &walk);
  memory->sealed = false;
  forget_window(target);
  walk_give(&walk, out);
  free(walk.frames);
}

/* ---- all of them -------------------------------------------------------------------------- */

static void drop_gone(target_t *target) {
  size_t kept = 0;
  for (size_t i = 0; i < target->thread_count; i++) {
    thread_t *thread = &target->threads[i];
    if (!thread->gone)
      target->threads[kept++] = *thread;
    else {
      free(thread->frames);
      free(thread->wait.path);
    }
  }
  target->thread_count = kept;
}

static bool is_asked_for(const stacks_options_t *options, pid_t tid) {
  if (options->tid && tid != options->tid) return false;
  return !options->wanted || options->wanted(options->context, tid);
}

static void capture_all(capture_t *capture) {
  target_t *target = capture->target;
  uint64_t start = os_monotonic_ns();
  for (size_t i = 0; i < target->thread_count; i++) {
    thread_t *thread = &target->threads[i];
    if (!is_asked_for(capture->options, thread->tid))
      thread->gone = true;
    else
      capture_thread(capture, thread);
  }
  target->elapsed_ns = os_monotonic_ns() - start;
  free(capture->walk.frames);
}

static void *run_capture(void *capture) {
  /* Between a stop and the end of it this thread must get a CPU, on a busy machine too. Refused to
   * most users, and then no harm. */
  setpriority(PRIO_PROCESS, (id_t)os_tid(), -19);
  capture_all(capture);
  return NULL;
}

/* False if the thread could not be started. */
static bool capture_in_thread(capture_t *capture) {
  sigset_t child, before;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  pthread_sigmask(SIG_BLOCK, &child, &before);
  pthread_t reader;
  bool started = pthread_create(&reader, NULL, run_capture, capture) == 0;
  if (started) pthread_join(reader, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return started;
}

static bool capture_process(capture_t *capture, problem_t *problem) {
  target_t *target = capture->target;
  pid_t pid = target->pid;
  if (!process_list_threads(target)) {
    process_unread(pid, problem);
    return false;
  }
  bool started = true;
  if (capture->options->touch == TOUCH_NONE)
    capture_all(capture);
  else
    started = capture_in_thread(capture);
  drop_gone(target);
  if (!started)
    problem_set(problem, "no thread could be started: out of memory, or ulimit -u");
  else if (target->thread_count == 0 && capture->options->tid)
    problem_set(problem, "process %d has no thread %d", pid, capture->options->tid);
  else if (target->thread_count == 0)
    process_unread(pid, problem);
  else
    return true;
  return false;
}

static void capture_core(capture_t *capture) {
  target_t *target = capture->target;
  uint64_t start = os_monotonic_ns();
  for (size_t i = 0; i < target->thread_count; i++) {
    wait_t wait = target->threads[i].wait;
    if (wait.number < 0)
      wait.number = registers_syscall_by_code(target->machine, &target->threads[i].regs,
                                              target->memory, wait.args);
    state_wait(target, &target->threads[i], wait.number, wait.args);
    walk_stack(target, &target->threads[i].regs, capture->options->depth, &capture->walk);
    read_interpreter(capture, &target->threads[i], &target->threads[i].regs);
    place_interpreter(capture, &target->threads[i]);
    walk_give(&capture->walk, &target->threads[i]);
  }
  target->elapsed_ns = os_monotonic_ns() - start;
  free(capture->walk.frames);
}

/* ---- deadlocks ---------------------------------------------------------------------------- */

/* Whether THREAD is still blocked in the wait that was read. FIRST: also stores how often it ran;
 * otherwise: and has not run since. */
static bool still_waits(target_t *target, thread_t *thread, bool first) {
  thread_files_t files;
  sample_t now;
  if (!thread_files_open(process_of(target), thread->tid, &files)) return false;
  thread_sample(&files, &now);
  thread_files_close(&files);
  if (first) thread->switches = now.switches;
  return now.activity == ACTIVITY_BLOCKED && now.switches_after == thread->switches &&
         now.number == thread->wait.number && now.args[0] == thread->wait.args[0];
}

/* The owners were read one after the other while threads ran. A cycle is confirmed if none of its
 * threads ran between two polls and every owner, read again in between, is unchanged: a thread that
 * waits unlocks nothing. A thread that waits for Python's GIL runs every 5 ms to ask for it. It
 * still waits if no other thread has taken the GIL since it was read. */
static void confirm_deadlocks(target_t *target) {
  for (int look = 0; look < 3; look++) {
    forget_window(target);
    for (size_t i = 0; i < target->thread_count; i++) {
      thread_t *thread = &target->threads[i];
      if (!thread->deadlock) continue;
      if (look == 1 ? state_owner_same(target, thread)
                    : thread->wait.is_gil || still_waits(target, thread, look == 0))
        continue;
      uint32_t cycle = thread->deadlock;
      for (size_t k = 0; k < target->thread_count; k++)
        if (target->threads[k].deadlock == cycle) target->threads[k].deadlock = 0;
    }
  }
}

bool stacks_capture(target_t *target, const stacks_options_t *options, problem_t *problem) {
  capture_t capture = {.target = target, .options = options};
  capture.interpreter = interpreter_of(target, options);
  if (target->live) {
    if (!capture_process(&capture, problem)) return false;
  } else {
    capture_core(&capture);
  }
  if (state_deadlocks(target->threads, target->thread_count) && target->live)
    confirm_deadlocks(target);
  return true;
}
