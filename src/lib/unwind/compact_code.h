/* SPDX-License-Identifier: MIT
 *
 * Decodes what the code at an interrupted pc has done to the stack, since compact unwind describes
 * only a function's body: in a prologue, in an epilogue, on a path without a frame.
 */
#ifndef SONDE_UNWIND_COMPACT_CODE_H
#define SONDE_UNWIND_COMPACT_CODE_H

#include "unwind/cfi.h"

/* The available code of one function. */
typedef struct compact_code {
  const uint8_t *bytes;
  /* Size of the function, and offset of the pc in it. */
  uint64_t size, at;
} compact_code_t;

/* The frame at the pc, if it differs from the body's. */
typedef struct compact_frame {
  /* As in the body; the other fields are unused. */
  bool is_body;
  /* CFA minus stack pointer. */
  uint64_t cfa_bytes;
  /* The frame register is saved, with the return address above it. */
  bool has_saved_fp;
  /* CFA minus the address of the saved frame register. */
  uint64_t saved;
} compact_frame_t;

/* The first is for a body with a frame pointer. The second is for a body without one, where BODY
 * bytes are between stack pointer and CFA. */
compact_frame_t compact_frame_with_fp(machine_t machine, const compact_code_t *code);
compact_frame_t compact_frame_without_fp(machine_t machine, const compact_code_t *code,
                                         uint64_t body);

#endif
