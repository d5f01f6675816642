/* SPDX-License-Identifier: MIT
 *
 * Reconstructs the frames that tail calls removed from a stack (symbol/dwarf/tail_calls.h).
 *
 * Machine code decides first (unwind/infer/infer.h): it needs no debug information and shows jumps
 * between modules. If it cannot decide, debug information does, provided that the call before the
 * return address is direct, is in the same module, and calls another function than the running one.
 * Results are cached by pair of pcs: thousands of threads share a few hundred pairs.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/language.h"
#include "report/stacks/stacks.h"
#include "report/stacks/tail_frames.h"
#include "symbol/dwarf/tail_calls.h"
#include "unwind/infer/infer.h"

/* Entries of the direct-mapped cache. */
#define CACHE_ENTRIES 1024

typedef struct cached_pair {
  uint64_t inner, outer; /* pcs; outer 0: an empty entry */
  int count;
  uint64_t pcs[TAIL_CALLS_MAX]; /* run-time addresses */
} cached_pair_t;

typedef struct opened {
  tail_calls_t *tail_calls;
  bool tried;
} opened_t;

struct tail_frames {
  stack_symbolizer_t *symbolizer;
  target_t *target;
  opened_t *opened; /* by index in the target's modules */
  cached_pair_t *cache;
  frame_t *frames; /* the stack last expanded */
  size_t capacity;
};

tail_frames_t *tail_frames_new(target_t *target, stack_symbolizer_t *symbolizer) {
  tail_frames_t *t = calloc(1, sizeof *t);
  if (!t) return NULL;
  t->symbolizer = symbolizer;
  t->target = target;
  t->opened = calloc(target->modules.count + 1, sizeof *t->opened);
  t->cache = calloc(CACHE_ENTRIES, sizeof *t->cache);
  if (t->opened && t->cache) return t;
  tail_frames_free(t);
  return NULL;
}

void tail_frames_free(tail_frames_t *t) {
  if (!t) return;
  for (size_t i = 0; t->opened && i < t->target->modules.count; i++)
    tail_calls_close(t->opened[i].tail_calls);
  free(t->opened);
  free(t->cache);
  free(t->frames);
  free(t);
}

/* Where the call before RETURN_ADDRESS goes, when it is a direct one: call rel32; bl imm26. */
static bool direct_call(target_t *target, uint64_t return_address, uint64_t *to) {
  uint8_t code[5];
  int32_t distance;
  uint32_t word;
  if (target->machine == MACHINE_X86_64) {
    if (!target->memory->read(target->memory, return_address - 5, code, 5) || code[0] != 0xe8)
      return false;
    memcpy(&distance, code + 1, 4);
    *to = return_address + (uint64_t)(int64_t)distance;
    return true;
  }
  if (!target->memory->read(target->memory, return_address - 4, &word, 4) || word >> 26 != 0x25)
    return false;
  distance = (int32_t)(word << 6) >> 4;
  *to = return_address - 4 + (uint64_t)(int64_t)distance;
  return true;
}

/* Where the function of NAMED starts, as linked. */
static bool entry_of(const symbolized_pc_t *named, uint64_t *entry) {
  if (named->count == 0 || !named->functions[named->count - 1].has_offset) return false;
  *entry = named->offset - named->functions[named->count - 1].function_offset;
  return true;
}

static tail_calls_t *tail_calls_of(tail_frames_t *t, const module_t *module) {
  opened_t *opened = &t->opened[module - t->target->modules.items];
  if (!opened->tried) {
    const char *path = stack_symbolizer_debug_path(t->symbolizer, module);
    opened->tail_calls = path ? tail_calls_open(path) : NULL;
    opened->tried = true;
  }
  return opened->tail_calls;
}

/* The rest of a function that was split off as cold code is jumped to as well, and is no callee:
 * DWARF gives both the same name. */
static bool is_callee(tail_frames_t *t, const frame_t *inner, uint64_t pc) {
  const symbolized_pc_t *callee = stack_symbolizer_lookup(t->symbolizer, inner);
  const symbolized_pc_t *jumper =
      stack_symbolizer_lookup(t->symbolizer, &(frame_t){.pc = pc, .tail_call = true});
  if (!callee || !jumper || callee->count == 0 || jumper->count == 0) return true;
  const char *a = callee->functions[callee->count - 1].function;
  const char *b = jumper->functions[jumper->count - 1].function;
  return !a || !b || strcmp(a, b) != 0;
}

static int from_code(tail_frames_t *t, const frame_t *inner, const frame_t *outer, uint64_t *pcs) {
  insn_code_t code = {t->target->machine, t->target->memory, &t->target->images};
  insn_range_t function;
  if (!insn_function(&code, inner->exact ? inner->pc : inner->pc - 1, &function)) return -1;
  int count = infer_tail_calls(&code, outer->pc, function, pcs);
  return count > 0 && !is_callee(t, inner, pcs[0]) ? 0 : count;
}

static int from_debug_information(tail_frames_t *t, const frame_t *inner, const frame_t *outer,
                                  uint64_t *pcs) {
  const symbolized_pc_t *callee = stack_symbolizer_lookup(t->symbolizer, inner),
                        *caller = stack_symbolizer_lookup(t->symbolizer, outer);
  uint64_t entry, called;
  if (!callee || !caller || !callee->module || callee->module != caller->module ||
      !entry_of(callee, &entry) || !direct_call(t->target, outer->pc, &called) ||
      called == entry + callee->module->image.slide)
    return 0;
  tail_calls_t *tail_calls = tail_calls_of(t, callee->module);
  int count = tail_calls ? tail_calls_between(tail_calls, caller->offset, entry, pcs) : 0;
  for (int i = 0; i < count; i++)
    pcs[i] += callee->module->image.slide;
  return count;
}

_Static_assert(INFER_TAIL_CALLS_MAX <= TAIL_CALLS_MAX, "an entry has space for both");

/* The frames between INNER and OUTER, to which INNER returns; NULL: none. */
static const cached_pair_t *between(tail_frames_t *t, const frame_t *inner, const frame_t *outer) {
  if (outer->exact || outer->guessed || outer->pc == 0) return NULL;
  uint64_t hash = (outer->pc * 31 + inner->pc) * 0x9e3779b97f4a7c15u;
  cached_pair_t *entry = &t->cache[hash >> 54];
  if (entry->outer == outer->pc && entry->inner == inner->pc) return entry;
  *entry = (cached_pair_t){.inner = inner->pc, .outer = outer->pc};
  entry->count = from_code(t, inner, outer, entry->pcs);
  if (entry->count < 0) entry->count = from_debug_information(t, inner, outer, entry->pcs);
  return entry;
}

static bool push(tail_frames_t *t, uint32_t *count, frame_t frame) {
  if (!ARRAY_GROW(t->frames, *count, t->capacity)) return false;
  t->frames[(*count)++] = frame;
  return true;
}

static bool are_native(const frame_t *inner, const frame_t *outer) {
  return !language_of_pc(inner->pc) && !language_of_pc(outer->pc);
}

static bool expand(tail_frames_t *t, const thread_t *thread, uint32_t *count) {
  for (uint32_t i = 0; i < thread->frame_count; i++) {
    const frame_t *frame = &thread->frames[i];
    const cached_pair_t *entry =
        i && are_native(frame - 1, frame) ? between(t, frame - 1, frame) : NULL;
    for (int k = 0; entry && k < entry->count; k++)
      if (!push(t, count,
                (frame_t){.pc = entry->pcs[k], .tail_call = true, .folded = frame->folded}))
        return false;
    if (!push(t, count, *frame)) return false;
  }
  return true;
}

const frame_t *tail_frames_expand(tail_frames_t *t, const thread_t *thread, uint32_t *count) {
  *count = 0;
  if (expand(t, thread, count)) return t->frames;
  *count = thread->frame_count;
  return thread->frames;
}
