/* SPDX-License-Identifier: MIT
 *
 * Mach-O symbols have no sizes, so all possible ends of a symbol are gathered first. See symtab.h.
 */
#include "symbol/macho/symtab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "image/macho/macho.h"
#include "image/macho/format.h"

/* A symbol's section number is one byte. */
#define SECTIONS_MAX 256

typedef struct symtab {
  const image_t *image;
  elf_shape_t shape;
  macho_section_t sections[SECTIONS_MAX]; /* by number, from 1 */
  bool is_code[SECTIONS_MAX];
  unsigned section_count;
  uint64_t *borders; /* sorted: addresses where a symbol begins or ends */
  size_t border_count, border_capacity;
  size_t count;
} symtab_t;

/* Longer names are hostile: thousands of symbols may share the end of one name. */
#define NAME_MAX 16384

const char *macho_symtab_name(const image_t *image, uint64_t offset) {
  const section_t *names = &image->symtab_names;
  if (offset >= names->size) return NULL;
  const char *name = (const char *)names->data + offset;
  uint64_t left = names->size - offset;
  return memchr(name, 0, left < NAME_MAX ? left : NAME_MAX) ? name : NULL;
}

static const char *without_underscore(const char *name) { return name + (name[0] == '_'); }

/* Sets *OUT to entry I. Returns whether it names code. */
static bool symbol_at(const symtab_t *table, size_t i, macho_nlist_t *out) {
  *out = macho_nlist(table->shape, table->image->symtab.data + i * macho_nlist_size(table->shape));
  if (!macho_nlist_is_defined(out) || !out->section || !table->is_code[out->section]) return false;
  const macho_section_t *section = &table->sections[out->section];
  return out->value >= section->address && out->value - section->address < section->size;
}

static bool add_border(symtab_t *table, uint64_t address) {
  if (!ARRAY_GROW(table->borders, table->border_count, table->border_capacity)) return false;
  table->borders[table->border_count++] = address;
  return true;
}

static int compare_addresses(const void *left, const void *right) {
  const uint64_t *a = left, *b = right;
  return *a < *b ? -1 : *a > *b;
}

static bool find_borders(symtab_t *table) {
  const image_t *image = table->image;
  uint64_t at = 0, address = macho_header_address(image);
  macho_nlist_t entry;
  for (unsigned i = 1; i < table->section_count; i++) {
    const macho_section_t *section = &table->sections[i];
    if (table->is_code[i] && !(add_border(table, section->address) &&
                               add_border(table, section->address + section->size)))
      return false;
  }
  while (macho_next_function(&image->macho.function_starts, &at, &address))
    if (!add_border(table, address)) return false;
  for (size_t i = 0; i < table->count; i++)
    if (symbol_at(table, i, &entry) && !add_border(table, entry.value)) return false;
  if (table->border_count)
    qsort(table->borders, table->border_count, sizeof *table->borders, compare_addresses);
  return true;
}

/* The first border above ADDRESS; 0: there is none. */
static uint64_t border_above(const symtab_t *table, uint64_t address) {
  size_t low = ARRAY_SEARCH(table->border_count, i, table->borders[i] <= address);
  return low < table->border_count ? table->borders[low] : 0;
}

static bool add_symbol(facts_t *facts, const char *name, uint64_t address, uint64_t size) {
  function_symbol_t symbol = {.address = address, .size = size};
  return strings_add(&facts->strings, name, &symbol.name) && facts_symbol(facts, &symbol);
}

static bool add_symbols(symtab_t *table, const uint64_t *only, facts_t *facts, bool *found) {
  for (size_t i = 0; i < table->count; i++) {
    macho_nlist_t entry;
    bool is_code = symbol_at(table, i, &entry);
    if (entry.type == MACHO_N_FUN || (is_code && !(entry.type & MACHO_N_EXT))) *found = true;
    if (!is_code) continue;
    uint64_t end = border_above(table, entry.value);
    if (end <= entry.value || (only && (*only < entry.value || *only >= end))) continue;
    const char *name = macho_symtab_name(table->image, entry.name);
    if (!name || !*without_underscore(name)) continue;
    if (!add_symbol(facts, without_underscore(name), entry.value, end - entry.value)) return false;
  }
  return true;
}

/* ---- stubs -------------------------------------------------------------------------------- */

/* Stub I of SECTION jumps to the symbol in entry reserved1 + I of the indirect table. Stubs have
 * reserved2 bytes. */
static bool add_stubs(const symtab_t *table, const macho_section_t *section, const uint64_t *only,
                      facts_t *facts) {
  const section_t *indirect = &table->image->macho.indirect_symbols;
  uint64_t step = section->reserved2;
  char text[1024];
  if (step == 0) return true;
  for (uint64_t i = 0; i < section->size / step; i++) {
    uint64_t at = (section->reserved1 + i) * 4, address = section->address + i * step;
    if (at + 4 > indirect->size) break;
    if (only && (*only < address || *only - address >= step)) continue;
    uint32_t index = elf_u32(table->shape, indirect->data + at);
    if (index >= table->count) continue; /* also the flags of local and absolute symbols */
    macho_nlist_t entry = macho_nlist(table->shape, table->image->symtab.data +
                                                        index * macho_nlist_size(table->shape));
    const char *name = macho_symtab_name(table->image, entry.name);
    if (!name || !*without_underscore(name)) continue;
    int length = snprintf(text, sizeof text, "%s@stub", without_underscore(name));
    if (length > 0 && (size_t)length < sizeof text && !add_symbol(facts, text, address, step))
      return false;
  }
  return true;
}

bool macho_symtab_read(const image_t *image, const uint64_t *only, facts_t *facts, bool *found) {
  symtab_t *table = calloc(1, sizeof *table);
  macho_sections_t walk = {0};
  macho_section_t section;
  if (!table) return false;
  table->image = image;
  table->shape = macho_shape(image->is_64bit, image->is_big_endian);
  table->count = image->symtab.size / macho_nlist_size(table->shape);
  table->section_count = 1;
  while (table->section_count < SECTIONS_MAX && macho_next_section(image, &walk, &section)) {
    table->is_code[table->section_count] = macho_section_is_code(&section);
    table->sections[table->section_count++] = section;
  }
  bool done = find_borders(table) && add_symbols(table, only, facts, found);
  for (unsigned i = 1; done && i < table->section_count; i++)
    if ((table->sections[i].flags & MACHO_S_TYPE_MASK) == MACHO_S_SYMBOL_STUBS)
      done = add_stubs(table, &table->sections[i], only, facts);
  free(table->borders);
  free(table);
  return done;
}
