/* SPDX-License-Identifier: MIT */
#include "report/exports/profile/gzip.h"

#include <stdbool.h>
#include <stdlib.h>
#include <zlib.h>

/* zlib counts input and output in 32 bits. */
#define PART_MAX ((size_t)1 << 30)

static unsigned part(size_t rest) { return (unsigned)(rest < PART_MAX ? rest : PART_MAX); }

/* The output has space for the worst case, so every call makes progress. */
static bool deflate_all(z_stream *z, const uint8_t *data, size_t data_size, uint8_t *out,
                        size_t capacity) {
  int status = Z_OK;
  z->next_in = (Bytef *)(uintptr_t)data;
  z->next_out = out;
  while (status == Z_OK) {
    size_t in = data_size - (size_t)(z->next_in - data),
           left = capacity - (size_t)(z->next_out - out);
    z->avail_in = part(in);
    z->avail_out = part(left);
    status = deflate(z, in <= PART_MAX ? Z_FINISH : Z_NO_FLUSH);
  }
  return status == Z_STREAM_END;
}

uint8_t *gzip_bytes(const uint8_t *data, size_t data_size, size_t *size) {
  enum { GZIP_WINDOW = 15 + 16, MEMORY_LEVEL = 8 };
  z_stream z = {0};
  if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, MEMORY_LEVEL,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    return NULL;
  size_t capacity = deflateBound(&z, data_size);
  uint8_t *out = malloc(capacity);
  bool good = out && deflate_all(&z, data, data_size, out, capacity);
  *size = good ? (size_t)(z.next_out - out) : 0;
  (void)deflateEnd(&z);
  if (good) return out;
  free(out);
  return NULL;
}
