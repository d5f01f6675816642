/* SPDX-License-Identifier: MIT
 *
 * CPU time and waits added up by stack, thread, cause and phase: what pprof and flame graphs of
 * time are made of. A marker begins the phase with its name.
 *
 * One thread uses a profile_times_t. Memory: 72 bytes and the texts of each different combination,
 * however many markers there are.
 */
#ifndef SONDE_REPORT_EXPORTS_PROFILE_TIMES_H
#define SONDE_REPORT_EXPORTS_PROFILE_TIMES_H

#include "analysis/wall.h"

typedef struct profile_time {
  uint32_t stack, tid;
  /* Of a wait: the system call, and what its descriptor refers to or "lock"; each may be "". NULL:
   * on a CPU. */
  const char *call, *what;
  const char *phase; /* ""; or the name of the last marker */
  uint64_t samples;  /* on a CPU: ticks */
  uint64_t wait_ns;  /* of a wait; exact after the end */
} profile_time_t;

typedef struct profile_times {
  reader_t *reader;
  profile_time_t *items;
  size_t count, capacity;
  hash_index_t index;
  uint64_t ticks, waits; /* samples on a CPU, and of waits */
  char *phase;           /* the current one; NULL before the first marker */
  size_t phase_capacity;
  const char *kept_phase; /* its copy in `texts`; NULL: nothing has used it */
  text_copy_t *texts;
} profile_times_t;

/* Adds an event of any kind to TIMES, a profile_times_t that begins as zeros except `reader`.
 * False: out of memory. */
bool profile_times_add(profile_times_t *times, const record_event_t *event);

/* Divides the time that each thread was blocked among its waits, as `sonde report wall` does: the
 * kernel counts it exactly, and the sampler may be late. WALL has all events. Call it once. */
void profile_times_finish(profile_times_t *times, const wall_t *wall);

void profile_times_free(profile_times_t *times);

#endif
