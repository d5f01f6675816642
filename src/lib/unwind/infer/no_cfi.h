/* SPDX-License-Identifier: MIT
 *
 * aarch64 code that nobody wrote call frame information for: the stubs of procedure linkage tables,
 * _init and _fini, the start-up code that the compiler links in, small assembly.
 */
#ifndef SONDE_UNWIND_INFER_NO_CFI_H
#define SONDE_UNWIND_INFER_NO_CFI_H

#include "unwind/cfi.h"

/* Reads the row at PC (a run-time address of IMAGE) from the code around it; unless it is EXACT, PC
 * is a return address. The bounds of its function are the nearest instructions that never go on to
 * the next. Returns 0, or SONDE_ENOTFOUND where what leads to PC and what leads on from it do not
 * agree on what is on the stack. */
int no_cfi_row(const image_t *image, memory_t *memory, uint64_t pc, bool exact, cfi_row_t *row);

#endif
