/* SPDX-License-Identifier: MIT
 *
 * Interned strings: a string is kept once and is known by its offset. Offset 0 is the empty string.
 */
#ifndef SONDE_SYMBOL_INDEX_STRINGS_H
#define SONDE_SYMBOL_INDEX_STRINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct strings {
  char *bytes; /* every string with its closing 0, one after another */
  size_t size, room;
  uint32_t *slots; /* open addressing; 0 is free */
  size_t slot_count, used;
} strings_t;

bool strings_init(strings_t *strings);
void strings_free(strings_t *strings);

/* The offset of TEXT, which is added when it is new. Returns false when there is no memory, or when
 * the strings exceed 4 GB. */
bool strings_add(strings_t *strings, const char *text, uint32_t *offset);

/* The offset of TEXT when it is there. */
bool strings_find(const strings_t *strings, const char *text, uint32_t *offset);

static inline const char *strings_at(const strings_t *strings, uint32_t offset) {
  return strings->bytes + offset;
}

/* Makes room for COUNT + 1 items of SIZE bytes in *ITEMS, doubling. False when there is no memory.
 */
bool array_reserve(void **items, size_t *room, size_t count, size_t size);

#endif
