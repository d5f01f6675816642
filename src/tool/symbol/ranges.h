/* SPDX-License-Identifier: MIT
 *
 * Where the functions of an image begin. The unwind information tells it, also of a stripped image.
 */
#ifndef SONDE_SYMBOL_RANGES_H
#define SONDE_SYMBOL_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ranges ranges_t;

/* Opens the file PATH, of the build with this id. NULL: it cannot be read, or is another build. */
ranges_t *ranges_open(const char *path, const uint8_t *build_id, size_t build_id_size);
void ranges_close(ranges_t *ranges);

/* The start, as linked, of the function that has ADDRESS. RANGES may be NULL. Returns ADDRESS if no
 * function is known there. */
uint64_t ranges_start(const ranges_t *ranges, uint64_t address);

#endif
