/* SPDX-License-Identifier: MIT
 *
 * Compact unwind: Apple's own unwind table, __TEXT,__unwind_info
 * (mach-o/compact_unwind_encoding.h).
 *
 * A function has one encoding of 32 bits. It describes the frame after the prologue, and so at
 * every call. At an interrupted pc the frame may not exist yet, or no longer exist; compact_code.h
 * then reads the code itself.
 *
 * The functions are async-signal-safe: they allocate nothing and check every read.
 */
#ifndef SONDE_UNWIND_COMPACT_H
#define SONDE_UNWIND_COMPACT_H

#include "unwind/cfi.h"

/* As cfi_find_row, for a Mach-O image. PC is EXACT or a return address; for a return address the
 * row is that of the call before it. Returns 0; SONDE_ENOTFOUND if the table does not cover this
 * pc; SONDE_EUNSUPPORTED if it refers to __eh_frame; SONDE_EFORMAT. */
int compact_find_row(const image_t *image, machine_t machine, uint64_t pc, bool exact,
                     cfi_row_t *row);

#endif
