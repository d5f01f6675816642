/* SPDX-License-Identifier: MIT
 *
 * One loop under watch: what is known of its present turn, and the samples taken of it.
 */
#ifndef SONDE_RECORDER_MONITOR_STALL_WATCH_H
#define SONDE_RECORDER_MONITOR_STALL_WATCH_H

#include "sensor/stall/rules.h"
#include "recorder/monitor/thread_stacks.h"
#include "recorder/monitor/thread_stats.h"

#define LOOP_SAMPLES 64 /* kept of a turn before it is a stall; then they are written at once */

typedef struct loop_sample {
  uint64_t time; /* shifted ticks */
  uint32_t stack;
  uint64_t window_ns; /* since the first look at the turn: what the stats are counted from */
  thread_stats_t stats;
  pid_t owner;
  bool is_mutex;
  uint64_t address;
  char what[WAIT_PATH_MAX];
} loop_sample_t;

typedef struct watch {
  pid_t tid;
  uint64_t iteration; /* ticks; 0: none */
  bool seen;          /* at more than one look */
  uint32_t moved;
  uint64_t number; /* of the stall, once it is one */
  stall_iteration_t state;
  thread_stats_files_t files;
  thread_stats_t base; /* at the first look */
  uint64_t base_ns;    /* when that was */
  thread_stats_t last; /* at the last one */
  loop_sample_t pending[LOOP_SAMPLES];
  int pending_count;
  loop_sample_t latest; /* stack and what of the last sample, to be given again */
  bool ran;             /* since LATEST was read: it stands elsewhere by now */
  bool requested;
  pid_t owner_requested; /* a running owner's stack is awaited */
  uint64_t owner_address;
  uint64_t noted_ns; /* age at the last note; 0: none */
  uint64_t flushed_ns;
  uint64_t lost, lost_ns;       /* when the thread was gone, by both clocks; 0: it is there */
  uint64_t iterations, longest; /* of the loop; the longest in ticks */
  uint32_t iterations_seen;
} stall_loop_t;

/* What all watches share. */
typedef struct context {
  recording_t *recording;
  monitor_writer_t *writer;
  thread_stacks_t stacks;
  stall_rules_t rules;
  uint64_t stalls;
  double ns_per_tick;
  uint64_t base_ticks, base_ns; /* a moment in both clocks */
  void (*note)(const char *line);
} stall_context_t;

/* Begins to watch the turn that began at TICKS. */
void stall_loop_begin(stall_context_t *w, stall_loop_t *monitored, shm_loop_t *loop, uint64_t turn);

/* A closer look at a turn that goes on. False when the thread runs no more of the program. */
bool stall_loop_poll(stall_context_t *w, stall_loop_t *monitored, shm_loop_t *loop, uint64_t now_ns,
                     uint64_t late_ns);

/* The thread has ended and is being taken away. */
bool stall_loop_is_exiting(const stall_loop_t *monitored);

/* The turn has ended, at END ticks. */
void stall_loop_end(stall_context_t *w, stall_loop_t *monitored, uint64_t end,
                    stall_ending_t ending);

/* Closes what is open of it. */
void stall_loop_close(stall_context_t *w, stall_loop_t *monitored);

#endif
