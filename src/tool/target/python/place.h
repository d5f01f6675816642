/* SPDX-License-Identifier: MIT
 *
 * Puts the Python frames of a thread between the native frames of its stack.
 */
#ifndef SONDE_TARGET_PYTHON_PLACE_H
#define SONDE_TARGET_PYTHON_PLACE_H

#include "base/array.h"
#include "target/python/python.h"

/* The frames of one call of the evaluator: pcs[first, first + count), innermost first. */
typedef struct python_call {
  /* 0: none */
  uint64_t anchor;
  size_t first, count;
} python_call_t;

/* The frames of one thread, of all its interpreters. */
typedef struct python_frames {
  ARRAY(uint64_t) pcs;
  ARRAY(python_call_t) calls;
  /* the first pc of the call that is being read */
  size_t first;
  bool damaged;
} python_frames_t;

/* False when memory runs out. */
bool python_frames_add(python_frames_t *frames, uint64_t pc);
bool python_frames_end_call(python_frames_t *frames, uint64_t anchor);
/* Forgets frames of a call that did not end. */
void python_frames_end_state(python_frames_t *frames, bool damaged);

void python_frames_clear(python_frames_t *frames);
void python_frames_free(python_frames_t *frames);

/* Merges FRAMES into WALK. MODULE is the interpreter's. Returns why frames are missing, or NULL. */
const char *python_frames_place(const python_frames_t *frames, const python_runtime_t *runtime,
                                const module_t *module, walk_t *walk);

#endif
