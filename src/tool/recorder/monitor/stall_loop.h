/* SPDX-License-Identifier: MIT
 *
 * One monitored event loop: its current iteration and the samples of it.
 */
#ifndef SONDE_RECORDER_MONITOR_STALL_LOOP_H
#define SONDE_RECORDER_MONITOR_STALL_LOOP_H

#include "sensor/stall/rules.h"
#include "recorder/monitor/thread_stacks.h"
#include "recorder/monitor/thread_stats.h"

/* Samples kept of an iteration until it is a stall; later ones are written at once. */
#define LOOP_SAMPLES 64

typedef struct loop_sample {
  /* shifted ticks */
  uint64_t time;
  uint32_t stack;
  /* since the first poll of the iteration, which the stats are relative to */
  uint64_t window_ns;
  thread_stats_t stats;
  pid_t owner;
  bool is_mutex;
  uint64_t address;
  char what[WAIT_PATH_MAX];
} loop_sample_t;

typedef struct stall_loop {
  pid_t tid;
  /* when it began, in ticks; 0: none */
  uint64_t iteration;
  /* it was polled before */
  bool seen;
  uint32_t moved;
  /* of the stall; 0: not yet a stall */
  uint64_t number;
  stall_iteration_t state;
  thread_stats_files_t files;
  /* at the first poll, and its time */
  thread_stats_t base;
  uint64_t base_ns;
  /* at the last poll */
  thread_stats_t last;
  loop_sample_t pending[LOOP_SAMPLES];
  int pending_count;
  /* the last sample, reused while the thread does not run */
  loop_sample_t latest;
  /* since `latest` was read */
  bool ran;
  bool requested;
  /* a running lock owner whose stack was requested */
  pid_t owner_requested;
  uint64_t owner_address;
  /* age of the stall at the last note; 0: none */
  uint64_t noted_ns;
  uint64_t flushed_ns;
  /* when the thread was found gone, by both clocks; 0: it exists */
  uint64_t lost, lost_ns;
  /* count of iterations, and the longest in ticks */
  uint64_t iterations, longest;
  uint32_t iterations_seen;
} stall_loop_t;

/* Shared by all loops of a process. */
typedef struct context {
  recording_t *recording;
  monitor_writer_t *writer;
  thread_stacks_t stacks;
  stall_rules_t rules;
  uint64_t stalls;
  double ns_per_tick;
  /* one time in both clocks */
  uint64_t base_ticks, base_ns;
  void (*note)(const char *line);
} stall_context_t;

/* Starts monitoring the iteration that began at ITERATION, in ticks. */
void stall_loop_begin(stall_context_t *w, stall_loop_t *monitored, shm_loop_t *loop,
                      uint64_t iteration);

/* Polls an iteration that lasts. LATE_NS is how late the monitor woke. False if the thread has
 * ended. */
bool stall_loop_poll(stall_context_t *w, stall_loop_t *monitored, shm_loop_t *loop, uint64_t now_ns,
                     uint64_t late_ns);

/* Whether the kernel is still removing the thread. */
bool stall_loop_is_exiting(const stall_loop_t *monitored);

/* The iteration has ended, at END in ticks. */
void stall_loop_end(stall_context_t *w, stall_loop_t *monitored, uint64_t end,
                    stall_ending_t ending);

/* Writes the totals of the loop and releases it. */
void stall_loop_close(stall_context_t *w, stall_loop_t *monitored);

#endif
