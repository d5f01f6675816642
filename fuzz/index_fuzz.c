/* SPDX-License-Identifier: MIT
 *
 * The reader of symbol indexes on arbitrary bytes. The target corrects the checksums, so that the
 * code after the checksum test is reached. Checked beyond the sanitizers: results are complete, and
 * strings terminate.
 */
#include <stdlib.h>
#include <string.h>

#include "symbol/index/format.h"
#include "symbol/index/coding.h"

/* Corrects the checksums if there is a header. */
static void repair(uint8_t *bytes, size_t size) {
  index_header_t header;
  if (size < sizeof header) return;
  memcpy(&header, bytes, sizeof header);
  memcpy(header.magic, INDEX_MAGIC, sizeof header.magic);
  header.version = INDEX_VERSION;
  header.file_size = size;
  header.checksum = 0;
  size_t pages = 1;
  while ((size - pages * 8) / INDEX_PAGE + ((size - pages * 8) % INDEX_PAGE != 0) > pages)
    pages++;
  uint64_t at = (size - pages * 8) & ~(uint64_t)7;
  header.sections[INDEX_CHECKSUMS] = (index_span_t){at, pages * 8};
  memcpy(bytes, &header, sizeof header);
  for (size_t i = 0; i < pages; i++) {
    size_t from = i * INDEX_PAGE, left = from < at ? at - from : 0;
    uint64_t sum = coding_checksum(bytes + from, left < INDEX_PAGE ? left : INDEX_PAGE);
    memcpy(bytes + at + i * 8, &sum, 8);
  }
  header.checksum = coding_checksum(bytes + at, pages * 8);
  memcpy(bytes, &header, sizeof header);
}

static size_t length(const char *text) { return text ? strlen(text) : 0; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1 || size > 1 << 20) return 0;
  bool mended = data[0] & 1;
  size -= 1;
  size_t room = mended ? (size & ~(size_t)7) : size;
  uint8_t *bytes = malloc(room + 1);
  memcpy(bytes, data + 1, room);
  if (mended) repair(bytes, room);
  index_t *index = index_from_bytes(bytes, room, false);
  volatile size_t total = 0;
  for (uint64_t i = 0; index && i < 64 && !index_is_bad(index); i++) {
    symbol_frame_t frames[8];
    const index_origin_t *origin = index_origin(index);
    int count = index_lookup(index, origin->code_low + i * 37, (unsigned)i & 7, frames, 8);
    if (count < 0 || count > 8) abort();
    for (int k = 0; k < count; k++)
      total += length(frames[k].function) + length(frames[k].raw) + length(frames[k].file);
  }
  if (index) total += length(index_debug_path(index));
  index_close(index);
  free(bytes);
  return 0;
}
