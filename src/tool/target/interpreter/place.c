/* SPDX-License-Identifier: MIT
 *
 * A native frame reaches from its stack pointer to that of its caller. The frame that contains an
 * anchor is the evaluator's, whatever its pc: the compiler may have moved a part of the evaluator
 * away from its symbol. An interpreter without anchors, such as CPython 3.9 or Ruby, has its
 * calls of the evaluator counted, outermost first.
 */
#include "target/interpreter/place.h"

#include <stdlib.h>
#include <string.h>

#include "target/interpreter/evaluator.h"

const char interpreter_damaged[] = "the interpreter was about to enter or leave a function";
static const char unplaced[] = "some of the interpreter's native frames are missing";

bool interpreter_frames_add(interpreter_frames_t *f, uint64_t pc) {
  uint64_t *added = ARRAY_ADD(f->pcs);
  if (added) *added = pc;
  return added != NULL;
}

bool interpreter_frames_end_call(interpreter_frames_t *f, uint64_t anchor) {
  interpreter_call_t *call = ARRAY_ADD(f->calls);
  if (!call) return false;
  *call = (interpreter_call_t){anchor, f->first, f->pcs.count - f->first};
  f->first = f->pcs.count;
  return true;
}

void interpreter_frames_end_state(interpreter_frames_t *f, const char *problem) {
  f->pcs.count = f->first;
  if (problem) f->problem = problem;
}

void interpreter_frames_clear(interpreter_frames_t *f) {
  f->pcs.count = f->calls.count = f->first = 0;
  f->problem = NULL;
}

void interpreter_frames_free(interpreter_frames_t *f) {
  free(f->pcs.items);
  free(f->calls.items);
}

/* ---- which native frame made a call --------------------------------------------------------- */

#define NO_FRAME UINT32_MAX

static bool is_evaluator(const interpreter_t *self, const frame_t *frame) {
  return evaluator_has(self, frame->pc - !frame->exact);
}

static uint32_t frame_with(const walk_t *walk, uint64_t anchor) {
  for (uint32_t i = 0; i + 1 < walk->count; i++)
    if (walk->frames[i].sp <= anchor && anchor < walk->frames[i + 1].sp) return i;
  return NO_FRAME;
}

/* Assigns the calls that an evaluator made to native frames by counting. False: the counts differ.
 * An evaluator that has not linked its frame, to begin or to raise an exception, is the innermost.
 */
static bool count_calls(const interpreter_t *self, const walk_t *walk, size_t calls,
                        size_t *call_of) {
  for (uint32_t i = walk->count; i-- > 0;)
    if (is_evaluator(self, &walk->frames[i]) && calls > 0) call_of[i] = calls--;
  return calls == 0;
}

static bool is_interpreter(const interpreter_t *self, const frame_t *frame) {
  return frame->pc >= self->module->start && frame->pc < self->module->end;
}

/* The outermost frame of the interpreter that no call has. */
static uint32_t outermost(const interpreter_t *self, const walk_t *walk, const size_t *call_of) {
  for (uint32_t i = walk->count; i-- > 0 && !call_of[i];)
    if (is_interpreter(self, &walk->frames[i])) return i;
  return NO_FRAME;
}

/* Fills CALL_OF, for each native frame the number + 1 of its call. */
static const char *assign(const interpreter_t *self, const walk_t *walk, size_t *call_of) {
  const interpreter_frames_t *f = &self->frames;
  const char *problem = f->problem;
  const interpreter_call_t *calls = f->calls.items;
  size_t count = f->calls.count;
  bool is_outside = count && calls[count - 1].anchor == INTERPRETER_OUTERMOST;
  if (count && !calls[0].anchor && !count_calls(self, walk, count - is_outside, call_of)) {
    memset(call_of, 0, walk->count * sizeof *call_of);
    return unplaced;
  }
  for (size_t i = 0; i < count; i++) {
    if (!calls[i].anchor) continue;
    uint32_t frame = calls[i].anchor == INTERPRETER_OUTERMOST ? outermost(self, walk, call_of)
                                                              : frame_with(walk, calls[i].anchor);
    if (frame == NO_FRAME)
      problem = unplaced;
    else
      call_of[frame] = i + 1;
  }
  return problem;
}

/* ---- the merged stack ----------------------------------------------------------------------- */

static uint32_t merge(const interpreter_t *self, const walk_t *walk, const size_t *call_of,
                      frame_t *out) {
  const interpreter_frames_t *f = &self->frames;
  uint32_t count = 0;
  bool is_inside = false;
  for (uint32_t i = 0; i < walk->count; i++) {
    frame_t native = walk->frames[i];
    const interpreter_call_t *call = call_of[i] ? &f->calls.items[call_of[i] - 1] : NULL;
    for (size_t k = 0; call && k < call->count; k++)
      out[count++] = (frame_t){.pc = f->pcs.items[call->first + k], .sp = native.sp};
    is_inside |= call && call->count > 0;
    native.folded = is_inside && is_interpreter(self, &native);
    out[count++] = native;
  }
  return count;
}

const char *interpreter_place(const interpreter_t *self, walk_t *walk) {
  const interpreter_frames_t *f = &self->frames;
  if (!walk->count || (!f->calls.count && !f->problem)) return NULL;
  size_t *call_of = calloc(walk->count, sizeof *call_of);
  size_t capacity = walk->count + f->pcs.count;
  frame_t *merged = malloc(capacity * sizeof *merged);
  const char *problem = unplaced;
  if (call_of && merged && capacity <= UINT32_MAX) {
    problem = assign(self, walk, call_of);
    walk->count = merge(self, walk, call_of, merged);
    walk->capacity = (uint32_t)capacity;
    free(walk->frames);
    walk->frames = merged;
    merged = NULL;
  }
  free(call_of);
  free(merged);
  return problem;
}
