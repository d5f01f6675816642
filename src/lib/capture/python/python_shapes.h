/* SPDX-License-Identifier: MIT
 *
 * What a native stack needs to be merged with Python frames by order: its number of frames, and how
 * many of them are calls of the evaluator that have Python frames.
 *
 * A return address into the evaluator at which it has linked its frame is always one at which it
 * has. capture_with_python merges by address and notes such places (python_shape_know_call). A
 * native stack with another place in the evaluator has no shape, and so has one with a signal
 * handler, or one that is not complete.
 *
 * Shapes are kept by stack id, 4 bytes each. A new one takes a walk through the nodes of the stack
 * outward to one with a known shape. Lock-free, async-signal-safe and shared by all threads.
 */
#ifndef SONDE_CAPTURE_PYTHON_SHAPES_H
#define SONDE_CAPTURE_PYTHON_SHAPES_H

#include "capture/stack_table.h"

/* A word with both numbers; 0: not known. */
#define SHAPE_KNOWN      (1u << 31)
#define SHAPE_HAS_SIGNAL (1u << 30)
#define SHAPE_FRAME      (1u << 10)
#define SHAPE_CALL       1u

static ALWAYS_INLINE uint32_t shape_calls(uint32_t shape) { return shape % SHAPE_FRAME; }
static ALWAYS_INLINE uint32_t shape_frames(uint32_t shape) {
  return shape % SHAPE_HAS_SIGNAL / SHAPE_FRAME;
}

extern HIDDEN uint32_t *python_shapes[LEVELED_MAX];

/* Makes the tables, for an evaluator of BYTES at ADDRESS. False: out of memory. */
bool python_shapes_start(uint64_t address, uint64_t bytes);

/* The shape of stack NATIVE; 0: it has none. */
uint32_t python_shape_learn(uint32_t native);
static ALWAYS_INLINE uint32_t python_shape(uint32_t native) {
  uint32_t index = native - 1;
  uint32_t shape =
      LIKELY(index < 1u << STACK_TABLE_BITS) ? load_relaxed(&python_shapes[0][index]) : 0;
  return LIKELY(shape) ? shape : python_shape_learn(native);
}

/* Whether the native frame FRAME is a call of the evaluator with Python frames. */
bool python_shape_is_call(uint32_t frame);

/* Notes that the native frame FRAME is a call of the evaluator with Python frames. */
void python_shape_know_call(uint32_t frame);

/* Called with each such frame, before a shape counts it, perhaps by several threads. NULL: not
 * called. */
extern HIDDEN void (*python_call_on_new)(uint32_t frame);

/* Calls VISIT with each such frame. */
void python_calls_each(void (*visit)(uint32_t frame));

#endif
