/* SPDX-License-Identifier: MIT
 *
 * The slow path of the stack table: finds a node in further levels, or makes and records it.
 */
#include "capture/stack_table.h"
#include "capture/frame_table.h"
#include "capture/python/python_frames.h"

/* Frame ids have 24 bits. */
#define PENDING (UINT64_C(1) << 31)

struct stack_table stack_table;
HIDDEN void (*stack_table_on_new)(uint32_t id, uint32_t parent, uint32_t frame);

static uint32_t store_node(uint64_t *slot, uint32_t id, uint64_t word) {
  if (stack_table_on_new) stack_table_on_new(id, (uint32_t)(word >> 32), (uint32_t)word);
  store_release(slot, word);
  return id;
}

bool stack_table_init(void) {
  return leveled_map((void **)&stack_table.level[0], STACK_TABLE_BITS, sizeof(uint64_t)) != NULL;
}

#if defined(SONDE_DEBUG)
/* True if PARENT is a node or 0, and FRAME is a frame. */
static bool node_is_valid(uint32_t parent, uint32_t frame) {
  uint32_t outer, outer_frame;
  frame_info_t info;
  return (parent == 0 || stack_table_get(parent, &outer, &outer_frame)) &&
         (python_frame_is(frame) || frame_table_get(frame, &info));
}
#endif

uint32_t stack_table_child_slow(uint32_t parent, uint32_t frame) {
  uint64_t word = (uint64_t)parent << 32 | frame, hash = leveled_hash(word);
  if (parent == STACK_TABLE_FULL || frame == FRAME_TABLE_FULL) return STACK_TABLE_FULL;
  SONDE_ASSERT(node_is_valid(parent, frame));
  for (unsigned level = 0; level < LEVELED_MAX; level++) {
    unsigned bits = leveled_bits(STACK_TABLE_BITS, level);
    uint64_t *slots = leveled_map((void **)&stack_table.level[level], bits, sizeof(uint64_t));
    if (!slots) return STACK_TABLE_FULL;
    uint32_t bucket = (uint32_t)(hash >> (64 - bits));
    for (uint32_t i = 0; i < STACK_TABLE_BUCKET; i++) {
      uint32_t index = bucket ^ i; /* Within the same cache line. */
      uint64_t found = load_relaxed(&slots[index]);
      uint32_t id = leveled_first(STACK_TABLE_BITS, level) + index;
      if (found == 0 && cas_acq_rel(&slots[index], &found, word | PENDING)) found = word | PENDING;
      if (found == word) return id;
      if (found == (word | PENDING)) return store_node(&slots[index], id, word);
    }
  }
  return STACK_TABLE_FULL;
}

bool stack_table_get(uint32_t id, uint32_t *parent, uint32_t *frame) {
  unsigned level;
  uint32_t index;
  if (!leveled_locate(STACK_TABLE_BITS, id, &level, &index)) return false;
  uint64_t *slots = load_acquire(&stack_table.level[level]);
  uint64_t word = slots ? load_relaxed(&slots[index]) : 0;
  *parent = (uint32_t)(word >> 32);
  *frame = (uint32_t)(word & ~PENDING);
  return word != 0;
}
