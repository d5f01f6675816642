/* SPDX-License-Identifier: MIT
 *
 * The named stack: the text of a stack id, made once and then looked up.
 *
 * An id stands for one list of frames, each in one content of one image, so a text never becomes
 * wrong; what is kept is bounded all the same: 1,024 texts of at most 16 KB, in one mapping of
 * which the pages that are used cost memory. A text is dropped when one of its images is unloaded.
 *
 * Readers copy a text out and look at its version before and after; they never wait. A writer that
 * meets another one in the same place does not keep its text. All of it is async-signal-safe.
 */
#ifndef SONDE_CAPTURE_STACK_TEXT_H
#define SONDE_CAPTURE_STACK_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* As sonde_stack_text, without looking for a text that is kept and without keeping it. */
int stack_text_make(uint32_t id, unsigned flags, char *out, size_t size);

/* How many texts are kept at this moment. */
unsigned stack_text_count(void);

#endif
