/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "analysis/malloc/aggregate.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

const char *measure_name(measure_t measure) {
  static const char *const names[MEASURE_COUNT] = {"peak", "leaked", "allocated", "temporary",
                                                   "growth"};
  return names[measure];
}

counts_t counts_of(const stack_totals_t *s, measure_t measure) {
  switch (measure) {
  case MEASURE_PEAK: return s->at_peak;
  case MEASURE_LIVE: return s->live;
  case MEASURE_TEMPORARY: return (counts_t){s->temporary, s->temporary};
  case MEASURE_GROWTH:
    return (counts_t){s->live.count - s->at_start.count, s->live.bytes - s->at_start.bytes};
  default: return s->allocated;
  }
}

int64_t measure_of(const stack_totals_t *s, measure_t measure) {
  return (int64_t)counts_of(s, measure).bytes;
}

typedef struct order {
  const replay_t *replay;
  measure_t measure;
} order_t;

/* Largest first; equal ones by id, so that reports are reproducible. */
static int by_measure(const void *left, const void *right, void *context) {
  const order_t *o = context;
  const stack_totals_t *a = &o->replay->stacks[*(const uint32_t *)left];
  const stack_totals_t *b = &o->replay->stacks[*(const uint32_t *)right];
  int64_t x = measure_of(a, o->measure), y = measure_of(b, o->measure);
  if (x != y) return x > y ? -1 : 1;
  return a->stack < b->stack ? -1 : a->stack > b->stack;
}

ptrdiff_t rank_stacks(const replay_t *replay, measure_t measure, uint32_t **out) {
  size_t count = 0;
  *out = malloc((replay->stack_count + 1) * sizeof **out);
  if (!*out) return -1;
  for (size_t i = 0; i < replay->stack_count; i++)
    if (measure_of(&replay->stacks[i], measure)) (*out)[count++] = (uint32_t)i;
  order_t order = {replay, measure};
  qsort_r(*out, count, sizeof **out, by_measure, &order);
  return (ptrdiff_t)count;
}

static int by_allocated(const void *left, const void *right, void *context) {
  const replay_t *replay = context;
  const thread_totals_t *a = &replay->threads[*(const uint32_t *)left];
  const thread_totals_t *b = &replay->threads[*(const uint32_t *)right];
  if (a->allocated.bytes != b->allocated.bytes)
    return a->allocated.bytes > b->allocated.bytes ? -1 : 1;
  return a->stream < b->stream ? -1 : a->stream > b->stream;
}

ptrdiff_t rank_threads(const replay_t *replay, uint32_t **out) {
  size_t count = 0;
  *out = malloc((replay->thread_count + 1) * sizeof **out);
  if (!*out) return -1;
  for (size_t i = 0; i < replay->thread_count; i++) {
    const thread_totals_t *t = &replay->threads[i];
    if (t->allocated.count || t->frees || t->live.count) (*out)[count++] = (uint32_t)i;
  }
  qsort_r(*out, count, sizeof **out, by_allocated, (void *)(uintptr_t)replay);
  return (ptrdiff_t)count;
}

void depths_of(const replay_t *replay, depths_t *out) {
  enum { FRAMES_MAX = 4096 };
  const record_frame_t *frames[FRAMES_MAX];
  memset(out, 0, sizeof *out);
  for (size_t i = 0; i < replay->stack_count; i++) {
    const stack_totals_t *s = &replay->stacks[i];
    /* A recording of live blocks has no allocated counts. */
    uint64_t count = s->allocated.count ? s->allocated.count : s->at_peak.count;
    int depth = reader_program_stack(replay->reader, s->stack, frames, FRAMES_MAX);
    if (depth <= 0) {
      out->undefined += count;
      continue;
    }
    bool complete = depth <= FRAMES_MAX;
    for (int k = 0; k < depth && k < FRAMES_MAX; k++)
      if (!frames[k]->image && frames[k]->pc <= FRAME_PC_TRUNCATED) complete = false;
    if (complete) out->complete += count;
    if ((uint32_t)depth > out->deepest) out->deepest = (uint32_t)depth;
    out->allocations[depth < DEPTHS ? depth : DEPTHS - 1] += count;
  }
}

uint32_t depths_quantile(const depths_t *depths, double share) {
  uint64_t total = 0, sum = 0;
  for (int i = 0; i < DEPTHS; i++)
    total += depths->allocations[i];
  for (uint32_t i = 0; i < DEPTHS; i++) {
    sum += depths->allocations[i];
    if ((double)sum >= share * (double)total) return i;
  }
  return DEPTHS - 1;
}

static uint64_t hash_of(const char *key, const char *home) {
  return hash_text(hash_text(HASH_START, key), home);
}

static uint64_t hash_of_item(const void *groups, size_t i) {
  const aggregate_row_t *row = &((const aggregate_t *)groups)->items[i];
  return hash_of(row->key, row->home);
}

bool aggregate_add(aggregate_t *g, const char *key, const char *home, const stack_totals_t *s) {
  if (!hash_reserve(&g->index, g->count, hash_of_item, g)) return false;
  uint32_t *slot;
  HASH_FIND(&g->index, hash_of(key, home), slot) {
    const aggregate_row_t *row = &g->items[*slot - 1];
    if (!strcmp(row->key, key) && !strcmp(row->home, home)) break;
  }
  if (!*slot) {
    if (!ARRAY_GROW(g->items, g->count, g->capacity)) return false;
    g->items[g->count] = (aggregate_row_t){.key = key, .home = home, .totals.stack = s->stack};
    *slot = (uint32_t)++g->count;
  }
  aggregate_row_t *row = &g->items[*slot - 1];
  stack_totals_add(&row->totals, s);
  row->stacks++;
  return true;
}

static int by_totals(const void *left, const void *right, void *context) {
  const aggregate_row_t *a = left, *b = right;
  measure_t measure = *(measure_t *)context;
  int64_t x = measure_of(&a->totals, measure), y = measure_of(&b->totals, measure);
  if (x != y) return x > y ? -1 : 1;
  int order = strcmp(a->key, b->key);
  return order ? order : strcmp(a->home, b->home);
}

void aggregate_rank(aggregate_t *g, measure_t measure) {
  if (g->count) qsort_r(g->items, g->count, sizeof *g->items, by_totals, &measure);
  hash_free(&g->index); /* sorting changed the items' numbers */
}

void aggregate_free(aggregate_t *g) {
  free(g->items);
  hash_free(&g->index);
}
