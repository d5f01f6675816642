/* SPDX-License-Identifier: MIT
 *
 * Arbitrary summaries: the input is the records, as one chunk of a recording.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/malloc/aggregate.h"
#include "analysis/samples.h"
#include "analysis/summary/summary.h"
#include "reader/reader.h"

static bool add_sample(void *samples, const record_event_t *e) { return samples_add(samples, e); }

static uint8_t *make_file(const uint8_t *data, size_t size, size_t *file_size) {
  record_header_t head = {.header_size = RECORD_HEADER_SIZE,
                          .byte_order = RECORD_BYTE_ORDER,
                          .features = RECORD_FEATURE_SUMMARY,
                          .end_ticks = 1000000,
                          .end_monotonic_ns = 1000000};
  chunk_header_t h = {.magic = CHUNK_MAGIC,
                      .type = CHUNK_SUMMARY,
                      .flags = CHUNK_CLOSED,
                      .exec_index = 1,
                      .used = (uint32_t)size};
  h.size = (uint32_t)((sizeof h + size + 7) & ~(size_t)7);
  *file_size = RECORD_HEADER_SIZE + h.size;
  uint8_t *file = calloc(1, *file_size), *chunk = file + RECORD_HEADER_SIZE;
  if (!file) abort();
  memcpy(head.magic, RECORD_MAGIC, 8);
  memcpy(file, &head, sizeof head);
  memcpy(chunk, &h, sizeof h);
  memcpy(chunk + sizeof h, data, size);
  h.checksum = chunk_checksum(chunk, h.size);
  memcpy(chunk, &h, sizeof h);
  return file;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char error[256];
  reader_t *reader;
  size_t file_size;
  if (size > CHUNK_MAX_BYTES - 128) return 0;
  uint8_t *file = make_file(data, size, &file_size);
  if (reader_open_bytes(&reader, file, file_size, error, sizeof error) == 0) {
    replay_t replay;
    samples_t samples = {0};
    depths_t depths;
    const replay_options_t options = {
        .other = add_sample, .other_context = &samples, .from_ns = 1000, .to_ns = 900000};
    if (replay_run(&replay, reader, &options) == 0) {
      depths_of(&replay, &depths);
      replay_free(&replay);
    }
    samples_free(&samples);
    reader_close(reader);
  }
  free(file);
  return 0;
}
