/* SPDX-License-Identifier: MIT
 *
 * A thread without a word on its stacks that refers to the object is not inside. Such a word need
 * not be a return address that is still used: a large array keeps old ones. So the stack is walked
 * then. If its rules lead from the innermost frame to the end, its frames decide. Else, as in code
 * that a program has generated, the word counts. This misses a return address that lies more than 8
 * MB above the stack pointer, and one on the stack of a coroutine that does not run. A coroutine
 * has such an address only if it switched in a function that the program gave to dl_iterate_phdr,
 * or that dlclose calls. Copies of function pointers in other memory are not searched for: slots
 * hold addresses of gates instead (agent/attached/gates.h).
 */
#define _GNU_SOURCE
#include "attach/scan.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "attach/stack.h"
#include "base/array.h"
#include "os/os.h"
#include "target/stop/stop.h"
#include "target/walk.h"

#define AGAIN_US   1000u
#define FRAMES_MAX 4096u

typedef struct scan {
  attach_t *attach;
  target_t *target; /* opened for this scan */
  uint64_t start, end;
  ARRAY(pid_t) clean;
  /* of one stop */
  bool is_inside, has_words;
  regs_t regs;
} scan_t;

static bool is_in(const scan_t *s, uint64_t value) { return value - s->start < s->end - s->start; }

static bool is_free(void *context, const uint64_t *words, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (is_in(context, words[i])) return false;
  return true;
}

/* True if a stack of the thread at SP refers to the object, or cannot be read. The red zone below
 * SP is of a function that calls nothing, so it has no return address; what is there may be left
 * over from the agent. */
static bool stacks_refer(scan_t *s, uint64_t sp) {
  const stack_source_t source = {s->attach->memory_fd, &s->target->maps};
  return !stack_search(&source, sp, 0, is_free, s);
}

/* True if the frames from REGS are known to the outermost one, and none is in the object. Frames
 * are read from the copy of the stack that was loaded before. */
static bool has_left(const scan_t *s, const regs_t *regs) {
  process_memory_t *memory = &process_of(s->target)->memory;
  walk_t walk = {0};
  memory->sealed = true;
  memory->missed = false;
  walk_stack(s->target, regs, FRAMES_MAX, &walk);
  memory->sealed = false;
  bool left = walk.ending == ENDING_COMPLETE && !memory->missed;
  for (uint32_t i = 0; left && i < walk.count; i++)
    left = !walk.frames[i].guessed && !is_in(s, walk.frames[i].pc);
  free(walk.frames);
  return left;
}

static void look(void *context, const regs_t *regs) {
  scan_t *s = context;
  s->is_inside = is_in(s, regs->pc);
  for (int i = 0; i < REGS_COUNT; i++)
    s->is_inside |= regs_has(regs, i) && is_in(s, regs->r[i]);
  s->has_words = !s->is_inside && stacks_refer(s, regs->r[machine_sp(MACHINE_HERE)]);
  if (s->has_words)
    process_window_load(&process_of(s->target)->memory, regs->r[machine_sp(MACHINE_HERE)]);
  s->regs = *regs;
}

/* Whether the thread of SAMPLE, which waits, has no way back; its registers are on its stack or in
 * the program's own frames, but for the pc. */
static bool is_clean_in_place(scan_t *s, const thread_files_t *files, const sample_t *first) {
  sample_t again;
  regs_t regs = {.pc = first->pc};
  regs_set(&regs, machine_sp(MACHINE_HERE), first->sp);
  if (is_in(s, first->pc)) return false;
  if (stacks_refer(s, first->sp)) {
    process_window_load(&process_of(s->target)->memory, first->sp);
    if (!has_left(s, &regs)) return false;
  }
  thread_sample(files, &again);
  return sample_same(first, &again);
}

static bool is_clean_stopped(scan_t *s, pid_t tid) {
  regs_t regs;
  uint64_t ns;
  s->is_inside = true;
  s->has_words = false;
  stop_result_t result = stop_thread(MACHINE_HERE, tid, &regs, look, s, &ns);
  if (result != STOP_DONE) return result == STOP_GONE;
  return !s->is_inside && (!s->has_words || has_left(s, &s->regs));
}

/* The main thread remains as a zombie if it ends before the others. */
static bool has_ended(const scan_t *s, pid_t tid) {
  thread_t thread = {.tid = tid};
  return !process_read_stat(process_of(s->target), &thread) || thread.state == 'Z' ||
         thread.state == 'X';
}

static bool is_clean(scan_t *s, pid_t tid) {
  thread_files_t files;
  sample_t sample;
  if (!thread_files_open(process_of(s->target), tid, &files)) return true; /* it has ended */
  thread_sample(&files, &sample);
  bool clean = sample.activity == ACTIVITY_GONE;
  if (sample.activity == ACTIVITY_BLOCKED) clean = is_clean_in_place(s, &files, &sample);
  thread_files_close(&files);
  if (sample.activity == ACTIVITY_RUNNING) clean = is_clean_stopped(s, tid);
  return clean || has_ended(s, tid);
}

static bool was_clean(const scan_t *s, pid_t tid) {
  for (size_t i = 0; i < s->clean.count; i++)
    if (s->clean.items[i] == tid) return true;
  return false;
}

/* Sets *INSIDE to a thread that is not clean, or to 0. False with PROBLEM if the program cannot be
 * read. */
static bool scan_once(scan_t *s, pid_t *inside, problem_t *problem) {
  *inside = 0;
  target_close(s->target);
  s->target = target_open_process(s->attach->pid, problem);
  if (s->target && !process_list_threads(s->target)) access_explain(s->attach->pid, ESRCH, problem);
  if (!s->target || !s->target->thread_count) return false;
  for (size_t i = 0; i < s->target->thread_count; i++) {
    pid_t tid = s->target->threads[i].tid;
    if (was_clean(s, tid)) continue;
    pid_t *clean = is_clean(s, tid) ? ARRAY_ADD(s->clean) : NULL;
    if (clean)
      *clean = tid;
    else
      *inside = tid;
  }
  return true;
}

bool scan_wait(attach_t *attach, unsigned wait_ms, pid_t *inside, problem_t *problem) {
  scan_t s = {.attach = attach,
              .start = attach->shared->base,
              .end = attach->shared->base + attach->object.size};
  uint64_t end = os_monotonic_ns() + wait_ms * UINT64_C(1000000);
  bool good;
  while ((good = scan_once(&s, inside, problem)) && *inside && os_monotonic_ns() < end)
    usleep(AGAIN_US);
  target_close(s.target);
  free(s.clean.items);
  return good;
}
