/* SPDX-License-Identifier: MIT
 *
 * Collapsed stacks, the input of flame graph tools: a line a stack, functions from the outermost,
 * separated by semicolons, then a space and the weight.
 */
#ifndef SONDE_REPORT_EXPORTS_COLLAPSED_H
#define SONDE_REPORT_EXPORTS_COLLAPSED_H

#include <stdio.h>

#include "analysis/malloc/aggregate.h"
#include "analysis/samples.h"
#include "base/portions.h"
#include "report/exports/profile/times.h"
#include "report/frame_names.h"

/* Writes the stacks of REPLAY weighted by MEASURE, or those of SAMPLES if MEASURE is MEASURE_COUNT.
 * Names are short unless FULL. ferror(OUT) reports a write error. */
void collapsed_write(frame_names_t *names, const replay_t *replay, const samples_t *samples,
                     measure_t measure, bool full, FILE *out);

/* Writes the waits of TIMES in nanoseconds; the innermost frame of each is "[wait: CALL WHAT]". If
 * the amount of CPU is not 0, also writes the samples, among which CPU divides it. The largest
 * weight comes first. Names are short unless FULL. False: out of memory. */
bool collapsed_write_times(frame_names_t *names, const profile_times_t *times, portions_t cpu,
                           bool full, FILE *out);

#endif
