/* SPDX-License-Identifier: MIT
 *
 * What machine code says about a return address: could the call before it have entered a given
 * function, and how far above the stack pointer does that function keep its frame register?
 *
 * Answers err to one side: LINK_NO is said only when it is certain.
 */
#ifndef SONDE_UNWIND_CALLSITE_H
#define SONDE_UNWIND_CALLSITE_H

#include "unwind/full.h"

typedef struct code_range {
  uint64_t start, end; /* run-time addresses */
} code_range_t;

typedef struct code {
  machine_t machine;
  memory_t *memory;
  images_t *images;
} code_t;

/* The function whose unwind information covers PC. False when there is none. */
bool code_function(const code_t *code, uint64_t pc, code_range_t *function);

/* Copies SIZE bytes of code at ADDRESS. */
bool code_read(const code_t *code, uint64_t address, void *out, size_t size);

/* PC lies in an executable segment of an image. */
bool code_is_executable(const code_t *code, uint64_t pc);

typedef enum link { LINK_NO, LINK_POSSIBLE, LINK_CERTAIN } link_t;

/* Could the instruction before RETURN_ADDRESS have called FUNCTION, directly, through the PLT, through
 * a pointer, or through functions that end in a jump to it? */
link_t callsite_link(const code_t *code, uint64_t return_address, code_range_t function);

/* When FUNCTION, at PC, keeps its frame register at one fixed distance above the stack pointer
 * (nothing but its prologue moves the stack pointer, arguments that it pushes for a call aside): that
 * distance. */
bool callsite_frame_size(const code_t *code, code_range_t function, uint64_t pc, uint64_t *bytes);

#endif
