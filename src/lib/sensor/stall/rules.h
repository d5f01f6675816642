/* SPDX-License-Identifier: MIT
 *
 * When an iteration is a stall: pure functions of polled facts, so that tests can simulate time.
 *
 * The *active time* of an iteration is its age, less the time in which its thread was stopped or
 * frozen, less the time in which it was ready but waited for a CPU, less the time in which the
 * monitor itself polled too late to know. A stall is an iteration whose active time reaches the
 * threshold.
 *
 * The kernel reports waiting for a CPU twice. The run-queue field is exact, but updated only when
 * the thread gets a CPU. A thread in state R whose CPU time does not grow is waiting now. The
 * larger of the two values is used. The kernel books CPU time at timer ticks (4 ms), so small
 * differences are ignored.
 */
#ifndef SONDE_SENSOR_STALL_RULES_H
#define SONDE_SENSOR_STALL_RULES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct stall_rules {
  uint64_t threshold_ns;
  uint64_t tick_ns; /* between two polls */
} stall_rules_t;

stall_rules_t stall_rules_for(uint64_t threshold_ns);

/* What one poll of the thread found. */
typedef struct stall_poll {
  uint64_t now_ns;
  uint64_t late_ns; /* how much later than planned it took place */
  char state;       /* as in proc(5) */
  bool frozen;
  /* of the thread, since its start: on a CPU, waiting for one */
  uint64_t run_ns, runq_ns;
} stall_poll_t;

/* A watched iteration. Initially zeros, except began_ns and threshold_ns. */
typedef struct stall_iteration {
  uint64_t began_ns;
  uint64_t threshold_ns; /* the rules', or a larger limit that the program declared */
  bool polled, reported;
  stall_poll_t first, last;
  uint64_t late_ns, stopped_ns; /* not active time */
  int64_t ready_ns;             /* in state R, not on a CPU */
  uint64_t next_sample_ns;
  uint32_t samples;
} stall_iteration_t;

#define STALL_DO_SAMPLE 1u
#define STALL_DO_REPORT 2u

/* Accounts for one poll. Returns what to do: a set of STALL_DO_…. */
unsigned stall_iteration_poll(stall_iteration_t *iteration, const stall_rules_t *rules,
                              const stall_poll_t *poll);

/* Time waiting for a CPU, as of the last poll; active time, until NOW_NS. */
uint64_t stall_iteration_runq_wait_ns(const stall_iteration_t *iteration);
uint64_t stall_iteration_active_ns(const stall_iteration_t *iteration, uint64_t now_ns);

/* When to poll an open iteration next. */
uint64_t stall_iteration_next_poll_ns(const stall_iteration_t *iteration,
                                      const stall_rules_t *rules, uint64_t now_ns);

#endif
