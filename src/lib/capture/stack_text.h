/* SPDX-License-Identifier: MIT
 *
 * The text of a stack id, symbolized once and then looked up.
 *
 * An id stands for one list of frames, each in one version of one image, so a text never becomes
 * wrong. The cache is bounded: 1,024 texts of at most 16 KB, in one mapping whose used pages cost
 * memory. A text is dropped when one of its images is unloaded.
 *
 * Readers copy a text and compare its version before and after; they never wait. A writer that
 * meets another writer in the same slot does not store its text. All functions are
 * async-signal-safe.
 */
#ifndef SONDE_CAPTURE_STACK_TEXT_H
#define SONDE_CAPTURE_STACK_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* As sonde_stack_text, but neither looks for a cached text nor stores one. */
int stack_text_make(uint32_t id, unsigned flags, char *out, size_t size);

/* The number of cached texts. */
unsigned stack_text_count(void);

#endif
