/* SPDX-License-Identifier: MIT
 *
 * A table of interned strings: each string is stored once and identified by its offset. Offset 0 is
 * the empty string. One thread uses a table.
 *
 * A slot of the hash table holds an offset. base/hash.h would need an array with one item per
 * string in addition; a large module has millions of strings.
 */
#ifndef SONDE_SYMBOL_INDEX_STRINGS_H
#define SONDE_SYMBOL_INDEX_STRINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct string_table {
  char *bytes; /* all strings, each with its terminating 0 */
  size_t size, capacity;
  uint32_t *slots; /* open addressing; 0: free */
  size_t slot_count, used;
} string_table_t;

bool strings_init(string_table_t *strings);
void strings_free(string_table_t *strings);

/* Sets *OFFSET to the offset of TEXT, which is added when it is new. False when memory runs out or
 * the strings exceed 4 GB. */
bool strings_add(string_table_t *strings, const char *text, uint32_t *offset);

/* Sets *OFFSET to the offset of TEXT. False when TEXT is not in the table. */
bool strings_find(const string_table_t *strings, const char *text, uint32_t *offset);

static inline const char *strings_at(const string_table_t *strings, uint32_t offset) {
  return strings->bytes + offset;
}

#endif
