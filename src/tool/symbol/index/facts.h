/* SPDX-License-Identifier: MIT
 *
 * What the files of a module say, gathered before it is written into an index: symbols, line rows,
 * functions with the functions inlined into them. Addresses are those of the image as linked.
 */
#ifndef SONDE_SYMBOL_INDEX_FACTS_H
#define SONDE_SYMBOL_INDEX_FACTS_H

#include "symbol/index/strings.h"

/* A row of a line table: it holds from its address to the next row's. Rows come in sequences, each
 * ending with a row whose `end` is set, ascending within one. */
typedef struct line_row {
  uint64_t address;
  uint32_t file; /* offset in strings */
  uint32_t line; /* 0: the compiler's own code */
  uint32_t column;
  uint32_t unit : 31; /* ordinal of the compilation unit; of two units that claim an address, the
                         first one has it */
  uint32_t end : 1;
} line_row_t;

/* A function's code, or the code of a function that was inlined into another. */
typedef struct scope {
  uint32_t parent; /* index + 1 of the scope it was inlined into; 0: a function of its own */
  uint32_t name;   /* offset in strings; 0: unknown */
  uint32_t call_file, call_line, call_column; /* where it was inlined */
  uint32_t unit;
  uint64_t entry; /* first address of the function */
} scope_t;

/* A part [low, high) of a scope's code. A scope may have several. */
typedef struct scope_range {
  uint64_t low, high;
  uint32_t scope; /* index in scopes */
} scope_range_t;

typedef struct symbol {
  uint64_t address;
  uint64_t size;  /* 0: unknown */
  uint64_t limit; /* it ends here at the latest, where its section does; 0: unknown */
  uint32_t name;
  uint32_t yields; /* 1: gives way to a name from the debug information; see symtab.h */
} symbol_t;

typedef struct facts {
  strings_t strings;
  line_row_t *rows;
  size_t row_count, row_room;
  scope_t *scopes;
  size_t scope_count, scope_room;
  scope_range_t *ranges;
  size_t range_count, range_room;
  symbol_t *symbols;
  size_t symbol_count, symbol_room;
} facts_t;

bool facts_init(facts_t *facts);
void facts_free(facts_t *facts);

bool facts_row(facts_t *facts, const line_row_t *row);
bool facts_scope(facts_t *facts, const scope_t *scope, uint32_t *index);
bool facts_range(facts_t *facts, uint64_t low, uint64_t high, uint32_t scope);
bool facts_symbol(facts_t *facts, const symbol_t *symbol);

/* Adds everything of FROM to TO. */
bool facts_merge(facts_t *to, const facts_t *from);

#endif
