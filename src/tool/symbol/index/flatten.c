/* SPDX-License-Identifier: MIT
 *
 * A sweep over sorted ranges with a stack of open ranges; the top of the stack is the innermost. In
 * damaged files ranges may cross instead of nest; then the inner range ends with the outer one. See
 * flatten.h.
 */
#include "symbol/index/flatten.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

typedef struct claim {
  uint64_t low, high;
  uint32_t item; /* index; of two equal claims the later item is the inner one */
  uint32_t unit;
} claim_t;

static int compare_claims(const void *left, const void *right) {
  const claim_t *a = left, *b = right;
  if (a->low != b->low) return a->low < b->low ? -1 : 1;
  if (a->unit != b->unit) return a->unit < b->unit ? -1 : 1;
  if (a->high != b->high) return a->high > b->high ? -1 : 1;
  return a->item < b->item ? -1 : a->item > b->item;
}

static bool emit(segments_t *out, uint64_t address, uint32_t item) {
  if (out->count && out->items[out->count - 1].address == address) out->count--;
  if (out->count && out->items[out->count - 1].item == item) return true;
  if (!ARRAY_GROW(out->items, out->count, out->capacity)) return false;
  out->items[out->count++] = (segment_of_t){address, item};
  return true;
}

/* CLAIMS are sorted. Their array also serves as the stack: open claims move to its front, and there
 * are never more of them than were read. */
static bool sweep(claim_t *claims, size_t count, segments_t *out) {
  size_t depth = 0;
  for (size_t i = 0; i <= count; i++) {
    claim_t next = i < count ? claims[i] : (claim_t){.low = UINT64_MAX};
    while (depth && claims[depth - 1].high <= next.low) { /* ends before the next */
      uint64_t end = claims[depth - 1].high;
      while (depth && claims[depth - 1].high <= end)
        depth--;
      if (!emit(out, end, depth ? claims[depth - 1].item + 1 : 0)) return false;
    }
    if (i == count) break;
    if (depth && claims[0].unit != next.unit) continue; /* another unit covers it */
    if (depth && next.high > claims[depth - 1].high) next.high = claims[depth - 1].high;
    claims[depth++] = next;
    if (!emit(out, next.low, next.item + 1)) return false;
  }
  return true;
}

bool flatten_scopes(const facts_t *facts, segments_t *out) {
  claim_t *claims = malloc((facts->range_count + 1) * sizeof *claims);
  if (!claims) return false;
  for (size_t i = 0; i < facts->range_count; i++) {
    const scope_range_t *range = &facts->ranges[i];
    claims[i] = (claim_t){range->low, range->high, range->scope, facts->scopes[range->scope].unit};
  }
  qsort(claims, facts->range_count, sizeof *claims, compare_claims);
  bool done = sweep(claims, facts->range_count, out);
  free(claims);
  return done;
}

/* ---- symbols ------------------------------------------------------------------------------ */

/* Symbols sort by address, and at one address the preferred symbol first. `item` is the position in
 * the table. */
typedef struct ordered_symbol {
  function_symbol_t symbol;
  uint32_t item;
} ordered_symbol_t;

static int compare_symbols(const void *left, const void *right) {
  const ordered_symbol_t *a = left, *b = right;
  if (a->symbol.address != b->symbol.address) return a->symbol.address < b->symbol.address ? -1 : 1;
  if (a->symbol.yields != b->symbol.yields) return a->symbol.yields < b->symbol.yields ? -1 : 1;
  if (a->symbol.size != b->symbol.size) return a->symbol.size > b->symbol.size ? -1 : 1;
  return a->item > b->item ? -1 : a->item < b->item;
}

bool flatten_symbols(facts_t *facts, segments_t *out) {
  size_t count = facts->symbol_count, kept = 0;
  ordered_symbol_t *ordered = malloc((count + 1) * sizeof *ordered);
  claim_t *claims = malloc((count + 1) * sizeof *claims);
  uint64_t covered = 0; /* one past the highest address of the sized symbols so far */
  bool done = false;
  if (!ordered || !claims) goto out;
  for (size_t i = 0; i < count; i++)
    ordered[i] = (ordered_symbol_t){facts->symbols[i], (uint32_t)i};
  qsort(ordered, count, sizeof *ordered, compare_symbols);
  for (size_t i = 0; i < count; i++) {
    const function_symbol_t *symbol = &ordered[i].symbol;
    if (kept && claims[kept - 1].low == symbol->address) continue;
    if (!symbol->size && symbol->address < covered) continue; /* a label within a function */
    uint64_t high = symbol->address + symbol->size;
    if (!symbol->size) {
      size_t next = i + 1;
      while (next < count && ordered[next].symbol.address == symbol->address)
        next++;
      high = symbol->limit;
      if (next < count && ordered[next].symbol.address < high) high = ordered[next].symbol.address;
    }
    if (symbol->size && high > covered) covered = high;
    if (high > symbol->address)
      claims[kept++] = (claim_t){symbol->address, high, ordered[i].item, 0};
  }
  done = sweep(claims, kept, out);
out:
  free(ordered);
  free(claims);
  return done;
}

/* ---- rows --------------------------------------------------------------------------------- */

typedef struct sequence {
  uint64_t low, high;
  size_t first, count;
  uint32_t unit;
} sequence_t;

static int compare_sequences(const void *left, const void *right) {
  const sequence_t *a = left, *b = right;
  if (a->low != b->low) return a->low < b->low ? -1 : 1;
  if (a->unit != b->unit) return a->unit < b->unit ? -1 : 1;
  return a->first < b->first ? -1 : a->first > b->first;
}

static size_t list_sequences(const facts_t *facts, sequence_t *sequences) {
  size_t count = 0, first = 0;
  for (size_t i = 0; i < facts->row_count; i++) {
    if (!facts->rows[i].end) continue;
    uint64_t low = facts->rows[first].address, high = facts->rows[i].address;
    if (low < high)
      sequences[count++] = (sequence_t){low, high, first, i - first + 1, facts->rows[i].unit};
    first = i + 1;
  }
  return count;
}

/* Copies the part of a sequence at or above FROM. Of several rows with one address the last is
 * kept. */
static size_t copy_sequence(const facts_t *facts, const sequence_t *sequence, uint64_t from,
                            line_row_t *out) {
  size_t count = 0;
  for (size_t i = 0; i < sequence->count; i++) {
    line_row_t row = facts->rows[sequence->first + i];
    if (row.address < from) row.address = from;
    if (count && row.address < out[count - 1].address) continue; /* descending: damaged */
    if (count && row.address == out[count - 1].address) count--;
    out[count++] = row;
  }
  return count;
}

bool flatten_rows(facts_t *facts) {
  size_t ends = 0, count = 0;
  for (size_t i = 0; i < facts->row_count; i++)
    ends += facts->rows[i].end;
  sequence_t *sequences = malloc((ends + 1) * sizeof *sequences);
  line_row_t *rows = malloc((facts->row_count + 1) * sizeof *rows);
  if (!sequences || !rows) {
    free(sequences);
    free(rows);
    return false;
  }
  size_t sequence_count = list_sequences(facts, sequences);
  if (sequence_count) qsort(sequences, sequence_count, sizeof *sequences, compare_sequences);
  uint64_t reached = 0;
  for (size_t i = 0; i < sequence_count; i++) {
    if (sequences[i].high <= reached) continue;
    uint64_t from = sequences[i].low < reached ? reached : sequences[i].low;
    count += copy_sequence(facts, &sequences[i], from, rows + count);
    reached = sequences[i].high;
  }
  free(sequences);
  free(facts->rows);
  facts->rows = rows;
  facts->row_capacity = facts->row_count + 1;
  facts->row_count = count;
  return true;
}
