/* SPDX-License-Identifier: MIT */
#include "capture/stack_table.h"
#include "capture/frame_table.h"
#include "base/leveled_map.h"

#define PENDING (UINT64_C(1) << 31) /* frame ids have 24 bits */

struct nodes nodes;
HIDDEN void (*nodes_publish)(uint32_t id, uint32_t parent, uint32_t frame);

static uint32_t publish(uint64_t *slot, uint32_t id, uint64_t word) {
  if (nodes_publish) nodes_publish(id, (uint32_t)(word >> 32), (uint32_t)word);
  store_release(slot, word);
  return id;
}

bool nodes_init(void) {
  return levels_map((void **)&nodes.level[0], NODES_BITS, sizeof(uint64_t), true) != NULL;
}

uint32_t nodes_child_slow(uint32_t parent, uint32_t frame) {
  uint64_t word = (uint64_t)parent << 32 | frame, hash = levels_hash(word);
  if (parent == NODES_FULL || frame == FRAMES_FULL) return NODES_FULL;
  for (unsigned level = 0; level < LEVELS_MAX; level++) {
    unsigned bits = levels_bits(NODES_BITS, level);
    uint64_t *slots = levels_map((void **)&nodes.level[level], bits, sizeof(uint64_t), level == 0);
    if (!slots) return NODES_FULL;
    uint32_t home = (uint32_t)(hash >> (64 - bits));
    for (uint32_t i = 0; i < NODES_BUCKET; i++) {
      uint32_t index = home ^ i; /* within the same cache line */
      uint64_t found = load_relaxed(&slots[index]);
      uint32_t id = levels_first(NODES_BITS, level) + index;
      if (found == 0 && cas_acq_rel(&slots[index], &found, word | PENDING)) found = word | PENDING;
      if (found == word) return id;
      if (found == (word | PENDING)) return publish(&slots[index], id, word);
    }
  }
  return NODES_FULL;
}

bool nodes_get(uint32_t id, uint32_t *parent, uint32_t *frame) {
  unsigned level;
  uint32_t index;
  if (!levels_locate(NODES_BITS, id, &level, &index)) return false;
  uint64_t *slots = load_acquire(&nodes.level[level]);
  uint64_t word = slots ? load_relaxed(&slots[index]) : 0;
  *parent = (uint32_t)(word >> 32);
  *frame = (uint32_t)(word & ~PENDING);
  return word != 0;
}
