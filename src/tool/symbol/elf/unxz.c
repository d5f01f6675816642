/* SPDX-License-Identifier: MIT
 *
 * xz through liblzma. See unxz.h.
 */
#include "symbol/elf/unxz.h"

#include <lzma.h>
#include <stdlib.h>

#define UNPACKED_MAX ((size_t)256 << 20)
#define MEMORY_MAX   ((uint64_t)128 << 20)

uint8_t *unxz(const void *packed, size_t packed_size, size_t *size) {
  uint8_t *out = NULL;
  for (size_t room = packed_size * 4 + 4096; room <= UNPACKED_MAX; room *= 2) {
    uint64_t memory = MEMORY_MAX;
    size_t read = 0, written = 0;
    uint8_t *grown = realloc(out, room);
    if (!grown) break;
    out = grown;
    lzma_ret result = lzma_stream_buffer_decode(&memory, 0, NULL, packed, &read, packed_size, out,
                                                &written, room);
    if (result == LZMA_OK) {
      *size = written;
      return out;
    }
    if (result != LZMA_BUF_ERROR) break;
  }
  free(out);
  return NULL;
}
