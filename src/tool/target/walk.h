/* SPDX-License-Identifier: MIT
 *
 * Walks a whole stack: from registers to a list of frames, with the unwinder of unwind/.
 */
#ifndef SONDE_TARGET_WALK_H
#define SONDE_TARGET_WALK_H

#include "target/target.h"

typedef struct walk {
  /* owned */
  frame_t *frames;
  uint32_t count, capacity;
  ending_t ending;
  const char *reason;
  /* the frame register was inferred */
  bool proven;
  /* the walk needs a register that only a stop can read */
  bool wants_registers;
  /* as in thread_t */
  const char *frames_problem;
} walk_t;

/* Walks from REGS, at most DEPTH frames, into WALK, which is zeros or from an earlier walk. */
void walk_stack(target_t *target, const regs_t *regs, uint32_t depth, walk_t *walk);

/* Moves the frames of WALK to THREAD. */
void walk_give(walk_t *walk, thread_t *thread);

#endif
