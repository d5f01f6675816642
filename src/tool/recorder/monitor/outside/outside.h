/* SPDX-License-Identifier: MIT
 *
 * Samples one thread of the program from outside. The kernel takes the samples (perf_ticks.h);
 * their stacks are unwound here.
 */
#ifndef SONDE_RECORDER_MONITOR_OUTSIDE_OUTSIDE_H
#define SONDE_RECORDER_MONITOR_OUTSIDE_OUTSIDE_H

#include "recorder/monitor/thread_stacks.h"
#include "target/perf_ticks.h"

typedef struct outside {
  perf_ticks_t ticks;
  bool on;
  /* that a sample stands for, and between two samples */
  uint64_t interval_ns, pause_ns;
  /* of the thread at the start, by its own clock */
  uint64_t start_ns;
  /* before the start, that the first sample also counts for */
  uint64_t before_ns;
  /* that samples stand for so far, with before_ns */
  uint64_t written_ns;
  /* CPU time until the last sample, by the clock of the samples */
  uint64_t sampled_ns;
  /* time of the thread's clock for that of the samples, which includes interrupts and the time that
   * a hypervisor took */
  double ratio;
  monitor_stream_t *stream;
} outside_t;

/* Starts sampling the thread TID, called NAME, at the rate and pace of CONTROL. Its CPU time is
 * RUN_NS now. The first sample also counts for the BEFORE_NS before. False if the system refuses
 * it. */
bool outside_start(outside_t *o, monitor_writer_t *writer, pid_t tid, const char *name,
                   const shm_control_t *control, uint64_t run_ns, uint64_t before_ns);

/* Follows a change of the pace. */
void outside_set_pause(outside_t *o, uint64_t pause_ns);

/* Writes the samples since the last call. RUN_NS is the thread's CPU time now. Returns its CPU time
 * at its last sample; 0 if there was no new one. */
uint64_t outside_read(outside_t *o, thread_stacks_t *stacks, uint64_t run_ns);

/* The CPU time of a thread that has ended, whose own clock was RUN_NS when it was read last: the
 * kernel keeps the samples and their clock. */
uint64_t outside_end_ns(const outside_t *o, uint64_t run_ns);
void outside_stop(outside_t *o);

#endif
