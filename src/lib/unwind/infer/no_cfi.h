/* SPDX-License-Identifier: MIT
 *
 * Unwind rows for aarch64 code without call frame information: the stubs of procedure linkage
 * tables, _init and _fini, the start-up code that the compiler links, small assembly.
 */
#ifndef SONDE_UNWIND_INFER_NO_CFI_H
#define SONDE_UNWIND_INFER_NO_CFI_H

#include "unwind/cfi.h"

/* Infers the row at PC (a run-time address of IMAGE) from the code around it. Unless EXACT, PC is a
 * return address. The bounds of its function are the nearest instructions after which execution
 * never continues. Returns 0, or SONDE_ENOTFOUND if the code before PC and the code after it do not
 * agree on what is on the stack. */
int no_cfi_row(const image_t *image, memory_t *memory, uint64_t pc, bool exact, cfi_row_t *row);

#endif
