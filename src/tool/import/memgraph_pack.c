/* SPDX-License-Identifier: MIT
 *
 * Reads the containers of memory graphs. Every number is checked. See memgraph_pack.h.
 */
#include "import/memgraph_pack.h"

#include <string.h>
#include <zlib.h>

#include "base/load.h"
#include "import/plist_check.h"

#define HEADER     48u
#define SUPPLEMENT 32u
#define PACKED     16u
#define RATIO_MAX  1032u  /* of deflate: 258 bytes from two bits (RFC 1951, 3.2.5) */
#define HEAD_MAX   65536u /* bytes of the line before a graph */

/* ---- the file ----------------------------------------------------------------------------- */

static bool slice(memgraph_bytes_t whole, uint64_t offset, uint64_t size, memgraph_bytes_t *out) {
  if (offset > whole.size || size > whole.size - offset) return false;
  *out = (memgraph_bytes_t){whole.data + offset, size};
  return true;
}

static memgraph_bytes_t find_log(memgraph_bytes_t file) {
  uint64_t table = load64(file.data + 32);
  uint32_t count = load32(file.data + 40), size = load32(file.data + 44) & 0xffff;
  memgraph_bytes_t one, log = {0};
  for (uint32_t i = 0; size >= SUPPLEMENT && i < count && i < 64; i++)
    if (slice(file, table + (uint64_t)i * size, SUPPLEMENT, &one) &&
        !memcmp(one.data, "DISKLOGS", 8) &&
        slice(file, load64(one.data + 16), load64(one.data + 24), &log) && log.size)
      return log;
  return (memgraph_bytes_t){0};
}

static bool is_container(memgraph_bytes_t file) {
  return file.size > HEADER && !memcmp(file.data, "MEMGRAPH", 8) && load64(file.data + 8) == 0;
}

bool memgraph_unwrap(const uint8_t *data, uint64_t size, memgraph_bytes_t *list,
                     memgraph_bytes_t *log) {
  memgraph_bytes_t file = {data, size};
  *log = (memgraph_bytes_t){0};
  const uint8_t *line =
      size && *data == '{' ? memchr(data, '\n', size < HEAD_MAX ? (size_t)size : HEAD_MAX) : NULL;
  if (line) file = (memgraph_bytes_t){line + 1, size - (uint64_t)(line + 1 - data)};
  if (line && file.size && file.data[file.size - 1] == '\n') file.size--;
  *list = file;
  if (plist_is(file.data, file.size)) return true;
  if (!is_container(file)) return false;
  *log = find_log(file);
  return slice(file, load64(file.data + 16), load64(file.data + 24), list) &&
         plist_is(list->data, list->size);
}

/* ---- an entry ----------------------------------------------------------------------------- */

uint64_t memgraph_unpacked_size(memgraph_bytes_t entry) { return load32(entry.data + 8); }

packing_t memgraph_packing(memgraph_bytes_t entry) {
  if (entry.size <= PACKED || load32(entry.data) != PACKED) return PACKED_NOT;
  uint64_t packed = load32(entry.data + 4), whole = load32(entry.data + 8);
  unsigned how = load32(entry.data + 12) >> 16;
  if (how > 2 || packed > entry.size - PACKED || !packed || !whole) return PACKED_NOT;
  if (how == 2) return PACKED_LZFSE;
  if (how == 0) return packed == whole ? PACKED_STORED : PACKED_DAMAGED;
  return whole <= packed * RATIO_MAX ? PACKED_GZIP : PACKED_DAMAGED;
}

bool memgraph_unpack(memgraph_bytes_t entry, uint8_t *out, uint64_t length) {
  if (memgraph_packing(entry) == PACKED_STORED) {
    memcpy(out, entry.data + PACKED, (size_t)length);
    return true;
  }
  z_stream stream = {.next_in = (Bytef *)(uintptr_t)(entry.data + PACKED),
                     .avail_in = load32(entry.data + 4),
                     .next_out = out,
                     .avail_out = (uInt)length};
  if (inflateInit2(&stream, 31) != Z_OK) return false; /* 31: a gzip header around it */
  int status = inflate(&stream, Z_SYNC_FLUSH);
  (void)inflateEnd(&stream);
  return (status == Z_OK || status == Z_STREAM_END) && stream.avail_out == 0;
}
