/* SPDX-License-Identifier: MIT
 *
 * Ruby exports no address of its table of symbols. But the table is the first array in the list of
 * objects that the garbage collector always marks (Init_sym in Ruby's symbol.c). The symbol "+" has
 * the number of its character, which confirms the find.
 */
#include "target/interpreter/ruby/objects.h"

#include <stdlib.h>
#include <string.h>

#include "target/interpreter/ruby/layout.h"

#define TEXT_MAX    1024
#define LENGTH_MAX  (UINT64_C(1) << 32)
#define BUCKETS_MAX 64
#define OBJECTS_MAX 1024

bool ruby_word(memory_t *memory, uint64_t address, uint64_t *out) {
  return address && address % 8 == 0 && memory->read(memory, address, out, sizeof *out);
}

static bool is(uint64_t flags, uint64_t type) { return (flags & RUBY_TYPE) == type; }

char *ruby_text(memory_t *memory, uint64_t address) {
  uint64_t flags, size, data = address + 16;
  char text[TEXT_MAX];
  if (!ruby_word(memory, address, &flags) || !is(flags, RUBY_STRING)) return NULL;
  if (!(flags & RUBY_FLAG_1))
    size = flags >> 14 & 0x1f;
  else if (!ruby_word(memory, address + 16, &size) ||
           !memory->read(memory, address + 24, &data, sizeof data))
    return NULL;
  if (size > TEXT_MAX - 1) size = TEXT_MAX - 1;
  if (size && !memory->read(memory, data, text, (size_t)size)) return NULL;
  text[size] = 0;
  return strdup(text);
}

/* The place and number of the items of the array at ADDRESS. */
static bool items_of(memory_t *memory, uint64_t address, uint64_t *items, uint64_t *count) {
  uint64_t flags;
  if (!ruby_word(memory, address, &flags) || !is(flags, RUBY_ARRAY)) return false;
  if (flags & RUBY_FLAG_1) {
    *items = address + 16;
    *count = flags >> 15 & 3;
    return true;
  }
  return ruby_word(memory, address + 16, count) && ruby_word(memory, address + 32, items) &&
         *count < LENGTH_MAX;
}

bool ruby_item(memory_t *memory, uint64_t address, uint64_t i, uint64_t *out) {
  uint64_t items, count;
  return items_of(memory, address, &items, &count) && i < count &&
         ruby_word(memory, items + 8 * i, out);
}

/* ---- symbols -------------------------------------------------------------------------------- */

static char *symbol_name(memory_t *memory, uint64_t symbols, uint64_t number) {
  uint64_t part, name;
  return ruby_item(memory, symbols, number / RUBY_SYMBOLS_IN_ONE, &part) &&
                 ruby_item(memory, part, number % RUBY_SYMBOLS_IN_ONE * RUBY_SYMBOL_WORDS, &name)
             ? ruby_text(memory, name)
             : NULL;
}

static bool is_symbols(memory_t *memory, uint64_t address) {
  char *name = symbol_name(memory, address, '+');
  bool found = name && strcmp(name, "+") == 0;
  free(name);
  return found;
}

uint64_t ruby_symbols(memory_t *memory, uint64_t vm) {
  uint64_t marked, bucket, object;
  if (!ruby_word(memory, vm + RUBY_VM_MARKED, &marked)) return 0;
  for (uint64_t i = 0; i < BUCKETS_MAX && ruby_item(memory, marked, i, &bucket); i++)
    for (uint64_t k = 0; k < OBJECTS_MAX && ruby_item(memory, bucket, k, &object); k++)
      if (is_symbols(memory, object)) return object;
  return 0;
}

char *ruby_identifier(memory_t *memory, uint64_t symbols, uint64_t identifier) {
  uint64_t number =
      identifier > RUBY_LAST_OPERATOR ? identifier >> RUBY_IDENTIFIER_KIND : identifier;
  return symbol_name(memory, symbols, number);
}

char *ruby_path(memory_t *memory, uint64_t address) {
  uint64_t path;
  return ruby_text(memory, ruby_item(memory, address, 0, &path) ? path : address);
}
