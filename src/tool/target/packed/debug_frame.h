/* SPDX-License-Identifier: MIT
 *
 * The contents of a compressed .debug_frame, by libelf.
 */
#ifndef SONDE_TARGET_PACKED_DEBUG_FRAME_H
#define SONDE_TARGET_PACKED_DEBUG_FRAME_H

#include "image/image.h"

/* Decompresses the section in the 64-bit ELF file PATH, whose header has a number of sections. The
 * caller frees `data`; NULL: there is none, or it is damaged. */
section_t packed_debug_frame(const char *path);

#endif
