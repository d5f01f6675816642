/* SPDX-License-Identifier: MIT
 *
 * Packed events from arbitrary bytes. A fuzzer does not find zstd frames, so the target compresses:
 * the input is the plain columns, each after two bytes of length. Chunks that can be unpacked are
 * packed and unpacked again, and must have the same size.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/summary/pack_events.h"

static void put_frame(byte_buffer_t *out, const uint8_t *data, size_t size) {
  byte_buffer_t frame = {0};
  if (size && !bytes_squeeze(&frame, data, size, 1)) abort();
  bytes_number(out, size);
  bytes_number(out, frame.count);
  bytes_add(out, frame.items, frame.count);
  free(frame.items);
}

/* The input's first two bytes are the announced size, in units of 8. */
static void make_payload(const uint8_t *data, size_t size, byte_buffer_t *out) {
  static const uint8_t mode = PACKED_COLUMNS;
  bytes_add(out, &mode, 1);
  bytes_number(out, 8u * ((unsigned)data[0] | (unsigned)data[1] << 8));
  data += 2;
  size -= 2;
  for (int i = 0; i < COLUMNS; i++) {
    size_t length = size >= 2 ? (size_t)data[0] | (size_t)data[1] << 8 : 0;
    data += size >= 2 ? 2 : 0;
    size -= size >= 2 ? 2 : 0;
    if (length > size) length = size;
    put_frame(out, data, length);
    data += length;
    size -= length;
  }
}

static void round_trip(const uint8_t *chunks, size_t size) {
  byte_buffer_t columns = {0}, payload = {0};
  static const uint8_t mode = PACKED_COLUMNS;
  uint8_t *again = NULL;
  size_t room = 0;
  if (pack_events(chunks, size, 1, &columns)) {
    bytes_add(&payload, &mode, 1);
    bytes_number(&payload, size);
    bytes_add(&payload, columns.items, columns.count);
    /* 0 is allowed: the records may differ from a writer's shortest form. */
    size_t got = packed_unpack(payload.items, payload.count, &again, &room, 0);
    if (got && got != size) abort();
  }
  free(columns.items);
  free(payload.items);
  free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint8_t *chunks = NULL;
  size_t room = 0;
  byte_buffer_t payload = {0};
  if (size < 2) return 0;
  make_payload(data, size, &payload);
  size_t got = packed_unpack(payload.items, payload.count, &chunks, &room, 64);
  if (got) round_trip(chunks, got);
  got = packed_unpack(data, size, &chunks, &room, 64);
  free(payload.items);
  free(chunks);
  return 0;
}
