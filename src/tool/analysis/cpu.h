/* SPDX-License-Identifier: MIT
 *
 * The CPU monitor's records, and which samples belong to which of its episodes.
 */
#ifndef SONDE_ANALYSIS_CPU_H
#define SONDE_ANALYSIS_CPU_H

#include "reader/reader.h"

typedef struct cpu_sum {
  uint32_t tid;
  uint64_t run_ns, runq_ns, wakeups, seen_ns; /* SEEN: between its first and its last reading */
  const char *name;
} cpu_sum_t;

typedef struct cpu_episode {
  uint32_t tid;     /* 0: all threads together */
  uint64_t to;      /* ticks */
  uint64_t time_ns; /* that it lasted, up to TO */
  uint64_t cpu_ns;
  const char *name;
} cpu_episode_t;

/* A sample of CPU time. */
typedef struct cpu_tick {
  uint64_t time;  /* ticks of the recording's clock */
  uint64_t ticks; /* of CPU time, that it stands for */
  uint32_t stream, stack;
} cpu_tick_t;

typedef struct cpu_use {
  cpu_sum_t *sums;
  size_t sum_count, sum_room;
  cpu_episode_t *episodes;
  size_t episode_count, episode_room;
  cpu_tick_t *ticks;
  size_t tick_count, tick_room;
  uint64_t process_ns;
  uint64_t bad; /* records that break the rules */
  struct cpu_name *names;
} cpu_use_t;

/* Takes an event into USE, which begins as zeros; others are passed over. False without memory. */
bool cpu_use_add(cpu_use_t *use, const record_event_t *event);
void cpu_use_free(cpu_use_t *use);

/* Whether TICK was a tick of BURST. */
bool cpu_tick_in(const reader_t *reader, const cpu_tick_t *tick, const cpu_episode_t *burst);

#endif
