/* SPDX-License-Identifier: MIT
 *
 * Images of the code that a program has registered with GDB's JIT interface: with their unwind
 * information, stacks continue through that code. Their bytes are copied from the program.
 *
 * An image is valid as long as the program's target is. One thread uses a jit_images_t.
 */
#ifndef SONDE_TARGET_JIT_IMAGES_H
#define SONDE_TARGET_JIT_IMAGES_H

#include "target/target.h"

typedef struct jit_images jit_images_t;

/* NULL: the program has registered no code, or memory ran out. */
jit_images_t *jit_images_open(target_t *target);
void jit_images_close(jit_images_t *images);

/* The image that contains PC; NULL: none does. */
const image_t *jit_images_find(const jit_images_t *images, uint64_t pc);

#endif
