/* SPDX-License-Identifier: MIT
 *
 * A symbol file in memory: the ELF file with which a JIT compiler describes its code to debuggers.
 *
 * An object file (ET_REL) has the run-time addresses of its sections in their headers (sh_addr),
 * and its symbols are relative to their sections. In other files the symbols have run-time
 * addresses. Functions with a size are used that lie within their section. All else is skipped: the
 * file may be damaged.
 */
#ifndef SONDE_TARGET_JIT_SYMFILE_H
#define SONDE_TARGET_JIT_SYMFILE_H

#include "image/image.h"
#include "target/jit/jit.h"

/* Adds the functions of the file DATA to JIT. Returns how many it has. */
size_t jit_symfile_read(jit_t *jit, const uint8_t *data, size_t size);

/* Makes an image of the file's code for unwinding: its segments, and the address and size of its
 * .eh_frame in the program's memory, where it is relocated. False: it has no code. */
bool jit_symfile_image(const uint8_t *data, size_t size, image_t *out);

#endif
