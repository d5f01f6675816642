/* SPDX-License-Identifier: MIT
 *
 * The CPU time of the process and of each thread: how much of it samples cover, and why the rest
 * has none. The kernel's clocks are the measure. A process that executed several programs has one
 * account for all of them.
 */
#ifndef SONDE_ANALYSIS_CPU_TIME_H
#define SONDE_ANALYSIS_CPU_TIME_H

#include "analysis/texts.h"
#include "base/hash.h"
#include "reader/reader.h"

typedef struct cpu_times {
  uint64_t cpu_ns, sampled_ns;
  /* by no_sample_cause_t; with SAMPLED_NS the whole CPU_NS */
  uint64_t no_sample_ns[NO_SAMPLE_CAUSES];
} cpu_times_t;

typedef struct cpu_thread_time {
  /* 1, 2, … in the order in which the recorder saw them; a tid may be reused */
  uint32_t number;
  uint32_t tid;
  const char *name;
  /* from when the recorder found it to when it saw it last */
  uint64_t seen_ns;
  cpu_times_t times;
} cpu_thread_time_t;

typedef struct cpu_time {
  /* the recording has these records */
  bool is_recorded;
  cpu_thread_time_t *threads;
  size_t count, capacity;
  hash_index_t index; /* of the threads, by number */
  /* of the process: its CPU time, how many threads it had, time of threads that were not seen */
  uint64_t process_ns, thread_count, unseen_ns;
  uint64_t queued_ns; /* for which its threads waited for a CPU; 0: unknown, too */
  uint64_t bad;       /* records that violate the format */
  text_copy_t *names;
} cpu_time_t;

/* Adds an event to TIME, which begins as zeros. Ignores other events. False: out of memory. */
bool cpu_time_add(cpu_time_t *time, const record_event_t *event);

/* The sum of all threads and of the process. */
cpu_times_t cpu_time_sum(const cpu_time_t *time);

/* The part of TIMES that has no samples. */
uint64_t cpu_time_unsampled(const cpu_times_t *times);

/* How many threads the program had, with those that ended. If the recording does not say it: how
 * many have events. TIME may be NULL. */
uint64_t cpu_time_threads(const cpu_time_t *time, const reader_t *reader);

/* "signal_blocked", a key in JSON; and a text to follow "1.23 s ". */
const char *cpu_time_cause_key(unsigned cause);
const char *cpu_time_cause_text(unsigned cause);

void cpu_time_free(cpu_time_t *time);

#endif
