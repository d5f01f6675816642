/* SPDX-License-Identifier: MIT
 *
 * A native frame reaches from its stack pointer to that of its caller. The frame that contains an
 * anchor is the evaluator's, whatever its pc: the compiler may have moved a part of the evaluator
 * away from its symbol. An interpreter without anchors, such as CPython 3.9 or Ruby, has its
 * calls of the evaluator counted, outermost first.
 *
 * Coroutines of Lua have limits instead: the calls of a coroutine are inside of its limit, and
 * those of who resumed it are outside. One that continues after it had yielded has lost its native
 * frames. Its outermost native call runs what was left of all of them.
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

static bool end_call(interpreter_frames_t *f, uint64_t anchor, uint64_t limit) {
  interpreter_call_t *call = ARRAY_ADD(f->calls);
  if (!call) return false;
  *call = (interpreter_call_t){anchor, limit, f->first, f->pcs.count - f->first};
  f->first = f->pcs.count;
  return true;
}

bool interpreter_frames_end_call(interpreter_frames_t *f, uint64_t anchor) {
  return end_call(f, anchor, 0);
}

bool interpreter_frames_end_limited(interpreter_frames_t *f, uint64_t limit) {
  return end_call(f, 0, limit);
}

void interpreter_frames_end_state(interpreter_frames_t *f, const char *problem) {
  f->pcs.count = f->first;
  if (problem) f->problem = problem;
}

void interpreter_frames_clear(interpreter_frames_t *f) {
  f->pcs.count = f->calls.count = f->continued.count = f->first = 0;
  f->problem = NULL;
}

void interpreter_frames_free(interpreter_frames_t *f) {
  free(f->pcs.items);
  free(f->calls.items);
  free(f->continued.items);
}

/* ---- which native frame made a call --------------------------------------------------------- */

#define NO_FRAME UINT32_MAX

static bool is_evaluator(const interpreter_t *self, const frame_t *frame) {
  return evaluator_has(self, frame->pc - !frame->exact);
}

static bool is_interpreter(const interpreter_t *self, const frame_t *frame) {
  return frame->pc >= self->module->start && frame->pc < self->module->end;
}

static uint32_t frame_with(const walk_t *walk, uint64_t anchor) {
  for (uint32_t i = 0; i + 1 < walk->count; i++)
    if (walk->frames[i].sp <= anchor && anchor < walk->frames[i + 1].sp) return i;
  return NO_FRAME;
}

/* The calls that a native frame runs: COUNT of them from FIRST, innermost first. */
typedef struct assigned {
  size_t first, count;
} assigned_t;

/* The calls [FIRST, LAST), whose native frames are those of the evaluator from INNER up to, but not
 * including, LIMIT; 0: all outer ones. */
typedef struct group {
  size_t first, last;
  uint64_t inner, limit;
} group_t;

static bool is_of_group(const interpreter_t *self, const frame_t *frame, const group_t *g) {
  return is_evaluator(self, frame) && frame->sp >= g->inner && (!g->limit || frame->sp < g->limit);
}

/* Assigns calls to native frames by counting. False: the counts differ. An evaluator that has not
 * linked its frame, to begin or to raise an exception, is the innermost. */
static bool count_group(const interpreter_t *self, const walk_t *walk, const group_t *g,
                        assigned_t *assigned) {
  size_t left = g->last - g->first, frames = 0;
  for (uint32_t i = 0; i < walk->count; i++)
    frames += is_of_group(self, &walk->frames[i], g);
  if (!g->limit && frames < left) return false;
  for (uint32_t i = walk->count; i-- > 0 && left;) {
    if (!is_of_group(self, &walk->frames[i], g)) continue;
    size_t count = left > frames ? left - frames + 1 : 1;
    left -= count;
    frames--;
    assigned[i] = (assigned_t){g->first + left, count};
  }
  uint32_t outer = left ? frame_with(walk, g->limit) : NO_FRAME;
  if (outer != NO_FRAME) assigned[outer] = (assigned_t){g->first, left};
  return !left || outer != NO_FRAME;
}

static bool count_calls(const interpreter_t *self, const walk_t *walk, size_t calls,
                        assigned_t *assigned) {
  const interpreter_call_t *all = self->frames.calls.items;
  for (size_t last = calls, first; last > 0; last = first) {
    for (first = last - 1; first > 0 && all[first - 1].limit == all[last - 1].limit;)
      first--;
    group_t group = {first, last, first ? all[first - 1].limit : 0, all[last - 1].limit};
    if (!count_group(self, walk, &group, assigned)) return false;
  }
  return true;
}

/* The outermost frame of the interpreter that no call has. */
static uint32_t outermost(const interpreter_t *self, const walk_t *walk,
                          const assigned_t *assigned) {
  for (uint32_t i = walk->count; i-- > 0 && !assigned[i].count;)
    if (is_interpreter(self, &walk->frames[i])) return i;
  return NO_FRAME;
}

/* Whether native frame I contains ANCHOR. */
static bool contains(const walk_t *walk, uint32_t i, uint64_t anchor) {
  return i + 1 < walk->count && walk->frames[i].sp <= anchor && anchor < walk->frames[i + 1].sp;
}

/* Whether FRAME is in the function that leaves several frames at once. */
static bool leaves(const interpreter_t *self, const frame_t *frame) {
  return frame->pc - self->unwinder < self->unwinder_bytes;
}

/* Whether native frame I, of the evaluator, continues a call: its caller has such an anchor. */
static bool continues(const interpreter_t *self, const walk_t *walk, uint32_t i) {
  const interpreter_frames_t *f = &self->frames;
  do
    i++;
  while (i < walk->count && walk->frames[i].tail_call);
  for (size_t k = 0; k < f->continued.count; k++)
    if (f->continued.items[k] && contains(walk, i, f->continued.items[k])) return true;
  return false;
}

/* Fills ASSIGNED for a kind that counts exactly. */
static const char *assign_exactly(const interpreter_t *self, const walk_t *walk,
                                  assigned_t *assigned) {
  const interpreter_frames_t *f = &self->frames;
  const interpreter_call_t *first = f->calls.items, *call = first, *end = first + f->calls.count;
  /* the next frame of the evaluator runs the same call as the one before */
  bool is_continued = false;
  if (f->problem == interpreter_damaged) return f->problem;
  for (uint32_t i = 0; i < walk->count; i++) {
    const frame_t *frame = &walk->frames[i];
    bool runs = is_evaluator(self, frame), is_same = is_continued;
    if (is_same && !is_interpreter(self, frame)) return unplaced;
    if (runs) is_continued = continues(self, walk, i);
    if (call == first && !runs && leaves(self, frame)) return interpreter_damaged;
    if (runs ? is_same : call == end || !call->anchor || !contains(walk, i, call->anchor)) continue;
    if (call == end && f->problem) continue;
    if (call == end || (runs && (call->anchor || frame->sp >= call->limit))) return unplaced;
    assigned[i] = (assigned_t){(size_t)(call++ - first), 1};
  }
  return call == end || walk->ending != ENDING_COMPLETE ? f->problem : unplaced;
}

/* Fills ASSIGNED, for each native frame its calls. */
static const char *assign(const interpreter_t *self, const walk_t *walk, assigned_t *assigned) {
  const interpreter_frames_t *f = &self->frames;
  const char *problem = f->problem;
  const interpreter_call_t *calls = f->calls.items;
  size_t count = f->calls.count;
  if (self->kind->counts_exactly) {
    problem = assign_exactly(self, walk, assigned);
    if (problem == unplaced || problem == interpreter_damaged)
      memset(assigned, 0, walk->count * sizeof *assigned);
    return problem;
  }
  bool is_outside = count && calls[count - 1].anchor == INTERPRETER_OUTERMOST;
  if (count && !calls[0].anchor && !count_calls(self, walk, count - is_outside, assigned)) {
    memset(assigned, 0, walk->count * sizeof *assigned);
    return unplaced;
  }
  for (size_t i = 0; i < count; i++) {
    if (!calls[i].anchor) continue;
    uint32_t frame = calls[i].anchor == INTERPRETER_OUTERMOST ? outermost(self, walk, assigned)
                                                              : frame_with(walk, calls[i].anchor);
    if (frame == NO_FRAME)
      problem = unplaced;
    else
      assigned[frame] = (assigned_t){i, 1};
  }
  return problem;
}

/* ---- the merged stack ----------------------------------------------------------------------- */

static uint32_t merge(const interpreter_t *self, const walk_t *walk, const assigned_t *assigned,
                      frame_t *out) {
  const interpreter_frames_t *f = &self->frames;
  uint32_t count = 0;
  bool is_inside = false;
  for (uint32_t i = 0; i < walk->count; i++) {
    frame_t native = walk->frames[i];
    for (size_t n = 0; n < assigned[i].count; n++) {
      const interpreter_call_t *call = &f->calls.items[assigned[i].first + n];
      for (size_t k = 0; k < call->count; k++)
        out[count++] = (frame_t){.pc = f->pcs.items[call->first + k], .sp = native.sp};
      is_inside |= call->count > 0;
    }
    native.folded = is_inside && is_interpreter(self, &native);
    out[count++] = native;
  }
  return count;
}

const char *interpreter_place(const interpreter_t *self, walk_t *walk) {
  const interpreter_frames_t *f = &self->frames;
  if (!walk->count || (!f->calls.count && !f->problem && !self->kind->counts_exactly)) return NULL;
  assigned_t *assigned = calloc(walk->count, sizeof *assigned);
  size_t capacity = walk->count + f->pcs.count;
  frame_t *merged = malloc(capacity * sizeof *merged);
  const char *problem = unplaced;
  if (assigned && merged && capacity <= UINT32_MAX) {
    problem = assign(self, walk, assigned);
    walk->count = merge(self, walk, assigned, merged);
    walk->capacity = (uint32_t)capacity;
    free(walk->frames);
    walk->frames = merged;
    merged = NULL;
  }
  free(assigned);
  free(merged);
  return problem;
}
