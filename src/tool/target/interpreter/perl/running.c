/* SPDX-License-Identifier: MIT */
#include "target/interpreter/perl/running.h"

#include <stdlib.h>

#include "base/load.h"

#define STACK_MAX  (UINT64_C(1) << 20)
#define SEEN_SLOTS 16384u /* a power of two */

typedef struct scan {
  perl_running_t *out;
  perl_pages_t *pages;
  const perl_layout_t *layout;
  const perl_range_t *stack;
  /* the innermost one of each interpreter that was found */
  uint64_t environments[PERL_RUNNING_MAX];
  /* words that were looked at: a hash table of which at most a half is used */
  uint64_t *seen;
  size_t seen_count;
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

/* Whether WORD was not looked at before. */
static bool is_new(scan_t *s, uint64_t word) {
  size_t i = (size_t)(word * UINT64_C(0x9e3779b97f4a7c15) >> 40) & (SEEN_SLOTS - 1);
  for (; s->seen[i]; i = (i + 1) & (SEEN_SLOTS - 1))
    if (s->seen[i] == word) return false;
  if (s->seen_count == SEEN_SLOTS / 2) return false;
  s->seen[i] = word;
  s->seen_count++;
  return true;
}

static void look_at(scan_t *s, uint64_t word) {
  bool is_pointer = word >= PERL_PAGE_BYTES && word >> 47 == 0 && word % 8 == 0 &&
                    (word < s->stack->start || word >= s->stack->end);
  if (is_pointer && is_new(s, word)) add_if_running(s, word);
}

/* An environment that refers to an interpreter, and does not belong to it, is no proof: the chain
 * of environments is checked when the blocks are read. */
static void scan_stack(scan_t *s) {
  uint8_t piece[PERL_PAGE_BYTES];
  uint64_t end = s->stack->end;
  if (end - s->stack->start > STACK_MAX) end = s->stack->start + STACK_MAX;
  s->seen = calloc(SEEN_SLOTS, sizeof *s->seen);
  for (uint64_t at = s->stack->start, size; s->seen && at < end; at += size) {
    size = PERL_PAGE_BYTES - at % PERL_PAGE_BYTES;
    if (size > end - at) size = end - at;
    if (!s->pages->memory->read(s->pages->memory, at, piece, (size_t)size)) break;
    for (uint64_t i = 0; i + 8 <= size; i += 8)
      look_at(s, load64(piece + i));
  }
  free(s->seen);
}

void perl_running_find(perl_running_t *r, perl_pages_t *pages, const perl_layout_t *layout,
                       uint64_t first, const perl_range_t *stack) {
  scan_t s = {.out = r, .pages = pages, .layout = layout, .stack = stack};
  r->count = 0;
  if (stack->start >= stack->end) return;
  add_if_running(&s, first);
  for (size_t i = 0; i < r->known_count; i++)
    add_if_running(&s, r->known[i]);
  if (!r->count) scan_stack(&s);
}
