/* SPDX-License-Identifier: MIT */
#include "symbol/index/strings.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* Eight bytes at a time: building an index hashes every name of the debug information. */
static uint64_t hash_string(const char *text, size_t length) {
  uint64_t hash = 0x9e3779b97f4a7c15u ^ length;
  while (length >= 8) {
    uint64_t word;
    memcpy(&word, text, 8);
    hash = (hash ^ word) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
    text += 8;
    length -= 8;
  }
  uint64_t last = 0;
  memcpy(&last, text, length);
  hash = (hash ^ last) * 0xc4ceb9fe1a85ec53u;
  return hash ^ hash >> 29;
}

bool strings_init(string_table_t *strings) {
  *strings = (string_table_t){.size = 1, .capacity = 4096, .slot_count = 256};
  strings->bytes = calloc(1, strings->capacity);
  strings->slots = calloc(strings->slot_count, sizeof *strings->slots);
  if (strings->bytes && strings->slots) return true;
  strings_free(strings);
  return false;
}

void strings_free(string_table_t *strings) {
  free(strings->bytes);
  free(strings->slots);
  *strings = (string_table_t){0};
}

static bool grow_slots(string_table_t *strings) {
  size_t count = strings->slot_count * 2;
  uint32_t *slots = calloc(count, sizeof *slots);
  if (!slots) return false;
  for (size_t i = 0; i < strings->slot_count; i++) {
    uint32_t offset = strings->slots[i];
    if (!offset) continue;
    const char *text = strings->bytes + offset;
    size_t at = hash_string(text, strlen(text)) & (count - 1);
    while (slots[at])
      at = (at + 1) & (count - 1);
    slots[at] = offset;
  }
  free(strings->slots);
  strings->slots = slots;
  strings->slot_count = count;
  return true;
}

/* The slot of TEXT, or the free one where it belongs. */
static size_t find_slot(const string_table_t *strings, const char *text, size_t length) {
  size_t at = hash_string(text, length) & (strings->slot_count - 1);
  while (strings->slots[at] && strncmp(strings->bytes + strings->slots[at], text, length + 1))
    at = (at + 1) & (strings->slot_count - 1);
  return at;
}

bool strings_find(const string_table_t *strings, const char *text, uint32_t *offset) {
  *offset = strings->slots[find_slot(strings, text, strlen(text))];
  return *offset != 0;
}

bool strings_add(string_table_t *strings, const char *text, uint32_t *offset) {
  size_t length = strlen(text);
  *offset = 0;
  if (!length) return true;
  if (strings->used * 2 >= strings->slot_count && !grow_slots(strings)) return false;
  size_t at = find_slot(strings, text, length);
  *offset = strings->slots[at];
  if (*offset) return true;
  if (length >= UINT32_MAX - strings->size ||
      !ARRAY_RESERVE(strings->bytes, strings->size + length + 1, strings->capacity))
    return false;
  *offset = (uint32_t)strings->size;
  memcpy(strings->bytes + *offset, text, length + 1);
  strings->slots[at] = *offset;
  strings->size += length + 1;
  strings->used++;
  return true;
}
