/* SPDX-License-Identifier: MIT
 *
 * Closes a copy of an open chunk, so that it can be written to the file while its thread, or its
 * killed program, has left the chunk open.
 */
#ifndef SONDE_RECORD_CHUNK_COPY_H
#define SONDE_RECORD_CHUNK_COPY_H

#include "record/format.h"

/* CHUNK is a copy of a slot of SLOT_SIZE bytes that contains a chunk. If the program was closing it
 * and its checksum is right, it stays as it is. Otherwise its records end where the zeros begin.
 * Returns the size of the closed chunk, or 0 if it contains no record. */
static inline uint32_t chunk_close(uint8_t *chunk, uint32_t slot_size) {
  chunk_header_t h;
  memcpy(&h, chunk, sizeof h);
  if ((h.flags & CHUNK_CLOSED) && h.size >= sizeof h && h.size <= slot_size && h.size % 8 == 0 &&
      chunk_is_intact(chunk, h.size)) {
    if (!(h.flags & CHUNK_HANDED_OVER)) return h.size;
    h.flags = CHUNK_CLOSED;
    memcpy(chunk, &h, sizeof h);
    chunk_seal(chunk, h.size);
    return h.size;
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
  memcpy(chunk, &h, sizeof h);
  chunk_seal(chunk, h.size);
  return h.size;
}

#endif
