/* SPDX-License-Identifier: MIT
 *
 * Packs chunks of events as columns, which compress well; reader/packed.h unpacks them.
 */
#ifndef SONDE_ANALYSIS_SUMMARY_PACK_EVENTS_H
#define SONDE_ANALYSIS_SUMMARY_PACK_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reader/packed.h"

/* A growing block of bytes. */
typedef struct bytes {
  uint8_t *items;
  size_t count, capacity;
} byte_buffer_t;

/* These append to BYTES. False when memory runs out. */
bool bytes_add(byte_buffer_t *bytes, const void *data, size_t size);
bool bytes_number(byte_buffer_t *bytes, uint64_t number); /* as a varint */
/* DATA as a zstd frame. */
bool bytes_squeeze(byte_buffer_t *bytes, const void *data, size_t size, int level);

/* Appends the columns of the events in CHUNKS (SIZE bytes of consecutive chunks) to OUT. False when
 * the columns cannot express them, or memory runs out. */
bool pack_events(const uint8_t *chunks, size_t size, int level, byte_buffer_t *out);

#endif
