/* SPDX-License-Identifier: MIT */
#include "target/interpreter/python/codes.h"

#include <string.h>

#include "base/array.h"

#define TEXT_MAX  1024
#define LINES_MAX ((uint64_t)1 << 22)

static bool same(const python_code_t *a, const python_code_t *b) {
  return a->address == b->address && a->file == b->file && a->name == b->name &&
         a->own_name == b->own_name && a->lines == b->lines && a->first_line == b->first_line;
}

static uint64_t hash_of_code(const void *codes, size_t i) {
  return hash_number(((const python_codes_t *)codes)->items[i].code.address);
}

static char *copy_text(const python_layout_t *layout, memory_t *memory, uint64_t address) {
  char text[TEXT_MAX];
  size_t size = python_text(layout, memory, address, text, sizeof text);
  return size ? strdup(text) : NULL;
}

static char *copy_name(const python_layout_t *layout, memory_t *memory, const python_code_t *code) {
  char text[TEXT_MAX];
  size_t size = python_code_name(layout, memory, code, text, sizeof text);
  return size ? strdup(text) : NULL;
}

static void copy_lines(memory_t *memory, known_code_t *known) {
  uint64_t data, size;
  if (!python_bytes(memory, known->code.lines, &data, &size) || size == 0 || size > LINES_MAX)
    return;
  known->lines = malloc((size_t)size);
  if (known->lines && memory->read(memory, data, known->lines, (size_t)size))
    known->lines_size = (size_t)size;
}

bool python_codes_add(python_codes_t *codes, const python_layout_t *layout, memory_t *memory,
                      const python_code_t *code, uint32_t *number) {
  uint32_t *slot;
  if (!hash_reserve(&codes->index, codes->count, hash_of_code, codes)) return false;
  HASH_FIND(&codes->index, hash_number(code->address), slot) {
    *number = *slot - 1;
    if (same(&codes->items[*number].code, code)) return true;
  }
  if (codes->count == PYTHON_CODES_MAX || !ARRAY_GROW(codes->items, codes->count, codes->capacity))
    return false;
  known_code_t *known = &codes->items[codes->count++];
  *known = (known_code_t){.code = *code,
                          .function = copy_name(layout, memory, code),
                          .file = copy_text(layout, memory, code->file)};
  copy_lines(memory, known);
  *slot = (uint32_t)codes->count;
  *number = *slot - 1;
  return true;
}

void python_codes_free(python_codes_t *codes) {
  for (size_t i = 0; i < codes->count; i++) {
    free(codes->items[i].function);
    free(codes->items[i].file);
    free(codes->items[i].lines);
  }
  free(codes->items);
  hash_free(&codes->index);
  *codes = (python_codes_t){0};
}
