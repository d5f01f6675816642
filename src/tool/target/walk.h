/* SPDX-License-Identifier: MIT
 *
 * From registers to a list of frames: the walker of unwind/, driven to the end.
 */
#ifndef SONDE_TARGET_WALK_H
#define SONDE_TARGET_WALK_H

#include "target/target.h"

typedef struct walk {
  frame_t *frames; /* owned, grows */
  uint32_t count, room;
  ending_t ending;
  const char *reason;
  bool proven;          /* the frame register was recovered by proof */
  bool wants_registers; /* ended because a register is not known that a stop would tell */
} walk_t;

/* Walks from REGS, at most DEPTH frames, into WALK (which is zeroed or was used before). */
void walk_stack(target_t *target, const regs_t *regs, uint32_t depth, walk_t *walk);

/* Gives the frames of WALK to THREAD. */
void walk_give(walk_t *walk, thread_t *thread);

#endif
