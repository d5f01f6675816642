/* SPDX-License-Identifier: MIT */
#include "report/function_sizes.h"

#include <stdlib.h>
#include <string.h>

#include "base/message.h"
#include "image/symbols.h"
#include "sonde/status.h"

#define TABLE_BYTES_MAX (UINT64_C(4) << 30)

typedef struct sized_image {
  symbols_t *symbols; /* NULL: not available */
  bool was_read;
} sized_image_t;

struct function_sizes {
  const reader_t *reader;
  const record_image_t *images;
  size_t count;
  sized_image_t *sized; /* by index of IMAGES */
};

function_sizes_t *function_sizes_new(const reader_t *reader) {
  function_sizes_t *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->reader = reader;
  s->images = reader_images(reader, &s->count);
  s->sized = calloc(s->count + 1, sizeof *s->sized);
  if (s->sized) return s;
  free(s);
  return NULL;
}

void function_sizes_free(function_sizes_t *s) {
  if (!s) return;
  for (size_t i = 0; i < s->count; i++)
    if (s->sized[i].symbols) symbols_free(s->sized[i].symbols);
  free(s->sized);
  free(s);
}

static bool is_that_build(const image_t *file, const record_image_t *image) {
  return file->build_id_size == image->build_id_size &&
         !memcmp(file->build_id, image->build_id, image->build_id_size);
}

static symbols_t *read_symbols(const record_image_t *image) {
  image_t file;
  symbols_t *symbols = NULL;
  int status = image->path ? image_open(&file, image->path) : SONDE_EIO;
  if (status == SONDE_ENOMEM) message_out_of_memory();
  if (status != SONDE_OK) return NULL;
  if (!is_that_build(&file, image) || symbols_build(&file, TABLE_BYTES_MAX, &symbols) < 0)
    symbols = NULL;
  image_close(&file);
  return symbols;
}

uint64_t function_size_of(function_sizes_t *s, const record_frame_t *frame) {
  const record_image_t *image = reader_image(s->reader, frame->image);
  image_symbol_t found;
  if (!image) return 0;
  sized_image_t *sized = &s->sized[image - s->images];
  if (!sized->was_read) sized->symbols = read_symbols(image);
  sized->was_read = true;
  if (!sized->symbols || !symbols_find(sized->symbols, frame->pc - image->slide, &found)) return 0;
  return found.size;
}
