/* SPDX-License-Identifier: MIT
 *
 * Stacks of one recording that differ in nothing but where their images lay: a library that was
 * unloaded and came back at another address has new pcs, new frames and new stacks for the calls it
 * made before.
 *
 * Two stacks are the same when they are as deep, and each frame of one is the same as that frame of
 * the other: the same one, or at the same offset of the same build (path and build-id) of an image.
 * A hash finds a stack; only the comparison of all frames accepts it. What cannot be proved is not
 * assumed: images without a build-id, code in no image, and stacks that are damaged or too deep to
 * be read whole are the same as themselves alone.
 */
#ifndef SONDE_ANALYSIS_STACK_DEDUP_H
#define SONDE_ANALYSIS_STACK_DEDUP_H

#include "reader/reader.h"

typedef struct stack_dedup stack_dedup_t;

/* READER must outlive it. NULL without memory; release with stack_dedup_free. */
stack_dedup_t *stack_dedup_new(const reader_t *reader);
void stack_dedup_free(stack_dedup_t *same);

/* In *OUT the first stack asked for that is the same as STACK, which may be STACK. Asking again
 * costs a look-up; a recording whose images all stayed where they were costs none. False without
 * memory. */
bool stack_dedup_first(stack_dedup_t *same, uint32_t stack, uint32_t *out);

#endif
