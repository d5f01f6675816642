/* SPDX-License-Identifier: MIT
 *
 * Facts: the symbols, line rows and scopes that the files of a module contain, gathered before an
 * index is written. Addresses are those of the image as linked. One thread uses a facts_t.
 */
#ifndef SONDE_SYMBOL_INDEX_FACTS_H
#define SONDE_SYMBOL_INDEX_FACTS_H

#include "symbol/index/strings.h"

/* A row of a line table. It covers the addresses up to the next row. Rows form sequences with
 * ascending addresses; the last row of a sequence has `end` set. */
typedef struct line_row {
  uint64_t address;
  uint32_t file; /* offset in strings */
  uint32_t line; /* 0: code that the compiler generated */
  uint32_t column;
  /* Ordinal of the compilation unit. If two units cover an address, the first one wins. */
  uint32_t unit : 31;
  uint32_t end : 1;
} line_row_t;

/* A function, or a function inlined into another. */
typedef struct scope {
  uint32_t parent; /* index + 1 of the scope that it was inlined into; 0: not inlined */
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

typedef struct function_symbol {
  uint64_t address;
  uint64_t size;  /* 0: unknown */
  uint64_t limit; /* the end of its section; 0: unknown */
  uint32_t name;
  uint32_t yields; /* 1: a name from the debug information replaces it; see symtab.h */
} function_symbol_t;

typedef struct facts {
  string_table_t strings;
  line_row_t *rows;
  size_t row_count, row_capacity;
  scope_t *scopes;
  size_t scope_count, scope_capacity;
  scope_range_t *ranges;
  size_t range_count, range_capacity;
  function_symbol_t *symbols;
  size_t symbol_count, symbol_capacity;
} facts_t;

/* All functions return false when memory runs out. */
bool facts_init(facts_t *facts);
void facts_free(facts_t *facts);

bool facts_row(facts_t *facts, const line_row_t *row);
bool facts_scope(facts_t *facts, const scope_t *scope, uint32_t *index);
bool facts_range(facts_t *facts, uint64_t low, uint64_t high, uint32_t scope);
bool facts_symbol(facts_t *facts, const function_symbol_t *symbol);

/* Adds all facts of FROM to TO. */
bool facts_merge(facts_t *to, const facts_t *from);

#endif
