/* SPDX-License-Identifier: MIT
 *
 * The stacks of a log: the nodes of the stack table that events refer to, their threads, and the
 * recording's tables of them.
 */
#ifndef SONDE_IMPORT_APPLE_STACKS_H
#define SONDE_IMPORT_APPLE_STACKS_H

#include "base/hash.h"
#include "import/apple.h"

/* The state of a node. 0: not visited; else the number + 1 of its stream, and flags. */
#define STATE_STREAM    0x3fffu
#define STATE_OPEN      0x4000u /* on the path that is walked */
#define STATE_TRUNCATED 0x8000u /* its parent is invalid */

/* Without a table, ids from here on are ignored: one bit is kept for each id. */
#define STACKS_WITHOUT_TABLE (1u << 28)

typedef struct apple_stacks {
  const apple_table_t *table; /* NULL: none */
  offline_t *to;
  apple_summary_t *summary;
  uint16_t *states; /* by node */
  uint8_t *used;    /* without a table: a bit for each id */
  uint64_t highest; /* id in `used` */
  uint64_t state_bytes;
  stream_t *streams[OFFLINE_STREAMS_MAX];
  uint64_t handles[OFFLINE_STREAMS_MAX]; /* the pthread of each stream; 0: unknown */
  uint32_t stream_count;
  hash_index_t handle_index;
  uint64_t *path; /* the nodes of the current walk */
  size_t path_capacity;
} apple_stacks_t;

/* STACKS begin as zeros except `table`, `to` and `summary`. False when memory runs out. */
bool apple_stacks_open(apple_stacks_t *stacks);
void apple_stacks_close(apple_stacks_t *stacks);

/* Finds the stream of node NODE, which was not visited. False when memory runs out. */
NOINLINE bool apple_stacks_visit(apple_stacks_t *stacks, uint64_t node);

/* The stream for an event with stack ID; sets *STACK to the recording's id of the stack. NULL when
 * memory runs out. */
static ALWAYS_INLINE stream_t *apple_stacks_find(apple_stacks_t *s, uint64_t id, uint32_t *stack) {
  if (LIKELY(s->table != NULL)) {
    if (UNLIKELY(id >= s->table->count || id >= UINT32_MAX - 1)) {
      *stack = 0;
      s->summary->unknown_stacks++;
      return s->streams[0];
    }
    if (UNLIKELY(!s->states[id]) && !apple_stacks_visit(s, id)) return NULL;
    *stack = (uint32_t)id + 1;
    return s->streams[(s->states[id] & STATE_STREAM) - 1];
  }
  if (UNLIKELY(id >= STACKS_WITHOUT_TABLE)) {
    *stack = 0;
    s->summary->unknown_stacks++;
  } else {
    s->used[id / 8] |= (uint8_t)(1u << id % 8);
    if (id > s->highest) s->highest = id;
    *stack = (uint32_t)id + 1;
  }
  return s->streams[0];
}

/* Writes images, frames and nodes. False when memory runs out. */
bool apple_stacks_write(apple_stacks_t *stacks, const image_list_t *images,
                        const uint64_t *link_bases);

#endif
