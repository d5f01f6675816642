/* SPDX-License-Identifier: MIT
 *
 * Where in a native stack the innermost call of the evaluator is, by stack id.
 *
 * An event follows the interpreter's chain of frames only if its anchor (python/chain.h) is in the
 * native frame of the innermost call. So the chain is of this stack, and all its frames are alive.
 * Extensions such as greenlet exchange the content of a thread's stack. Until they tell the
 * interpreter so, its thread state leads to the former content, and events meanwhile find that the
 * anchor is elsewhere.
 *
 * The first event with a stack walks to the call and remembers the distance of the anchor from the
 * stack pointer. It is the same in all events with that stack, unless a function on the way has a
 * frame of variable size; then the next event walks again.
 *
 * Lock-free, async-signal-safe and shared by all threads: any of the distances that threads note is
 * right for some of the stacks, and an anchor at the right distance is in the call.
 */
#ifndef SONDE_CAPTURE_PYTHON_PLACES_H
#define SONDE_CAPTURE_PYTHON_PLACES_H

#include "capture/python/python_shapes.h"
#include "capture/thread_state.h"

/* Further stacks are walked each time. */
#define PLACES_MAX (1u << 20)

/* Else a distance in bytes, which is a multiple of 8. */
enum {
  PLACE_UNKNOWN,
  /* the stack has no Python frames */
  PLACE_NONE,
  /* the version has no anchors */
  PLACE_WITHOUT_ANCHOR,
};

extern HIDDEN uint32_t python_places[PLACES_MAX];

static ALWAYS_INLINE uint32_t python_place(uint32_t native) {
  return LIKELY(native < PLACES_MAX) ? load_relaxed(&python_places[native]) : PLACE_UNKNOWN;
}

/* Whether the shape of the stack NATIVE has a call, or none; a stack without a shape has neither,
 * nor has one that a signal handler interrupted. */
bool python_place_has_call(uint32_t native);
bool python_place_has_none(uint32_t native);

/* Notes PLACE for the stack NATIVE. */
void python_place_note(uint32_t native, uint32_t place);

/* Whether ANCHOR is in the innermost call of the stack NATIVE, which starts at PC, SP and FP and is
 * that of the thread SELF. Notes its distance. */
bool python_place_learn(capture_thread_t *self, uint32_t native, uint64_t pc, uint64_t sp,
                        uint64_t fp, uint64_t anchor);

/* All places are unknown. */
void python_places_forget(void);

#endif
