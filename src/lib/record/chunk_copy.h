/* SPDX-License-Identifier: MIT
 *
 * The copy of an open chunk, made into a closed one.
 */
#ifndef SONDE_RECORD_CHUNK_COPY_H
#define SONDE_RECORD_CHUNK_COPY_H

#include "record/format.h"

/* The bytes of the chunk in a slot of SIZE bytes, as it is to stand in the file: its size, or 0
 * when it holds no record. CHUNK has room for the slot. */
static inline uint32_t chunk_close(uint8_t *chunk, uint32_t slot_size) {
  chunk_header_t h;
  memcpy(&h, chunk, sizeof h);
  uint64_t said = h.checksum;
  if ((h.flags & CHUNK_CLOSED) && h.size >= sizeof h && h.size <= slot_size && h.size % 8 == 0) {
    h.checksum = 0;
    memcpy(chunk, &h, sizeof h);
    bool whole = chunk_checksum(chunk, h.size) == said;
    h.checksum = said;
    memcpy(chunk, &h, sizeof h);
    if (whole) return h.size;
  }
  uint32_t used = slot_size - (uint32_t)sizeof h;
  while (used && !chunk[sizeof h + used - 1])
    used--;
  if (!used) return 0;
  h.used = used;
  h.size = ALIGN_UP((uint32_t)sizeof h + used, 8u);
  h.flags = CHUNK_CLOSED | CHUNK_COLLECTED;
  h.records = 0;
  h.close_time = 0;
  h.checksum = 0;
  memcpy(chunk, &h, sizeof h);
  h.checksum = chunk_checksum(chunk, h.size);
  memcpy(chunk, &h, sizeof h);
  return h.size;
}

#endif
