/* SPDX-License-Identifier: MIT */
#include "store/fact_list.h"

#include <stdlib.h>

bool fact_list_add(fact_list_t *f, const fact_t *fact) {
  fact_t *added = ARRAY_ADD(f->list);
  if (added) *added = *fact;
  return added != NULL;
}

void fact_list_free(fact_list_t *f) { free(f->list.items); }

/* In the order of the database, where ids are signed. */
static int by_key(const void *left, const void *right) {
  const fact_t *a = left, *b = right;
  if (a->measure != b->measure) return a->measure < b->measure ? -1 : 1;
  if (a->stack != b->stack) return (int64_t)a->stack < (int64_t)b->stack ? -1 : 1;
  if (a->cause != b->cause) return (int64_t)a->cause < (int64_t)b->cause ? -1 : 1;
  return 0;
}

static void join(fact_t *to, const fact_t *more) {
  to->count += more->count;
  to->amount += more->amount;
  for (size_t i = 0; i < store_measure_extras(to->measure); i++)
    if (!store_extra_is_maximum(to->measure, i))
      to->extras[i] += more->extras[i];
    else if (more->extras[i] > to->extras[i])
      to->extras[i] = more->extras[i];
}

/* Joins facts with equal keys. */
static void join_all(fact_list_t *f) {
  size_t kept = 0;
  if (f->list.count) qsort(f->list.items, f->list.count, sizeof *f->list.items, by_key);
  for (size_t i = 0; i < f->list.count; i++)
    if (kept && by_key(&f->list.items[kept - 1], &f->list.items[i]) == 0)
      join(&f->list.items[kept - 1], &f->list.items[i]);
    else
      f->list.items[kept++] = f->list.items[i];
  f->list.count = kept;
}

static bool insert(const fact_t *fact, engine_t *engine, int64_t session) {
  const store_value_t row[FACT_FIRST_VALUE + 2 + FACT_EXTRAS] = {
      store_integer(session),    store_id(fact->stack),  store_id(fact->cause),
      store_id(fact->count),     store_id(fact->amount), store_id(fact->extras[0]),
      store_id(fact->extras[1]),
  };
  return engine_insert(engine, store_measures[fact->measure].table, row) > 0;
}

bool fact_list_insert(fact_list_t *f, engine_t *engine, int64_t session) {
  join_all(f);
  for (size_t i = 0; i < f->list.count; i++)
    if (!insert(&f->list.items[i], engine, session)) return false;
  return true;
}
