/* SPDX-License-Identifier: MIT
 *
 * The totals of stacks and of threads, by id.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/malloc/replay.h"
#include "base/array.h"
#include "base/ids.h"

#define STREAMS_MAX (1u << 20)

/* ---- stacks ------------------------------------------------------------------------------- */

bool replay_make_direct(replay_t *r) {
  size_t count;
  const record_node_t *nodes = reader_nodes(r->reader, &count);
  uint32_t largest = 0;
  for (size_t i = 0; i < count; i++)
    if (nodes[i].id > largest) largest = nodes[i].id;
  if (largest >= IDS_ALWAYS && largest / IDS_PER_ITEM > count) largest = 0;
  r->direct_count = largest + 1;
  r->stack_direct = calloc((size_t)largest + 1, sizeof *r->stack_direct);
  return r->stack_direct != NULL;
}

static uint64_t hash_of_known(const void *table, size_t i) {
  return hash_number(((const replay_t *)table)->known[i].stack);
}

/* Maps ID to the totals with the number INDEX. */
static bool map_stack(replay_t *r, uint32_t id, uint32_t index) {
  if (id < r->direct_count) {
    r->stack_direct[id] = index + 1;
    return true;
  }
  if (!ARRAY_GROW(r->known, r->known_count, r->known_capacity) ||
      !hash_reserve(&r->stack_index, r->known_count, hash_of_known, r))
    return false;
  r->known[r->known_count++] = (stack_entry_t){id, index};
  *hash_free_slot(&r->stack_index, hash_number(id)) = (uint32_t)r->known_count;
  return true;
}

/* A stack that equals an earlier one shares its totals. */
static stack_totals_t *new_stack(replay_t *r, uint32_t id) {
  uint32_t first;
  if (!stack_dedup_first(r->dedup, id, &first)) return NULL;
  stack_totals_t *s = NULL;
  if (first != id) {
    s = replay_stack(r, first);
  } else if (ARRAY_GROW(r->stacks, r->stack_count, r->stack_capacity)) {
    s = &r->stacks[r->stack_count++];
    *s = (stack_totals_t){.stack = id};
  }
  return s && map_stack(r, id, (uint32_t)(s - r->stacks)) ? s : NULL;
}

stack_totals_t *replay_stack(replay_t *r, uint32_t id) {
  if (id < r->direct_count) {
    uint32_t index = r->stack_direct[id];
    return index ? &r->stacks[index - 1] : new_stack(r, id);
  }
  if (r->stack_index.slots) {
    const uint32_t *slot;
    HASH_FIND(&r->stack_index, hash_number(id), slot) {
      const stack_entry_t *known = &r->known[*slot - 1];
      if (known->stack == id) return &r->stacks[known->index];
    }
  }
  return new_stack(r, id);
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
