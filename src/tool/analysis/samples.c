/* SPDX-License-Identifier: MIT */
#include "analysis/samples.h"

#include <stdlib.h>

static size_t hash_of(uint32_t id) { return (size_t)(id * UINT64_C(0x9e3779b97f4a7c15) >> 32); }

static bool grow(samples_t *s) {
  size_t room = s->room ? 2 * s->room : 256, mask = 4 * room - 1;
  sample_stack_t *stacks = realloc(s->stacks, room * sizeof *stacks);
  if (!stacks) return false;
  s->stacks = stacks;
  uint32_t *slots = calloc(mask + 1, sizeof *slots);
  if (!slots) return false;
  for (size_t n = 0; n < s->stack_count; n++) {
    size_t i = hash_of(stacks[n].stack) & mask;
    while (slots[i])
      i = (i + 1) & mask;
    slots[i] = (uint32_t)(n + 1);
  }
  free(s->slots);
  s->slots = slots;
  s->mask = mask;
  s->room = room;
  return true;
}

bool samples_add(void *samples, const record_event_t *e) {
  samples_t *s = samples;
  if (s->stack_count == s->room && !grow(s)) return false;
  size_t i = hash_of(e->stack) & s->mask;
  while (s->slots[i] && s->stacks[s->slots[i] - 1].stack != e->stack)
    i = (i + 1) & s->mask;
  if (!s->slots[i]) {
    s->stacks[s->stack_count] = (sample_stack_t){.stack = e->stack};
    s->slots[i] = (uint32_t)++s->stack_count;
  }
  sample_stack_t *stack = &s->stacks[s->slots[i] - 1];
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
  free(s->slots);
  memset(s, 0, sizeof *s);
}
