/* SPDX-License-Identifier: MIT */
#include "analysis/malloc/estimate.h"
#include "analysis/malloc/replay.h"

static bool add_block(replay_t *r, live_block_t block) {
  stack_totals_t *s = replay_stack(r, block.stack);
  if (!s) return false;
  if (live_set_find(&r->blocks, block.address)) return true;
  block.stack = (uint32_t)(s - r->stacks);
  if (!live_set_add(&r->blocks, &block)) return false;
  const counts_t more = {block.weight, estimate_scale(block.size, block.weight)};
  counts_add(&s->live, more);
  counts_add(&r->live, more);
  return true;
}

bool replay_add_carried(replay_t *r) {
  for (size_t i = 0; i < r->options->carried_count; i++)
    if (!add_block(r, r->options->carried[i])) return false;
  return true;
}
