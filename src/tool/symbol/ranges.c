/* SPDX-License-Identifier: MIT */
#include "symbol/ranges.h"

#include <stdlib.h>
#include <string.h>

#include "base/message.h"
#include "sonde/status.h"
#include "unwind/cfi.h"

struct ranges {
  image_t image;
};

ranges_t *ranges_open(const char *path, const uint8_t *build_id, size_t build_id_size) {
  ranges_t *r = calloc(1, sizeof *r);
  if (!r) message_out_of_memory();
  int status = image_open(&r->image, path);
  if (status == SONDE_ENOMEM) message_out_of_memory();
  if (status != SONDE_OK) {
    free(r);
    return NULL;
  }
  if (!build_id_size || r->image.build_id_size != build_id_size ||
      memcmp(r->image.build_id, build_id, build_id_size) != 0) {
    image_close(&r->image);
    free(r);
    return NULL;
  }
  cfi_index(&r->image, true);
  return r;
}

void ranges_close(ranges_t *r) {
  if (!r) return;
  cfi_index(&r->image, false);
  image_close(&r->image);
  free(r);
}

uint64_t ranges_start(const ranges_t *r, uint64_t address) {
  cfi_row_t row;
  if (!r || cfi_find_row(&r->image, address, &row) != 0) return address;
  return row.function_start;
}
