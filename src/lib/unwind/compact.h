/* SPDX-License-Identifier: MIT
 *
 * Compact unwind: Apple's own unwind table, __TEXT,__unwind_info
 * (mach-o/compact_unwind_encoding.h).
 *
 * A function has one encoding of 32 bits, which says what its frame looks like once its prologue is
 * done, and so what holds at every call. Where an interrupted pc stands, the frame may not be there
 * yet, or be gone again: there the code itself is read (compact_code.h).
 */
#ifndef SONDE_UNWIND_COMPACT_H
#define SONDE_UNWIND_COMPACT_H

#include "unwind/cfi.h"

/* As cfi_find_row, for a Mach-O image; PC is EXACT or a return address, and then the row is that of
 * the call before it. SONDE_ENOTFOUND: the table says nothing of this pc; SONDE_EUNSUPPORTED: it
 * says that __eh_frame has the row; SONDE_EFORMAT. */
int compact_find_row(const image_t *image, machine_t machine, uint64_t pc, bool exact,
                     cfi_row_t *row);

#endif
