/* SPDX-License-Identifier: MIT */
#include "analysis/samples.h"

#include <stdlib.h>

#include "base/array.h"

/* NULL when memory runs out. */
static sample_stack_t *find_stack(samples_t *s, uint32_t id) {
  uint32_t number = ids_find(&s->ids, id);
  if (number) return &s->stacks[number - 1];
  if (!ARRAY_GROW(s->stacks, s->stack_count, s->stack_capacity) ||
      !ids_set(&s->ids, id, (uint32_t)s->stack_count))
    return NULL;
  sample_stack_t *added = &s->stacks[s->stack_count++];
  *added = (sample_stack_t){.stack = id};
  return added;
}

bool samples_add(void *samples, const record_event_t *e) {
  samples_t *s = samples;
  sample_stack_t *stack = find_stack(s, e->stack);
  if (!stack) return false;
  stack->ticks += sample_ticks(e);
  stack->missed += e->size;
  s->ticks += sample_ticks(e);
  s->missed += e->size;
  return true;
}

static int by_ticks(const void *left, const void *right) {
  const sample_stack_t *a = left, *b = right;
  if (a->ticks != b->ticks) return a->ticks > b->ticks ? -1 : 1;
  return a->stack < b->stack ? -1 : a->stack > b->stack;
}

void samples_rank(samples_t *s) {
  if (s->stack_count) qsort(s->stacks, s->stack_count, sizeof *s->stacks, by_ticks);
}

void samples_free(samples_t *s) {
  free(s->stacks);
  ids_free(&s->ids);
  memset(s, 0, sizeof *s);
}
