/* SPDX-License-Identifier: MIT
 *
 * A window: the range of stack memory that a walk may read without a check.
 *
 * A window covers either verified pages of this process or a copy of another thread's stack.
 * Addresses are those of the stack; DELTA converts them to where the bytes are. The walk extends
 * the window when a frame lies beyond its end. A window belongs to one walk and takes no lock.
 */
#ifndef SONDE_CAPTURE_STACK_WINDOW_H
#define SONDE_CAPTURE_STACK_WINDOW_H

#include "base/bits.h"

typedef struct stack_window stack_window_t;
struct stack_window {
  /* [lo, hi) may be read. */
  uint64_t lo, hi;
  /* Added to an address, gives the address of its bytes. */
  uint64_t delta;
  /* Makes [lo, ADDRESS + 8) readable and keeps DELTA. Returns false if it cannot. */
  bool (*reach)(stack_window_t *self, uint64_t address);
  /* Moves the window to the stack that SP points into, since a signal frame may lead to another
   * stack. Returns false if that stack is unreadable. May be NULL. */
  bool (*move)(stack_window_t *self, uint64_t sp);
};

static ALWAYS_INLINE bool stack_window_holds(const stack_window_t *w, uint64_t sp) {
  return sp - 8 >= w->lo && sp < w->hi;
}

static ALWAYS_INLINE const uint64_t *stack_window_at(const stack_window_t *w, uint64_t address) {
  return (const uint64_t *)(uintptr_t)(address + w->delta);
}

#define STACK_WINDOW_PAGE 4096u

/* True if every page of [FROM, TO) of this process is readable. FROM is a multiple of
 * STACK_WINDOW_PAGE. */
bool stack_window_probe(uint64_t from, uint64_t to);

/* Returns an empty window over the memory of this process. Its `move` and `reach` verify each page
 * before the walk reads it. */
stack_window_t stack_window_of_process(void);

#endif
