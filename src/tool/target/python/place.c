/* SPDX-License-Identifier: MIT
 *
 * A native frame reaches from its stack pointer to that of its caller. The frame that contains a
 * anchor is the evaluator's, whatever its pc: the compiler may have moved a part of the evaluator
 * away from its symbol. CPython 3.8 and 3.9 have no anchors; there the calls of the evaluator are
 * counted, outermost first.
 */
#include "target/python/place.h"

#include <stdlib.h>
#include <string.h>

static const char damaged[] = "the interpreter was about to enter or leave a function";
static const char unplaced[] = "some of the interpreter's native frames are missing";

bool python_frames_add(python_frames_t *f, uint64_t pc) {
  uint64_t *added = ARRAY_ADD(f->pcs);
  if (added) *added = pc;
  return added != NULL;
}

bool python_frames_end_call(python_frames_t *f, uint64_t anchor) {
  python_call_t *call = ARRAY_ADD(f->calls);
  if (!call) return false;
  *call = (python_call_t){anchor, f->first, f->pcs.count - f->first};
  f->first = f->pcs.count;
  return true;
}

void python_frames_end_state(python_frames_t *f, bool is_damaged) {
  f->pcs.count = f->first;
  f->damaged |= is_damaged;
}

void python_frames_clear(python_frames_t *f) {
  f->pcs.count = f->calls.count = f->first = 0;
  f->damaged = false;
}

void python_frames_free(python_frames_t *f) {
  free(f->pcs.items);
  free(f->calls.items);
}

/* ---- which native frame made a call --------------------------------------------------------- */

#define NO_FRAME UINT32_MAX

static bool is_evaluator(const python_runtime_t *runtime, const frame_t *frame) {
  return frame->pc - !frame->exact - runtime->evaluator < runtime->evaluator_bytes;
}

static uint32_t frame_with(const walk_t *walk, uint64_t anchor) {
  for (uint32_t i = 0; i + 1 < walk->count; i++)
    if (walk->frames[i].sp <= anchor && anchor < walk->frames[i + 1].sp) return i;
  return NO_FRAME;
}

/* Assigns the calls of FRAMES to native frames by counting. False: the counts differ. An evaluator
 * that has not linked its frame, to begin or to raise RecursionError, is the innermost. */
static bool count_calls(const python_frames_t *f, const python_runtime_t *runtime,
                        const walk_t *walk, size_t *call_of) {
  size_t call = f->calls.count;
  for (uint32_t i = walk->count; i-- > 0;)
    if (is_evaluator(runtime, &walk->frames[i]) && call > 0) call_of[i] = call--;
  return call == 0;
}

/* Fills CALL_OF, for each native frame the number + 1 of its call. */
static const char *assign(const python_frames_t *f, const python_runtime_t *runtime,
                          const walk_t *walk, size_t *call_of) {
  const char *problem = f->damaged ? damaged : NULL;
  bool has_anchors = f->calls.count && f->calls.items[0].anchor;
  if (!has_anchors) {
    if (count_calls(f, runtime, walk, call_of)) return problem;
    memset(call_of, 0, walk->count * sizeof *call_of);
    return unplaced;
  }
  for (size_t i = 0; i < f->calls.count; i++) {
    uint32_t frame = frame_with(walk, f->calls.items[i].anchor);
    if (frame == NO_FRAME)
      problem = unplaced;
    else
      call_of[frame] = i + 1;
  }
  return problem;
}

/* ---- the merged stack ----------------------------------------------------------------------- */

static uint32_t merge(const python_frames_t *f, const module_t *module, const walk_t *walk,
                      const size_t *call_of, frame_t *out) {
  uint32_t count = 0;
  bool is_inside = false;
  for (uint32_t i = 0; i < walk->count; i++) {
    frame_t native = walk->frames[i];
    const python_call_t *call = call_of[i] ? &f->calls.items[call_of[i] - 1] : NULL;
    for (size_t k = 0; call && k < call->count; k++)
      out[count++] = (frame_t){.pc = f->pcs.items[call->first + k], .sp = native.sp};
    is_inside |= call && call->count > 0;
    native.folded = is_inside && native.pc >= module->start && native.pc < module->end;
    out[count++] = native;
  }
  return count;
}

const char *python_frames_place(const python_frames_t *f, const python_runtime_t *runtime,
                                const module_t *module, walk_t *walk) {
  if (!walk->count || (!f->calls.count && !f->damaged)) return NULL;
  size_t *call_of = calloc(walk->count, sizeof *call_of);
  size_t capacity = walk->count + f->pcs.count;
  frame_t *merged = malloc(capacity * sizeof *merged);
  const char *problem = unplaced;
  if (call_of && merged && capacity <= UINT32_MAX) {
    problem = assign(f, runtime, walk, call_of);
    walk->count = merge(f, module, walk, call_of, merged);
    walk->capacity = (uint32_t)capacity;
    free(walk->frames);
    walk->frames = merged;
    merged = NULL;
  }
  free(call_of);
  free(merged);
  return problem;
}
