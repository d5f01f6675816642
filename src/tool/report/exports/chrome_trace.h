/* SPDX-License-Identifier: MIT
 *
 * Writes traced calls, waits and stalls in the Trace Event Format, for Perfetto, speedscope and
 * Chrome: one complete event ("ph":"X") a call, times in microseconds. A wait is a pair of
 * asynchronous events ("b", "e") of its thread: it is sampled, so it may overlap the ends of calls.
 * So is a stall. Memory, faults and descriptors of the process are counters ("C").
 */
#ifndef SONDE_REPORT_EXPORTS_CHROME_TRACE_H
#define SONDE_REPORT_EXPORTS_CHROME_TRACE_H

#include <stdio.h>

#include "analysis/trace.h"
#include "report/frame_names.h"

/* What a timeline of the calls that FILTER selects takes, as far as it is worth counting. */
typedef struct chrome_trace_size {
  /* 0: less than CHROME_TRACE_LARGE bytes */
  uint64_t bytes;
  /* the calls, and those of at least 10 us */
  uint64_t calls, longer_calls;
} chrome_trace_size_t;

/* Viewers in a browser fail with some hundred MB. */
#define CHROME_TRACE_LARGE (UINT64_C(256) << 20)

/* Estimates the size. Returns 0 or SONDE_ENOMEM. */
int chrome_trace_size(reader_t *reader, const trace_filter_t *filter, chrome_trace_size_t *out);

/* 1 if READER has waits or stalls, 0 if not, or SONDE_ENOMEM. */
int chrome_trace_has_times(reader_t *reader);

/* Writes the calls of READER that FILTER selects, its waits, stalls and counters; its on_call is
 * not used. Names are short unless FULL. Returns 0 or SONDE_ENOMEM; ferror(OUT) reports a write
 * error.
 */
int chrome_trace_write(reader_t *reader, frame_names_t *names, const trace_filter_t *filter,
                       bool full, FILE *out);

#endif
