/* SPDX-License-Identifier: MIT
 *
 * The totals of stacks and of threads, by id.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/malloc/replay.h"
#include "base/array.h"

#define STREAMS_MAX (1u << 20)

/* ---- stacks ------------------------------------------------------------------------------- */

/* A stack that equals an earlier one shares its totals. */
stack_totals_t *replay_new_stack(replay_t *r, uint32_t id) {
  uint32_t first;
  if (!stack_dedup_first(r->dedup, id, &first)) return NULL;
  stack_totals_t *s = NULL;
  if (first != id) {
    s = replay_stack(r, first);
  } else if (ARRAY_GROW(r->stacks, r->stack_count, r->stack_capacity)) {
    s = &r->stacks[r->stack_count++];
    *s = (stack_totals_t){.stack = id};
  }
  return s && ids_set(&r->stack_ids, id, (uint32_t)(s - r->stacks)) ? s : NULL;
}

/* ---- threads ------------------------------------------------------------------------------ */

static thread_totals_t *new_thread(replay_t *r, uint32_t stream) {
  static thread_totals_t beyond; /* more streams than threads can exist: a damaged file */
  if (stream >= STREAMS_MAX) return &beyond;
  size_t count = stream < 32 ? 64 : 2 * (size_t)stream;
  thread_totals_t *grown = realloc(r->threads, count * sizeof *grown);
  if (!grown) return NULL;
  memset(grown + r->thread_count, 0, (count - r->thread_count) * sizeof *grown);
  for (size_t i = r->thread_count; i < count; i++)
    grown[i].stream = (uint32_t)i;
  r->threads = grown;
  r->thread_count = count;
  return &r->threads[stream];
}

thread_totals_t *replay_thread(replay_t *r, uint32_t stream) {
  return stream < r->thread_count ? &r->threads[stream] : new_thread(r, stream);
}
