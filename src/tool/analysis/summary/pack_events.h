/* SPDX-License-Identifier: MIT
 *
 * Chunks of events taken apart into columns that compress well; reader/packed.h is the way
 * back.
 */
#ifndef SONDE_ANALYSIS_SUMMARY_PACK_EVENTS_H
#define SONDE_ANALYSIS_SUMMARY_PACK_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reader/packed.h"

typedef struct bytes {
  uint8_t *items;
  size_t count, room;
} bytes_t;

/* False without memory. */
bool bytes_add(bytes_t *bytes, const void *data, size_t size);
bool bytes_number(bytes_t *bytes, uint64_t number); /* as a varint */
/* A zstd frame of DATA. */
bool bytes_squeeze(bytes_t *bytes, const void *data, size_t size, int level);

/* Adds the columns of the events in CHUNKS (SIZE bytes of chunks, one after the other) to OUT.
 * False when they hold what columns have no place for, or without memory. */
bool pack_events(const uint8_t *chunks, size_t size, int level, bytes_t *out);

#endif
