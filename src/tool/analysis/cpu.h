/* SPDX-License-Identifier: MIT
 *
 * The CPU monitor's records, and which CPU samples belong to which of its episodes.
 */
#ifndef SONDE_ANALYSIS_CPU_H
#define SONDE_ANALYSIS_CPU_H

#include "analysis/cpu_time.h"
#include "analysis/texts.h"
#include "reader/reader.h"

/* A thread's CPU use in the whole recording. */
typedef struct cpu_sum {
  uint32_t tid;
  uint64_t run_ns, runq_ns, wakeups;
  uint64_t seen_ns; /* between the thread's first and last reading */
  const char *name;
  /* covered by samples; and the whole account, NULL if it is not recorded */
  uint64_t sampled_ns, unsampled_ns;
  const cpu_times_t *times;
} cpu_sum_t;

/* A time in which a thread, or the process, exceeded the limit. */
typedef struct cpu_episode {
  uint32_t tid;     /* 0: all threads together */
  uint64_t to;      /* ticks */
  uint64_t time_ns; /* its length; it ends at TO */
  uint64_t cpu_ns;
  const char *name;
} cpu_use_episode_t;

/* A sample of CPU time. */
typedef struct cpu_tick {
  uint64_t time;  /* ticks of the recording's clock */
  uint64_t ticks; /* of CPU time, that the sample represents */
  uint32_t stream, stack;
} cpu_tick_t;

typedef struct cpu_use {
  cpu_sum_t *sums;
  size_t sum_count, sum_capacity;
  cpu_use_episode_t *episodes;
  size_t episode_count, episode_capacity;
  cpu_tick_t *ticks;
  size_t tick_count, tick_capacity;
  uint64_t process_ns;
  uint64_t bad; /* records that violate the format */
  text_copy_t *names;
} cpu_use_t;

/* Adds an event to USE, which begins as zeros. Ignores events of other sensors. False when memory
 * runs out. */
bool cpu_use_add(cpu_use_t *use, const record_event_t *event);

/* Replaces the sums, which are of readings once a second, by those of the kernel at the end of each
 * thread. TIME may be NULL. False: out of memory. */
bool cpu_use_complete(cpu_use_t *use, const cpu_time_t *time);
void cpu_use_free(cpu_use_t *use);

/* Returns whether TICK lies in EPISODE. */
bool cpu_tick_in(const reader_t *reader, const cpu_tick_t *tick, const cpu_use_episode_t *episode);

#endif
