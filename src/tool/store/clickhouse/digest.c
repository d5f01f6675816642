/* SPDX-License-Identifier: MIT */
#include "store/clickhouse/digest.h"

#include <stdlib.h>

/* ---- rows of the server ------------------------------------------------------------------- */

bool digest_add_label(void *digest, const store_value_t *values) {
  digest_t *d = digest;
  return frame_labels_add(&d->labels, (uint64_t)values[0].integer, (uint64_t)values[1].integer);
}

bool digest_add_stack(void *digest, const store_value_t *values) {
  digest_t *d = digest;
  int is_new = id_set_add(&d->ids, (uint64_t)values[0].integer);
  digest_stack_t *added = is_new > 0 ? ARRAY_ADD(d->stacks) : NULL;
  if (added)
    *added = (digest_stack_t){.signature = signature_of(&d->labels, &values[2]),
                              .site = (uint64_t)values[1].integer};
  return added || is_new == 0;
}

static uint64_t hash_of(const digest_sum_t *s) {
  uint64_t key = id_mix((uint64_t)s->build, s->signature);
  return id_mix(key, (uint64_t)s->cause ^ (uint64_t)s->measure);
}

static uint64_t hash_of_item(const void *digest, size_t i) {
  return hash_of(&((const digest_t *)digest)->sums.items[i]);
}

static bool is_same(const digest_sum_t *a, const digest_sum_t *b) {
  return a->measure == b->measure && a->build == b->build && a->signature == b->signature &&
         a->cause == b->cause;
}

/* The least id stands for all stacks of a sum. */
static void join(digest_sum_t *to, const digest_sum_t *more) {
  to->sessions += more->sessions;
  to->count += more->count;
  to->amount += more->amount;
  to->squares += more->squares;
  if (more->stack < to->stack) to->stack = more->stack;
}

static bool add_sum(digest_t *d, const digest_sum_t *sum) {
  digest_sum_t *added = ARRAY_ADD(d->sums);
  if (added) *added = *sum;
  return added != NULL;
}

bool digest_add_total(void *digest, const store_value_t *values) {
  digest_t *d = digest;
  digest_sum_t sum = {.measure = values[0].integer,
                      .build = values[1].integer,
                      .stack = values[2].integer,
                      .cause = values[3].integer,
                      .sessions = values[4].integer,
                      .count = values[5].integer,
                      .amount = values[6].integer,
                      .squares = values[7].real};
  int64_t number = id_set_find(&d->ids, (uint64_t)sum.stack);
  if (number < 0 || (d->only && !id_set_has(d->only, (uint64_t)sum.stack))) return true;
  sum.signature = d->stacks.items[number].signature;
  if (d->by_stack) return add_sum(d, &sum);
  uint32_t *slot;
  if (!hash_reserve(&d->index, d->sums.count, hash_of_item, d)) return false;
  HASH_FIND(&d->index, hash_of(&sum), slot) {
    digest_sum_t *there = &d->sums.items[*slot - 1];
    if (!is_same(there, &sum)) continue;
    join(there, &sum);
    return true;
  }
  if (!add_sum(d, &sum)) return false;
  *slot = (uint32_t)d->sums.count;
  return true;
}

/* ---- what is kept ------------------------------------------------------------------------- */

static int compare(int64_t a, int64_t b) { return a < b ? -1 : a > b; }

/* By measure and build; the largest amount first, then the largest count, then the least stack. */
static int by_rank(const void *left, const void *right) {
  const digest_sum_t *a = left, *b = right;
  int order = compare(a->measure, b->measure);
  if (!order) order = compare(a->build, b->build);
  if (!order) order = compare(b->amount, a->amount);
  if (!order) order = compare(b->count, a->count);
  if (!order) order = compare(a->stack, b->stack);
  return order ? order : compare(a->cause, b->cause);
}

void digest_keep_largest(digest_t *d, uint64_t most) {
  size_t kept = 0;
  uint64_t rank = 0;
  if (d->sums.count) qsort(d->sums.items, d->sums.count, sizeof *d->sums.items, by_rank);
  for (size_t i = 0; i < d->sums.count; i++) {
    const digest_sum_t *s = &d->sums.items[i];
    bool is_next = i && s[-1].measure == s->measure && s[-1].build == s->build;
    rank = is_next ? rank + 1 : 0;
    if (rank < most) d->sums.items[kept++] = *s;
  }
  d->sums.count = kept;
}

/* ---- the copy ----------------------------------------------------------------------------- */

static bool insert_stack(digest_t *d, engine_t *copy, int64_t stack) {
  digest_stack_t *s = &d->stacks.items[id_set_find(&d->ids, (uint64_t)stack)];
  if (s->is_used) return true;
  s->is_used = true;
  const store_value_t row[] = {store_integer(stack), store_id(s->signature), store_id(s->site),
                               store_integer(0), store_bytes("", 0)};
  return id_set_add(&d->sites, s->site) >= 0 && engine_insert(copy, STORE_STACKS, row) >= 0;
}

bool digest_insert(digest_t *d, engine_t *copy) {
  for (size_t i = 0; i < d->sums.count; i++) {
    const digest_sum_t *s = &d->sums.items[i];
    const store_value_t row[] = {
        store_integer(s->measure),  store_integer(s->build),
        store_integer(s->stack),    store_integer(s->cause),
        store_integer(s->sessions), store_integer(s->count),
        store_integer(s->amount),   {.kind = STORE_REAL, .real = s->squares}};
    if (!insert_stack(d, copy, s->stack) || engine_insert(copy, STORE_TOTALS, row) < 0)
      return false;
  }
  return true;
}

void digest_free(digest_t *d) {
  frame_labels_free(&d->labels);
  id_set_free(&d->ids);
  free(d->stacks.items);
  free(d->sums.items);
  hash_free(&d->index);
  id_set_free(&d->sites);
}
