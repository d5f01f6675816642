/* SPDX-License-Identifier: MIT
 *
 * JIT compilers reuse addresses; the latest entry is valid. Entries are sorted by address, and
 * among equals by number. A search goes down from the last entry that begins at or below the
 * address, until no earlier entry reaches it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "target/jit/jit.h"

typedef struct entry {
  jit_symbol_t symbol;
  /* after sorting: the highest end of this and all previous entries */
  uint64_t reach;
} entry_t;

/* Of a jitdump file: the name of the code with a number. */
typedef struct numbered {
  uint64_t index;
  const char *name;
} numbered_t;

struct jit {
  ARRAY(entry_t) entries;
  ARRAY(char *) names; /* owned */
  ARRAY(numbered_t) numbered;
  hash_index_t by_number;
  uint64_t bytes, lost, earliest_ns, latest_ns;
  bool is_sorted;
};

jit_t *jit_new(void) { return calloc(1, sizeof(jit_t)); }

void jit_clear(jit_t *jit) {
  for (size_t i = 0; i < jit->names.count; i++)
    free(jit->names.items[i]);
  free(jit->names.items);
  free(jit->entries.items);
  free(jit->numbered.items);
  hash_free(&jit->by_number);
  *jit = (jit_t){0};
}

void jit_close(jit_t *jit) {
  if (!jit) return;
  jit_clear(jit);
  free(jit);
}

void jit_set_times(jit_t *jit, uint64_t earliest_ns, uint64_t latest_ns) {
  jit->earliest_ns = earliest_ns;
  jit->latest_ns = latest_ns;
}

size_t jit_count(const jit_t *jit) { return jit->entries.count; }
uint64_t jit_lost(const jit_t *jit) { return jit->lost; }

/* ---- adding ------------------------------------------------------------------------------- */

static const char *keep_name(jit_t *jit, const char *name, size_t length) {
  if (length > JIT_NAME_MAX) length = JIT_NAME_MAX;
  char **place = ARRAY_ADD(jit->names);
  if (!place) return NULL;
  *place = strndup(name, length);
  if (!*place) jit->names.count--;
  jit->bytes += length + 2 * sizeof *place;
  return jit->names.count ? *place : NULL;
}

static uint64_t hash_of_number(const void *jit, size_t i) {
  return hash_number(((const jit_t *)jit)->numbered.items[i].index);
}

/* The place of the code INDEX in the table of numbers, 0 if it is new; NULL: out of memory. */
static uint32_t *find_number(jit_t *jit, uint64_t index) {
  uint32_t *slot;
  if (!hash_reserve(&jit->by_number, jit->numbered.count, hash_of_number, jit)) return NULL;
  HASH_FIND(&jit->by_number, hash_number(index), slot) {
    if (jit->numbered.items[*slot - 1].index == index) break;
  }
  return slot;
}

static void keep_number(jit_t *jit, uint64_t index, const char *name) {
  uint32_t *slot = find_number(jit, index);
  if (slot && *slot) jit->numbered.items[*slot - 1].name = name;
  numbered_t *number = slot && !*slot ? ARRAY_ADD(jit->numbered) : NULL;
  if (!number) return;
  *number = (numbered_t){index, name};
  *slot = (uint32_t)jit->numbered.count;
  jit->bytes += sizeof *number + sizeof *slot;
}

/* NAME is the table's own; NULL: out of memory. */
static void add(jit_t *jit, uint64_t address, uint64_t size, uint64_t time_ns, const char *name) {
  entry_t *entry = name ? ARRAY_ADD(jit->entries) : NULL;
  if (!entry) {
    jit->lost++;
    return;
  }
  *entry = (entry_t){.symbol = {.address = address,
                                .size = size,
                                .earliest_ns = time_ns ? time_ns : jit->earliest_ns,
                                .latest_ns = time_ns ? time_ns : jit->latest_ns,
                                .number = jit->entries.count,
                                .name = name,
                                .is_exact = time_ns != 0}};
  jit->bytes += sizeof *entry;
  jit->is_sorted = false;
}

/* Counts what does not fit. */
static bool has_space(jit_t *jit) {
  if (jit->bytes < JIT_BYTES_MAX && jit->entries.count < UINT32_MAX / 2) return true;
  jit->lost++;
  return false;
}

static bool is_range(uint64_t address, uint64_t size) {
  return size > 0 && address + size > address;
}

void jit_add(jit_t *jit, uint64_t address, uint64_t size, uint64_t index, uint64_t time_ns,
             const char *name, size_t length) {
  if (!is_range(address, size) || !has_space(jit)) return;
  const char *kept = keep_name(jit, name, length);
  add(jit, address, size, time_ns, kept);
  if (kept && index != UINT64_MAX) keep_number(jit, index, kept);
}

void jit_move(jit_t *jit, uint64_t index, uint64_t address, uint64_t size, uint64_t time_ns) {
  const uint32_t *slot = find_number(jit, index);
  if (slot && *slot && is_range(address, size) && has_space(jit))
    add(jit, address, size, time_ns, jit->numbered.items[*slot - 1].name);
}

/* ---- look-up ------------------------------------------------------------------------------ */

static int by_address(const void *a, const void *b) {
  const entry_t *x = a, *y = b;
  if (x->symbol.address != y->symbol.address) return x->symbol.address < y->symbol.address ? -1 : 1;
  return x->symbol.number < y->symbol.number ? -1 : x->symbol.number > y->symbol.number;
}

static void sort(jit_t *jit) {
  uint64_t reach = 0;
  if (jit->entries.count)
    qsort(jit->entries.items, jit->entries.count, sizeof *jit->entries.items, by_address);
  for (size_t i = 0; i < jit->entries.count; i++) {
    entry_t *entry = &jit->entries.items[i];
    uint64_t end = entry->symbol.address + entry->symbol.size;
    entry->reach = reach = end > reach ? end : reach;
  }
  jit->is_sorted = true;
}

/* The number of entries that begin at or below ADDRESS. */
static size_t count_below(jit_t *jit, uint64_t address) {
  if (!jit->is_sorted) sort(jit);
  size_t low = 0, high = jit->entries.count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (jit->entries.items[middle].symbol.address <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Entries that are looked at for an address. A hostile file may have any number around it. */
#define SEARCH_MAX 4096u

/* The entry before the first *I that contains ADDRESS; NULL: there is no further one. BELOW is what
 * count_below returned. */
static entry_t *next_of(jit_t *jit, uint64_t address, size_t below, size_t *i) {
  while (*i > 0 && below - *i < SEARCH_MAX && jit->entries.items[*i - 1].reach > address) {
    entry_t *entry = &jit->entries.items[--*i];
    if (address - entry->symbol.address < entry->symbol.size) return entry;
  }
  return NULL;
}

const jit_symbol_t *jit_find(jit_t *jit, uint64_t address) {
  size_t below = count_below(jit, address), i = below;
  const entry_t *found = NULL, *entry;
  while ((entry = next_of(jit, address, below, &i)))
    if (!found || entry->symbol.number > found->symbol.number) found = entry;
  return found ? &found->symbol : NULL;
}

void jit_find_all(jit_t *jit, uint64_t address, jit_visit_t *visit, void *context) {
  size_t below = count_below(jit, address), i = below;
  for (entry_t *entry; (entry = next_of(jit, address, below, &i));)
    visit(context, &entry->symbol);
}
