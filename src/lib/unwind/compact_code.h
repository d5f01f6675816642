/* SPDX-License-Identifier: MIT
 *
 * What the code at an interrupted pc has done to the stack, where compact unwind tells of the
 * function's body alone: in a prologue, in an epilogue, on a path that has no frame.
 */
#ifndef SONDE_UNWIND_COMPACT_CODE_H
#define SONDE_UNWIND_COMPACT_CODE_H

#include "unwind/cfi.h"

/* The code of one function, as far as it is there. */
typedef struct compact_code {
  const uint8_t *bytes;
  uint64_t size, at; /* of the function; where the pc is in it */
} compact_code_t;

/* How the stack stands at the pc, when it is not as in the body. */
typedef struct compact_frame {
  bool is_body;       /* as in the body: the rest is of no meaning */
  uint64_t cfa_bytes; /* CFA minus stack pointer */
  bool has_saved_fp;  /* the frame register is saved, with the return address above it */
  uint64_t saved;     /* CFA minus the place of the saved frame register */
} compact_frame_t;

/* With a frame pointer in the body; without one, with BODY bytes between stack pointer and CFA. */
compact_frame_t compact_frame_with_fp(machine_t machine, const compact_code_t *code);
compact_frame_t compact_frame_without_fp(machine_t machine, const compact_code_t *code,
                                         uint64_t body);

#endif
