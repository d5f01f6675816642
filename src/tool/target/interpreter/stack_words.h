/* SPDX-License-Identifier: MIT
 *
 * Words of a native stack that may be addresses of the heap, where interpreters keep their state.
 */
#ifndef SONDE_TARGET_INTERPRETER_STACK_WORDS_H
#define SONDE_TARGET_INTERPRETER_STACK_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "unwind/memory.h"

/* Whether WORD, of a thread whose stack is [START, END), may be an address outside of the stack, as
 * far as its value tells: a multiple of 8, above the first page, of the user's half. */
static inline bool stack_word_is_address(uint64_t start, uint64_t end, uint64_t word) {
  return word >= 4096 && word >> 47 == 0 && word % 8 == 0 && (word < start || word >= end);
}

/* Passes such words of the stack [START, END), at most 1 MB of it, to EACH, innermost first. Each
 * value is passed once, and at most 8192 values. START must be a multiple of 8. */
void stack_words_each(memory_t *memory, uint64_t start, uint64_t end,
                      void (*each)(void *context, uint64_t word), void *context);

#endif
