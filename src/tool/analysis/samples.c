/* SPDX-License-Identifier: MIT */
#include "analysis/samples.h"

#include <stdlib.h>

#include "base/array.h"

static uint64_t hash_of_stack(const void *samples, size_t i) {
  return hash_number(((const samples_t *)samples)->stacks[i].stack);
}

static sample_stack_t *add_stack(samples_t *s, uint32_t id) {
  if (!ARRAY_GROW(s->stacks, s->stack_count, s->stack_capacity)) return NULL;
  s->stacks[s->stack_count++] = (sample_stack_t){.stack = id};
  return &s->stacks[s->stack_count - 1];
}

/* NULL when memory runs out. From the first id that is not dense on, new ids are in the index. */
static sample_stack_t *find_stack(samples_t *s, uint32_t id) {
  uint32_t *slot, number = ids_find(&s->ids, id);
  if (number) return &s->stacks[number - 1];
  if (!s->index.slots && ids_set(&s->ids, id, s->stack_count, (uint32_t)s->stack_count))
    return add_stack(s, id);
  if (!hash_reserve(&s->index, s->stack_count, hash_of_stack, s)) return NULL;
  HASH_FIND(&s->index, hash_number(id), slot) {
    if (s->stacks[*slot - 1].stack == id) return &s->stacks[*slot - 1];
  }
  sample_stack_t *added = add_stack(s, id);
  if (added) *slot = (uint32_t)s->stack_count;
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
  hash_free(&s->index);
  memset(s, 0, sizeof *s);
}
