/* SPDX-License-Identifier: MIT
 *
 * When a turn is a stall: pure functions of what was seen, so that tests can simulate time.
 *
 * A turn's *own* time is its age less what was not the program's doing: time in which its thread
 * was stopped or frozen, was ready to run and got no CPU, or in which the watcher itself came so
 * late that it cannot tell. A stall is a turn whose own time reaches the threshold.
 *
 * Waiting for a CPU is told twice by the kernel: in the run-queue field, exactly, but only once the
 * thread has got its CPU; and at once by a thread that is ready (R) and does not run. The larger of
 * the two counts. The time on a CPU is itself booked by the timer's tick (4 ms), so small
 * differences are not believed.
 */
#ifndef SONDE_SENSOR_STALL_RULES_H
#define SONDE_SENSOR_STALL_RULES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct stall_rules {
  uint64_t threshold_ns;
  uint64_t tick_ns; /* between two looks */
} stall_rules_t;

stall_rules_t stall_rules_for(uint64_t threshold_ns);

/* One look at the thread. */
typedef struct stall_poll {
  uint64_t now_ns;
  uint64_t late_ns; /* how much later than meant it took place */
  char state;       /* as in proc(5) */
  bool frozen;
  uint64_t run_ns, runq_ns; /* of the thread, since its start */
} stall_poll_t;

/* A turn under watch. Begins as zeros but for began_ns and threshold_ns. */
typedef struct stall_iteration {
  uint64_t began_ns;
  uint64_t threshold_ns; /* longer than the rules' where the program declared so */
  bool looked, reported;
  stall_poll_t first, last;
  uint64_t late_ns, stopped_ns; /* not the program's */
  int64_t ready_ns;             /* ready, and not running */
  uint64_t next_sample_ns;
  uint32_t samples;
} stall_iteration_t;

#define STALL_DO_SAMPLE 1u
#define STALL_DO_REPORT 2u

/* Takes a look into account; says what to do: a set of STALL_DO_…. */
unsigned stall_iteration_poll(stall_iteration_t *turn, const stall_rules_t *rules,
                              const stall_poll_t *look);

/* Of the turn as it was at its last look. */
uint64_t stall_iteration_runq_wait_ns(const stall_iteration_t *turn);
uint64_t stall_iteration_active_ns(const stall_iteration_t *turn, uint64_t now_ns);

/* When to look next at a turn that goes on. */
uint64_t stall_iteration_next_poll_ns(const stall_iteration_t *turn, const stall_rules_t *rules,
                                      uint64_t now_ns);

#endif
