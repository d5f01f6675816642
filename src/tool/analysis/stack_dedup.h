/* SPDX-License-Identifier: MIT
 *
 * Deduplication of stacks across reloads. A library that is unloaded and loaded at another address
 * has new pcs, so the same calls have new frames and new stack ids.
 *
 * Two stacks are equal when they have the same depth and each pair of frames is equal: the same
 * frame, or the same offset in the same build (path and build-id) of an image. A hash finds a
 * stack; only the comparison of all frames accepts it. Three kinds equal only themselves: frames in
 * images without a build-id, frames in no image, and stacks that are damaged or deeper than
 * READER_DEPTH_MAX.
 */
#ifndef SONDE_ANALYSIS_STACK_DEDUP_H
#define SONDE_ANALYSIS_STACK_DEDUP_H

#include "reader/reader.h"

typedef struct stack_dedup stack_dedup_t;

/* READER must outlive the result. NULL when memory runs out. Release it with stack_dedup_free. */
stack_dedup_t *stack_dedup_new(const reader_t *reader);
void stack_dedup_free(stack_dedup_t *dedup);

/* Sets *OUT to the first stack of any call that equals STACK; that is STACK itself when there was
 * none. A repeated call is one look-up; it costs nothing when no image of the recording moved.
 * False when memory runs out. */
bool stack_dedup_first(stack_dedup_t *dedup, uint32_t stack, uint32_t *out);

#endif
