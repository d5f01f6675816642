/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "attach/stack.h"

#include <string.h>
#include <unistd.h>

#include "arch/call_on.h"

#define BYTES_MAX   (UINT64_C(8) << 20) /* of one stack: the usual limit of a main thread */
#define CHUNK_WORDS (UINT64_C(8) << 10)
#define STACKS_MAX  32u /* of one thread, with those of interrupted handlers */
#define FRAME_WORDS 4u  /* of a signal frame, before the mark */

/* The stack pointers of a thread. */
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

/* A handler of sonde continues on a third stack (os_run_on_handler_stack). */
static void add_left(stacks_t *stacks, const uint64_t *word) {
  if (*word == CALL_ON_MARK) add_stack(stacks, word[-1]);
}

/* A signal handler may run on a stack of its own (sigaltstack(2)). The stack that it interrupted is
 * found in the signal frame, in words before the one at WORD: x86_64 has rsp, rip and eflags before
 * the segment registers (asm/sigcontext.h), aarch64 has sp, pc, pstate and padding before the
 * record of NEON's registers. */
static void add_interrupted(stacks_t *stacks, const uint64_t *word) {
#if defined(__x86_64__)
  const uint64_t mark = UINT64_C(0x002b000000000033), ignored = UINT64_C(0x0000ffffffff0000);
  if ((*word & ~ignored) == mark) add_stack(stacks, word[-3]);
#else
  const uint64_t mark = UINT64_C(0x0000021046508001);
  if (*word == mark) add_stack(stacks, word[-4]);
#endif
}

/* Reads words from AT, at most to END. Returns their number. */
static size_t read_words(int memory_fd, uint64_t *out, uint64_t at, uint64_t end) {
  size_t wanted = (end - at) / 8 < CHUNK_WORDS ? (end - at) / 8 : CHUNK_WORDS;
  ssize_t n = pread(memory_fd, out, wanted * 8, (off_t)at);
  return n < 0 ? 0 : (size_t)n / 8;
}

/* One stack. Adds those that it leads to. */
static bool search(const stack_source_t *source, uint64_t sp, uint64_t below, stacks_t *stacks,
                   stack_part_t *part, void *context) {
  static uint64_t words[FRAME_WORDS + CHUNK_WORDS]; /* the last ones of the part before first */
  uint64_t *const own = words + FRAME_WORDS;
  const mapping_t *mapping = maps_find(source->maps, sp);
  const uint64_t top = sp & ~(uint64_t)7;
  uint64_t at = top - below;
  if (mapping && at < mapping->start) at = mapping->start;
  const uint64_t end = mapping && mapping->end - at < BYTES_MAX ? mapping->end : at + BYTES_MAX;
  size_t count = read_words(source->memory_fd, own, at, end);
  if (!count && !mapping) count = read_words(source->memory_fd, own, at = top, end);
  if (!count) return false;
  memset(words, 0, FRAME_WORDS * sizeof *words);
  while (count) {
    if (!part(context, own, count)) return false;
    for (size_t i = 0; i < count; i++) {
      add_interrupted(stacks, &own[i]);
      add_left(stacks, &own[i]);
    }
    at += count * 8;
    memmove(words, words + count, FRAME_WORDS * sizeof *words);
    count = at < end ? read_words(source->memory_fd, own, at, end) : 0;
  }
  return at >= end || !mapping;
}

bool stack_search(const stack_source_t *source, uint64_t sp, uint64_t below, stack_part_t *part,
                  void *context) {
  stacks_t stacks = {.count = 0};
  add_stack(&stacks, sp);
  for (size_t i = 0; i < stacks.count; i++)
    if (!search(source, stacks.sp[i], below, &stacks, part, context)) return false;
  return !stacks.too_many;
}
