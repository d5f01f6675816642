/* SPDX-License-Identifier: MIT
 *
 * Unpacking .gnu_debugdata, an xz stream that holds a small ELF file.
 */
#ifndef SONDE_SYMBOL_ELF_UNXZ_H
#define SONDE_SYMBOL_ELF_UNXZ_H

#include <stddef.h>
#include <stdint.h>

/* The unpacked bytes, for the caller to free; NULL when PACKED is no xz stream, or unpacks to more
 * than 256 MB. */
uint8_t *unxz(const void *packed, size_t packed_size, size_t *size);

#endif
