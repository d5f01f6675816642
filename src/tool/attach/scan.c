/* SPDX-License-Identifier: MIT
 *
 * A word on a stack need not be a return address that is still used, so this may find a thread that
 * is not inside, but never misses one. Copies of function pointers elsewhere in memory, and stacks
 * of coroutines that do not run, are not seen: the agent leaves no such pointers.
 */
#define _GNU_SOURCE
#include "attach/scan.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "os/os.h"
#include "target/stop.h"

#define STACK_BYTES_MAX (UINT64_C(8) << 20) /* of one stack: the usual limit of a main thread */
#define CHUNK_BYTES     (64u << 10)
#define AGAIN_US        1000u
#define STACKS_MAX      32u /* of one thread, with those of interrupted handlers */
#define FRAME_WORDS     4u

typedef struct scan {
  attach_t *attach;
  target_t *target; /* opened for this scan */
  uint64_t start, end;
  ARRAY(pid_t) clean;
  bool is_inside; /* of one stop */
} scan_t;

static bool is_in(const scan_t *s, uint64_t value) { return value - s->start < s->end - s->start; }

/* A stack, or a part of one: from `sp` up. */
typedef struct stacks {
  uint64_t sp[STACKS_MAX];
  size_t count;
  bool too_many;
} stacks_t;

static void add_stack(stacks_t *stacks, uint64_t sp) {
  for (size_t i = 0; i < stacks->count; i++)
    if (stacks->sp[i] == sp) return;
  stacks->too_many |= stacks->count == STACKS_MAX;
  if (!stacks->too_many) stacks->sp[stacks->count++] = sp;
}

/* A signal handler may run on a stack of its own (sigaltstack(2)). The stack that it interrupted is
 * found in the signal frame, in WORDS before the one at I: x86_64 has rsp, rip and eflags before
 * the segment registers (asm/sigcontext.h), aarch64 has sp, pc, pstate and padding before the
 * record of NEON's registers. */
static void add_interrupted(stacks_t *stacks, const uint64_t *words, size_t i) {
  if (i < FRAME_WORDS) return;
#if defined(__x86_64__)
  const uint64_t mark = UINT64_C(0x002b000000000033), ignored = UINT64_C(0x0000ffffffff0000);
  if ((words[i] & ~ignored) == mark) add_stack(stacks, words[i - 3]);
#else
  const uint64_t mark = UINT64_C(0x0000021046508001);
  if (words[i] == mark) add_stack(stacks, words[i - 4]);
#endif
}

/* True if the stack from SP up refers to the object, or cannot be read. The red zone below SP is of
 * a function that calls nothing, so it has no return address; what is there may be left over from
 * the agent. */
static bool stack_refers(const scan_t *s, uint64_t sp, stacks_t *stacks) {
  static uint64_t
      words[FRAME_WORDS + CHUNK_BYTES / 8]; /* the last ones of the chunk before first */
  const mapping_t *mapping = maps_find(&s->target->maps, sp);
  if (!mapping) return true; /* of a new thread */
  uint64_t at = sp & ~(uint64_t)7, end = mapping->end;
  if (at < mapping->start) at = mapping->start;
  if (end - at > STACK_BYTES_MAX) end = at + STACK_BYTES_MAX;
  memset(words, 0, sizeof words);
  for (uint64_t size; at < end; at += size) {
    size = end - at < CHUNK_BYTES ? end - at : CHUNK_BYTES;
    if (!session_read(s->attach, at, words + FRAME_WORDS, size)) return true;
    for (size_t i = FRAME_WORDS; i < FRAME_WORDS + size / 8; i++) {
      if (is_in(s, words[i])) return true;
      add_interrupted(stacks, words, i);
    }
    memmove(words, words + size / 8, FRAME_WORDS * sizeof *words);
  }
  return false;
}

/* The same for the stack at SP and all that its signal frames lead to. */
static bool stacks_refer(const scan_t *s, uint64_t sp) {
  stacks_t stacks = {.count = 0};
  add_stack(&stacks, sp);
  for (size_t i = 0; i < stacks.count; i++)
    if (stack_refers(s, stacks.sp[i], &stacks)) return true;
  return stacks.too_many;
}

static void look(void *context, const regs_t *regs) {
  scan_t *s = context;
  s->is_inside = is_in(s, regs->pc) || stacks_refer(s, regs->r[machine_sp(MACHINE_HERE)]);
  for (int i = 0; i < REGS_COUNT; i++)
    s->is_inside |= regs_has(regs, i) && is_in(s, regs->r[i]);
}

/* Whether the thread of SAMPLE, which waits, has no way back; its registers are on its stack or in
 * the program's own frames, but for the pc. */
static bool is_clean_in_place(const scan_t *s, const thread_files_t *files, const sample_t *first) {
  sample_t again;
  if (is_in(s, first->pc) || stacks_refer(s, first->sp)) return false;
  thread_sample(files, &again);
  return sample_same(first, &again);
}

static bool is_clean_stopped(scan_t *s, pid_t tid) {
  regs_t regs;
  uint64_t ns;
  s->is_inside = true;
  stop_result_t result = stop_thread(MACHINE_HERE, tid, &regs, look, s, &ns);
  return result == STOP_GONE || (result == STOP_DONE && !s->is_inside);
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

/* A thread that is not clean; 0: all are; -1: the program has ended, or out of memory. */
static pid_t scan_once(scan_t *s) {
  problem_t problem;
  pid_t inside = 0;
  target_close(s->target);
  s->target = target_open_process(s->attach->pid, &problem);
  if (!s->target || !process_list_threads(s->target)) return -1;
  for (size_t i = 0; i < s->target->thread_count; i++) {
    pid_t tid = s->target->threads[i].tid;
    if (was_clean(s, tid)) continue;
    pid_t *clean = is_clean(s, tid) ? ARRAY_ADD(s->clean) : NULL;
    if (clean)
      *clean = tid;
    else
      inside = tid;
  }
  return inside;
}

pid_t scan_wait(attach_t *attach, unsigned wait_ms) {
  scan_t s = {.attach = attach,
              .start = attach->shared->base,
              .end = attach->shared->base + attach->object.size};
  uint64_t end = os_monotonic_ns() + wait_ms * UINT64_C(1000000);
  pid_t inside;
  while ((inside = scan_once(&s)) != 0 && os_monotonic_ns() < end)
    usleep(AGAIN_US);
  target_close(s.target);
  free(s.clean.items);
  return inside;
}
