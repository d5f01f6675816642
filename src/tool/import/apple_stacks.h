/* SPDX-License-Identifier: MIT
 *
 * The stacks of a log: which of the table's nodes are named by events, whose thread they are, and
 * the recording's tables of them.
 */
#ifndef SONDE_IMPORT_APPLE_STACKS_H
#define SONDE_IMPORT_APPLE_STACKS_H

#include "import/apple.h"

/* Of a node, in `states`: 0 not met, else the number of its stream + 1 in the low bits. */
#define STATE_STREAM 0x3fffu
#define STATE_OPEN   0x4000u /* on the way that is being walked */
#define STATE_CUT    0x8000u /* its parent is not to be followed */

#define STACKS_WITHOUT_TABLE (1u << 28) /* higher ids are left out: a bit each is kept */

typedef struct apple_stacks {
  const apple_table_t *table; /* NULL: none */
  offline_t *to;
  apple_summary_t *summary;
  uint16_t *states; /* by node */
  uint8_t *used;    /* without a table: a bit for each id */
  uint64_t highest; /* of these */
  uint64_t state_bytes;
  stream_t *streams[OFFLINE_STREAMS_MAX];
  uint64_t handles[OFFLINE_STREAMS_MAX]; /* the pthread of each; 0: not known */
  uint32_t stream_count;
  uint32_t *slots; /* of a hash of handles: stream + 1 */
  uint64_t *path;  /* nodes on the way that is being walked */
  size_t path_room;
} apple_stacks_t;

bool apple_stacks_open(apple_stacks_t *stacks);
void apple_stacks_close(apple_stacks_t *stacks);

/* Meets node NODE of the table for the first time. False: no memory. */
NOINLINE bool apple_stacks_meet(apple_stacks_t *stacks, uint64_t node);

/* The stream for an event of stack ID, and in *STACK the recording's id of it. NULL: no memory. */
static ALWAYS_INLINE stream_t *apple_stacks_find(apple_stacks_t *s, uint64_t id, uint32_t *stack) {
  if (LIKELY(s->table != NULL)) {
    if (UNLIKELY(id >= s->table->count || id >= UINT32_MAX - 1)) {
      *stack = 0;
      s->summary->unknown_stacks++;
      return s->streams[0];
    }
    if (UNLIKELY(!s->states[id]) && !apple_stacks_meet(s, id)) return NULL;
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

/* Writes images, frames and nodes. False: no memory. */
bool apple_stacks_write(apple_stacks_t *stacks, const image_list_t *images,
                        const uint64_t *link_bases);

#endif
