/* SPDX-License-Identifier: MIT
 *
 * The resources that the process used over time: resident memory, swap, page faults, descriptors,
 * threads, CPU time, context switches, and its cgroup (EXTENDED_USAGE). A process that executed
 * several programs has one account for each.
 *
 * A series keeps at most USAGE_POINTS values: a longer one loses every second value, again and
 * again. First, last, least and greatest values are exact. One thread uses a usage_t.
 */
#ifndef SONDE_ANALYSIS_USAGE_H
#define SONDE_ANALYSIS_USAGE_H

#include "reader/reader.h"

enum { USAGE_POINTS = 2048 };

typedef struct usage_point {
  uint64_t time_ns; /* since the start of the recording */
  uint64_t value;
} usage_point_t;

typedef struct usage_series {
  bool is_known; /* the recording has values */
  uint64_t first, last, least, peak;
  uint64_t first_ns, peak_ns; /* of the first value; when the greatest was first read */
  /* each value that differs from the one before it; later ones hold until the next */
  usage_point_t *points;
  uint32_t count;
  uint32_t step, skipped; /* keeps one value of STEP */
} usage_series_t;

typedef struct usage {
  bool is_recorded;
  usage_series_t series[USAGE_FIELDS]; /* by usage_field_t */
  uint64_t from_ns, to_ns;             /* of the first and the last record */
  uint64_t before_end_ns; /* of the last record but one: the last may be of the end, with less */
  uint64_t bad;           /* records that violate the format */
} usage_t;

/* Adds an event to USAGE, which begins as zeros. Ignores other events. False: out of memory. */
bool usage_add(usage_t *usage, const reader_t *reader, const record_event_t *event);
void usage_free(usage_t *usage);

/* "rss_bytes": the key in JSON. */
const char *usage_key(unsigned field);

/* The value of SERIES that held at TIME_NS; the first value before it was read. */
uint64_t usage_at(const usage_series_t *series, uint64_t time_ns);

/* How fast a value changes, per second: the median of the slopes between all pairs of USAGE_GRID
 * values at equal distances (Theil and Sen), and the quartiles of these slopes. A single jump moves
 * the median little. All 0 if the value is unknown or the time is empty. */
enum { USAGE_GRID = 64 };
typedef struct usage_growth {
  double per_s, low_per_s, high_per_s;
} usage_growth_t;
usage_growth_t usage_growth(const usage_t *usage, usage_field_t field, uint64_t from_ns,
                            uint64_t to_ns);

#endif
