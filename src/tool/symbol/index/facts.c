/* SPDX-License-Identifier: MIT */
#include "symbol/index/facts.h"

#include <stdlib.h>

#include "base/array.h"

bool facts_init(facts_t *facts) {
  *facts = (facts_t){0};
  return strings_init(&facts->strings);
}

void facts_free(facts_t *facts) {
  strings_free(&facts->strings);
  free(facts->rows);
  free(facts->scopes);
  free(facts->ranges);
  free(facts->symbols);
  *facts = (facts_t){0};
}

bool facts_row(facts_t *facts, const line_row_t *row) {
  if (!ARRAY_GROW(facts->rows, facts->row_count, facts->row_capacity)) return false;
  facts->rows[facts->row_count++] = *row;
  return true;
}

bool facts_scope(facts_t *facts, const scope_t *scope, uint32_t *index) {
  if (facts->scope_count >= UINT32_MAX - 1 ||
      !ARRAY_GROW(facts->scopes, facts->scope_count, facts->scope_capacity))
    return false;
  *index = (uint32_t)facts->scope_count;
  facts->scopes[facts->scope_count++] = *scope;
  return true;
}

bool facts_range(facts_t *facts, uint64_t low, uint64_t high, uint32_t scope) {
  if (low >= high) return true;
  if (!ARRAY_GROW(facts->ranges, facts->range_count, facts->range_capacity)) return false;
  facts->ranges[facts->range_count++] = (scope_range_t){low, high, scope};
  return true;
}

bool facts_symbol(facts_t *facts, const function_symbol_t *symbol) {
  if (!ARRAY_GROW(facts->symbols, facts->symbol_count, facts->symbol_capacity)) return false;
  facts->symbols[facts->symbol_count++] = *symbol;
  return true;
}

bool facts_merge(facts_t *to, const facts_t *from) {
  uint32_t first_scope = (uint32_t)to->scope_count;
  const string_table_t *texts = &from->strings;
  uint32_t last_from = 0, last_to = 0; /* neighboring rows mostly have the same file */
  for (size_t i = 0; i < from->row_count; i++) {
    line_row_t row = from->rows[i];
    if (row.file != last_from) {
      if (!strings_add(&to->strings, strings_at(texts, row.file), &last_to)) return false;
      last_from = row.file;
    }
    row.file = last_to;
    if (!facts_row(to, &row)) return false;
  }
  for (size_t i = 0; i < from->scope_count; i++) {
    scope_t scope = from->scopes[i];
    uint32_t index;
    if (scope.parent) scope.parent += first_scope;
    if (!strings_add(&to->strings, strings_at(texts, scope.name), &scope.name) ||
        !strings_add(&to->strings, strings_at(texts, scope.call_file), &scope.call_file) ||
        !facts_scope(to, &scope, &index))
      return false;
  }
  for (size_t i = 0; i < from->range_count; i++) {
    const scope_range_t *range = &from->ranges[i];
    if (!facts_range(to, range->low, range->high, first_scope + range->scope)) return false;
  }
  for (size_t i = 0; i < from->symbol_count; i++) {
    function_symbol_t symbol = from->symbols[i];
    if (!strings_add(&to->strings, strings_at(texts, symbol.name), &symbol.name) ||
        !facts_symbol(to, &symbol))
      return false;
  }
  return true;
}
