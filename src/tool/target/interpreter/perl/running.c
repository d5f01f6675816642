/* SPDX-License-Identifier: MIT */
#include "target/interpreter/perl/running.h"

#include "target/interpreter/stack_words.h"

#define STACK_MAX (UINT64_C(1) << 20)

typedef struct scan {
  perl_running_t *out;
  perl_pages_t *pages;
  const perl_layout_t *layout;
  const perl_range_t *stack;
  /* the innermost one of each interpreter that was found */
  uint64_t environments[PERL_RUNNING_MAX];
} scan_t;

perl_range_t perl_stack_of(const interpreter_t *self) {
  uint64_t start = self->sp & ~UINT64_C(7);
  const mapping_t *m = maps_find(&self->target->maps, start);
  if (m) return (perl_range_t){start, m->end};
  return (perl_range_t){start, start < UINT64_MAX - STACK_MAX ? start + STACK_MAX : UINT64_MAX};
}

static void add_known(perl_running_t *r, uint64_t interpreter) {
  for (size_t i = 0; i < r->known_count; i++)
    if (r->known[i] == interpreter) return;
  if (r->known_count < PERL_RUNNING_MAX) r->known[r->known_count++] = interpreter;
}

/* Adds the interpreter at ADDRESS if it runs on the stack. */
static void add_if_running(scan_t *s, uint64_t address) {
  perl_running_t *r = s->out;
  uint64_t environment;
  size_t at = r->count;
  if (address % 8 || !address ||
      !perl_runs_on(s->pages, s->layout, address, s->stack, &environment))
    return;
  for (size_t i = 0; i < r->count; i++)
    if (r->items[i] == address) return;
  if (r->count == PERL_RUNNING_MAX) return;
  for (; at && s->environments[at - 1] > environment; at--) {
    r->items[at] = r->items[at - 1];
    s->environments[at] = s->environments[at - 1];
  }
  r->items[at] = address;
  s->environments[at] = environment;
  r->count++;
  add_known(r, address);
}

static void look_at(void *context, uint64_t word) { add_if_running(context, word); }

void perl_running_find(perl_running_t *r, perl_pages_t *pages, const perl_layout_t *layout,
                       uint64_t first, const perl_range_t *stack) {
  scan_t s = {.out = r, .pages = pages, .layout = layout, .stack = stack};
  r->count = 0;
  if (stack->start >= stack->end) return;
  add_if_running(&s, first);
  for (size_t i = 0; i < r->known_count; i++)
    add_if_running(&s, r->known[i]);
  /* An environment that refers to an interpreter, and does not belong to it, is no proof: the chain
   * of environments is checked when the blocks are read. */
  if (!r->count) stack_words_each(pages->memory, stack->start, stack->end, look_at, &s);
}
