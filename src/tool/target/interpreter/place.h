/* SPDX-License-Identifier: MIT
 *
 * Puts the frames of an interpreter between the native frames of a thread's stack.
 */
#ifndef SONDE_TARGET_INTERPRETER_PLACE_H
#define SONDE_TARGET_INTERPRETER_PLACE_H

#include "base/array.h"
#include "target/walk.h"

/* The anchor of frames that no evaluator runs, outside of all its calls. */
#define INTERPRETER_OUTERMOST UINT64_MAX

/* The frames of one call of the evaluator: pcs[first, first + count), innermost first. */
typedef struct interpreter_call {
  /* 0: none; or INTERPRETER_OUTERMOST */
  uint64_t anchor;
  /* of a call without an anchor, of a coroutine: its native frame is inside of this address of the
   * stack; 0: none */
  uint64_t limit;
  size_t first, count;
} interpreter_call_t;

/* The frames of one thread, of all its interpreters. */
typedef struct interpreter_frames {
  ARRAY(uint64_t) pcs;
  ARRAY(interpreter_call_t) calls;
  /* of a kind that counts exactly: anchors of functions that call the evaluator to continue a call,
   * inside of the native frame that ran it until then; some are 0 */
  ARRAY(uint64_t) continued;
  /* the first pc of the call that is being read */
  size_t first;
  /* why frames are missing, static text; NULL: none are */
  const char *problem;
} interpreter_frames_t;

/* False when memory runs out. */
bool interpreter_frames_add(interpreter_frames_t *frames, uint64_t pc);
bool interpreter_frames_end_call(interpreter_frames_t *frames, uint64_t anchor);
bool interpreter_frames_end_limited(interpreter_frames_t *frames, uint64_t limit);

/* A problem: the frames could not be read to their end. */
extern const char interpreter_damaged[];

/* Forgets frames of a call that did not end. PROBLEM as above. */
void interpreter_frames_end_state(interpreter_frames_t *frames, const char *problem);

void interpreter_frames_clear(interpreter_frames_t *frames);
void interpreter_frames_free(interpreter_frames_t *frames);

/* Merges the frames that INTERPRETER read last into WALK, the stack of the same thread at the same
 * time. Returns why frames are missing; NULL: none are. */
struct interpreter;
const char *interpreter_place(const struct interpreter *interpreter, walk_t *walk);

#endif
