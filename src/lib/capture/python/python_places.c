/* SPDX-License-Identifier: MIT */
#include "capture/python/python_places.h"

#include <string.h>

#include "capture/capture.h"
#include "capture/frame_table.h"

/* Calls of the evaluator further out than this many native frames are not found. */
#define FRAMES_MAX 4096u

HIDDEN uint32_t python_places[PLACES_MAX];

void python_place_note(uint32_t native, uint32_t place) {
  if (native < PLACES_MAX) store_relaxed(&python_places[native], place);
}

void python_places_forget(void) { memset(python_places, 0, sizeof python_places); }

bool python_place_has_call(uint32_t native) {
  uint32_t shape = python_shape(native);
  return shape && !(shape & SHAPE_HAS_SIGNAL) && shape_calls(shape);
}

bool python_place_has_none(uint32_t native) {
  uint32_t shape = python_shape(native);
  return shape && !(shape & SHAPE_HAS_SIGNAL) && !shape_calls(shape);
}

/* Sets [*LO, *HI) to the memory of the innermost call's native frame. False: it was not found. */
static READS_STACK bool find_call(stack_window_t *w, position_t *p, uint64_t *lo, uint64_t *hi) {
  uint64_t epoch = walk_epoch();
  for (uint32_t i = 0; i < FRAMES_MAX; i++) {
    frame_ref_t frame = frame_table_find(p->pc, p->exact, epoch);
    *lo = p->sp;
    walk_step_t step = walk_by_rule(w, frame.rule, p);
    if (step == WALK_SLOW) step = walk_slow_step(w, p);
    if (step != WALK_CALLER) return false;
    *hi = p->sp;
    if (python_shape_is_call(frame.id)) return true;
  }
  return false;
}

bool python_place_learn(capture_thread_t *self, uint32_t native, uint64_t pc, uint64_t sp,
                        uint64_t fp, uint64_t anchor) {
  position_t p;
  uint64_t lo, hi;
  if (!python_place_has_call(native) || !stack_window_holds(&self->window, sp)) return false;
  position_after_return(&p, pc, sp, fp);
  if (!find_call(&self->window, &p, &lo, &hi) || anchor < lo || anchor >= hi) return false;
  python_place_note(native, (uint32_t)(anchor - sp));
  return true;
}
