/* SPDX-License-Identifier: MIT
 *
 * Imports arbitrary bytes as Apple's malloc stack logs, stack tables, trees of regions and lists of
 * images. Byte 0: bits 0-1 the size of records, bit 2 with a table, bit 3 with regions; the next
 * two bytes: the ends of the log and of the table. The written recording must be valid for any
 * input.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "import/apple.h"
#include "reader/merge.h"
#include "reader/reader.h"

static void check(int ok) {
  if (!ok) abort();
}

static void read_back(const char *path, const apple_summary_t *found) {
  reader_t *reader;
  char error[256];
  check(reader_open(&reader, path, error, sizeof error) == 0);
  const reader_damage_t *damage = reader_damage(reader);
  check(!damage->damaged_chunks && !damage->missing_chunks && !damage->skipped_bytes);
  merge_t *merge = merge_open(reader);
  const record_event_t *event;
  uint64_t count = 0;
  while (merge && (event = merge_next(merge))) {
    count++;
    const record_frame_t *frames[64];
    if (event->stack) check(reader_stack(reader, event->stack, frames, 64) >= 0);
  }
  check(!merge || (count >= found->events && !damage->bad_records));
  merge_close(merge);
  reader_close(reader);
}

/* A table with a valid header and arbitrary nodes. */
static uint8_t *make_table(const uint8_t *data, size_t size, apple_table_t *table) {
  size_t nodes = size / 16;
  uint8_t *bytes = calloc(1, 16384 + nodes * 16 + 16);
  uint64_t count = nodes + 1;
  check(bytes != NULL);
  memcpy(bytes, "MslUniquingTable", 16);
  memcpy(bytes + 24, &count, 8);
  bytes[76] = (uint8_t)(size & 2);
  memcpy(bytes + 16384, data, nodes * 16);
  check(apple_table_read(table, bytes, 16384 + nodes * 16 + 16) == NULL);
  return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char path[64];
  snprintf(path, sizeof path, "/dev/shm/sonde-fuzz-%d", (int)getpid());
  image_list_t images;
  bool ambiguous;
  if (images_read(&images, (const char *)data, size)) {
    for (size_t i = 0; i + 1 < images.count; i++)
      check(images.items[i].end <= images.items[i + 1].start);
    images_free(&images);
  }
  (void)apple_detect(data, size, &ambiguous);
  apple_table_t raw;
  (void)apple_table_read(&raw, data, size);
  if (size < 24) return 0;
  static const apple_layout_t layouts[] = {APPLE_16, APPLE_24, APPLE_32, APPLE_24};
  size_t log = data[1] * (size - 3) / 255, table = data[2] * (size - 3 - log) / 255;
  const uint8_t *rest = data + 3;
  apple_table_t nodes;
  uint8_t *made = data[0] & 4 ? make_table(rest + log, table, &nodes) : NULL;
  apple_input_t input = {.log = rest,
                         .log_size = log,
                         .layout = layouts[data[0] & 3],
                         .table = made ? &nodes : NULL,
                         .images = &(image_list_t){0}};
  if (data[0] & 8 && size - 3 - log - table >= 20) {
    input.regions = rest + log + table;
    input.regions_size = size - 3 - log - table;
  }
  apple_summary_t found;
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  offline_t *to = offline_begin(fd);
  check(to && apple_import(to, &input, &found, NULL, NULL));
  offline_header(to)->end_ticks = offline_header(to)->end_monotonic_ns = found.records + 2;
  check(offline_finish(to) == 0 && close(fd) == 0);
  read_back(path, &found);
  unlink(path);
  free(made);
  return 0;
}
