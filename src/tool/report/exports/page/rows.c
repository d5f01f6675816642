/* SPDX-License-Identifier: MIT */
#include "report/exports/page/rows.h"

#include <math.h>

#include "base/array.h"

/* A day: longer steps would tell nothing. With more distinct places than the limit, the rows are
 * bounded by these alone. */
#define UNIT_MOST_NS UINT64_C(86400000000000)

static uint64_t hash_of_row(const page_row_t *r) {
  return hash_pair(hash_pair(r->from, r->to),
                   hash_pair((uint64_t)r->place << 32 | r->thread, r->kind));
}

/* The index has the rows from `indexed` on. */
static uint64_t hash_of_item(const void *rows, size_t i) {
  const page_rows_t *t = rows;
  return hash_of_row(&t->items[t->indexed + i]);
}

/* ROW in steps that are 2^DOUBLINGS times as long. */
static page_row_t coarser(page_row_t row, unsigned doublings) {
  row.from >>= doublings;
  if (row.to != PAGE_NEVER) row.to >>= doublings;
  return row;
}

static bool is_same(const page_row_t *a, const page_row_t *b) {
  return a->from == b->from && a->to == b->to && a->place == b->place && a->thread == b->thread &&
         a->kind == b->kind;
}

/* Removes all rows from the index. A large index is freed: one step with many rows must not make
 * all later steps slow. */
static void restart_index(page_rows_t *t, size_t indexed) {
  if (t->index.mask > 16 * (t->count - t->indexed) + 1024)
    hash_free(&t->index);
  else
    hash_clear(&t->index);
  t->indexed = indexed;
}

/* Samples come in the order of time, so a row can only be equal to rows of the last step, and only
 * these need to be in the index. */
static void prepare_index(page_rows_t *t, const page_row_t *row) {
  if (t->is_unordered || !t->count || t->items[t->count - 1].from == row->from) return;
  t->is_unordered = row->from < t->items[t->count - 1].from;
  if (!t->is_unordered) {
    restart_index(t, t->count);
    return;
  }
  hash_free(&t->index); /* hash_reserve then adds all rows */
  t->indexed = 0;
}

static bool add(page_rows_t *t, const page_row_t *row) {
  uint32_t *slot;
  prepare_index(t, row);
  if (!hash_reserve(&t->index, t->count - t->indexed, hash_of_item, t)) return false;
  HASH_FIND(&t->index, hash_of_row(row), slot) {
    page_row_t *there = &t->items[t->indexed + *slot - 1];
    if (!is_same(there, row)) continue;
    there->count += row->count;
    there->amount += row->amount;
    return true;
  }
  if (!ARRAY_GROW(t->items, t->count, t->capacity)) return false;
  t->items[t->count++] = *row;
  *slot = (uint32_t)(t->count - t->indexed);
  return true;
}

/* The rows that DOUBLINGS of the step would leave. BITS has MASK + 1 bits, a row sets the one of
 * its hash, and the bits that stay zero tell how many rows differ (linear counting: Whang,
 * Vander-Zanden and Taylor 1990). This takes a tenth of the time of joining the rows. */
static double estimate_count(const page_rows_t *t, unsigned doublings, uint64_t *bits,
                             size_t mask) {
  size_t zeros = mask + 1;
  memset(bits, 0, (mask + 1) / 8);
  for (size_t i = 0; i < t->count; i++) {
    const page_row_t row = coarser(t->items[i], doublings);
    size_t bit = (size_t)hash_of_row(&row) & mask;
    zeros -= !(bits[bit / 64] >> bit % 64 & 1);
    bits[bit / 64] |= UINT64_C(1) << bit % 64;
  }
  return (double)(mask + 1) * log((double)(mask + 1) / (double)(zeros ? zeros : 1));
}

/* The doublings of the step that leave room for a sixteenth of the limit, so that the next rows do
 * not join all rows again. At least 1. */
static unsigned choose_doublings(const page_rows_t *t) {
  double fits = (double)t->limit * 15 / 16;
  unsigned doublings = 1;
  size_t mask = 63;
  while (mask < 2 * t->count)
    mask = 2 * mask + 1;
  uint64_t *bits = malloc((mask + 1) / 8);
  while (bits && t->unit_ns << doublings < UNIT_MOST_NS &&
         estimate_count(t, doublings, bits, mask) > fits)
    doublings++;
  free(bits);
  return doublings;
}

/* Doubles the step, once or more. Rows only move towards the start, so the array is rewritten in
 * place. */
static bool coarsen(page_rows_t *t) {
  size_t count = t->count;
  unsigned doublings = choose_doublings(t);
  bool good = true;
  t->unit_ns <<= doublings;
  restart_index(t, 0);
  t->count = 0;
  for (size_t i = 0; i < count && good; i++) {
    const page_row_t row = coarser(t->items[i], doublings);
    good = add(t, &row);
  }
  return good;
}

static page_row_t in_steps(const page_rows_t *t, page_row_t row) {
  row.from /= t->unit_ns;
  if (row.to != PAGE_NEVER) row.to /= t->unit_ns;
  return row;
}

uint64_t page_rows_hash(const page_rows_t *t, const page_row_t *row) {
  const page_row_t r = in_steps(t, *row);
  return hash_of_row(&r);
}

void page_rows_fetch_slot(const page_rows_t *t, uint64_t hash) {
  if (t->index.slots) __builtin_prefetch(&t->index.slots[hash & t->index.mask], 1);
}

void page_rows_fetch_row(const page_rows_t *t, uint64_t hash) {
  uint32_t number = t->index.slots ? t->index.slots[hash & t->index.mask] : 0;
  if (!number) return;
  const page_row_t *row = &t->items[t->indexed + number - 1];
  __builtin_prefetch(row, 1);
  __builtin_prefetch(&row->amount, 1); /* it may be in the next cache line */
}

bool page_rows_add(page_rows_t *t, const page_row_t *row) {
  const page_row_t r = in_steps(t, *row);
  if (!add(t, &r)) return false;
  while (t->count > t->limit && t->unit_ns < UNIT_MOST_NS)
    if (!coarsen(t)) return false;
  return true;
}

static int by_time(const void *left, const void *right) {
  const page_row_t *a = left, *b = right;
  if (a->from != b->from) return a->from < b->from ? -1 : 1;
  if (a->thread != b->thread) return a->thread < b->thread ? -1 : 1;
  if (a->to != b->to) return a->to < b->to ? -1 : 1;
  if (a->place != b->place) return a->place < b->place ? -1 : 1;
  return a->kind < b->kind ? -1 : a->kind > b->kind;
}

void page_rows_sort(page_rows_t *t) {
  size_t sorted = 1;
  while (sorted < t->count && by_time(&t->items[sorted - 1], &t->items[sorted]) < 0)
    sorted++;
  if (sorted < t->count) qsort(t->items, t->count, sizeof *t->items, by_time);
}

void page_rows_free(page_rows_t *t) {
  free(t->items);
  hash_free(&t->index);
}
