/* SPDX-License-Identifier: MIT
 *
 * What a profile counts: for each stack, a value of each type. pprof and OTLP have the same model.
 */
#ifndef SONDE_REPORT_EXPORTS_PROFILE_ROWS_H
#define SONDE_REPORT_EXPORTS_PROFILE_ROWS_H

#include "analysis/malloc/replay.h"
#include "analysis/samples.h"
#include "analysis/wall.h"
#include "base/array.h"
#include "base/portions.h"
#include "report/exports/profile/times.h"

enum { PROFILE_TYPES_MAX = 6 };

typedef struct profile_type {
  const char *type, *unit;
} profile_type_t;

typedef struct profile_row {
  uint32_t stack;           /* of the recording */
  const profile_time_t *of; /* thread, cause and phase, as labels; NULL: none */
  int64_t values[PROFILE_TYPES_MAX];
} profile_row_t;

typedef struct profile_rows {
  const char *name; /* as Prometheus' __name__: process_cpu, memory, off_cpu */
  profile_type_t types[PROFILE_TYPES_MAX];
  unsigned type_count;
  profile_type_t period_type; /* of the sampled events; type NULL: none */
  int64_t period;
  const char *default_type; /* NULL: none */
  const char *drop_frames;  /* a regular expression of functions that are not shown; NULL: none */
  uint64_t from_ns, to_ns;  /* the part of the recording that they are of; TO_NS 0: all of it */
  ARRAY(profile_row_t) rows;
} profile_rows_t;

/* CPU samples: their count and, unless the amount of TIMES is 0, their CPU time, which TIMES
 * divides among them. False: out of memory. */
bool profile_rows_cpu(profile_rows_t *out, const samples_t *samples, portions_t times);

/* CPU time and waits with labels: of both, samples and nanoseconds. CPU divides the CPU time among
 * the samples. Recordings without waits have no types of them. TIMES must outlive the rows. */
bool profile_rows_times(profile_rows_t *out, const profile_times_t *times, portions_t cpu);

/* Blocks and bytes: allocated, in use at the end and, if PEAK is set, in use at the peak. */
bool profile_rows_heap(profile_rows_t *out, const replay_t *replay, bool peak);

/* The time in which threads were blocked. WALL is ranked. */
bool profile_rows_waits(profile_rows_t *out, const wall_t *wall);

/* When the rows of a recording with this header begin, since 1970, and how long they are. */
uint64_t profile_rows_time_ns(const profile_rows_t *rows, const record_header_t *header);
uint64_t profile_rows_duration_ns(const profile_rows_t *rows, const record_header_t *header);

void profile_rows_free(profile_rows_t *rows);

#endif
