/* SPDX-License-Identifier: MIT
 *
 * Event loops of a program without the agent, found by what its threads wait for.
 *
 * A thread that was found at least twice in the same event wait, and ran in between, is a loop. A
 * single wait for anything else, deeper on the stack than the event wait, is a part of an
 * iteration. Its time is known without doubt: the thread got no CPU since the poll that found it.
 * So such a wait counts as an iteration, from that poll until the thread runs again. Iterations
 * that use the CPU, or that wait many times for a short time, look from outside like many short
 * iterations, and are not reported.
 *
 * The iterations go into the table that the agent would fill (record/shared/loops.h). Only the
 * thread of the stall monitor uses these functions, so the table needs no order of writes.
 */
#ifndef SONDE_RECORDER_MONITOR_OUTSIDE_LOOPS_H
#define SONDE_RECORDER_MONITOR_OUTSIDE_LOOPS_H

#include "recorder/monitor/thread_stacks.h"

/* What is known of a thread. Initially zeros. */
typedef struct outside_loop {
  /* how often it had got a CPU when it was polled last */
  uint64_t slices;
  /* the stack pointer of its outermost event wait, and how often it was found there */
  uint64_t site;
  uint32_t visits;
  /* its state since it got a CPU last is known */
  bool is_settled;
  /* when the current wait was found, if it is part of an iteration; 0: there is none */
  uint64_t began;
} outside_loop_t;

typedef struct outside_poll {
  /* in the unit of events */
  uint64_t time;
  uint64_t slices;
  bool is_blocked, is_event_wait;
  uint64_t sp;
} outside_poll_t;

/* Whether the thread has to be read: it got a CPU since the last poll. */
bool outside_loop_has_run(const outside_loop_t *loop, uint64_t slices);

/* Accounts for one reading of the thread. */
void outside_loop_step(outside_loop_t *loop, const outside_poll_t *poll);

typedef struct outside_loops outside_loops_t;

/* NULL: out of memory. STACKS is for the same program and stays valid. */
outside_loops_t *outside_loops_new(thread_stacks_t *stacks);
void outside_loops_free(outside_loops_t *loops);

/* Reads the threads that have run, and updates the table of loops. NOW is in the unit of events. */
void outside_loops_poll(outside_loops_t *loops, uint64_t now);

#endif
