/* SPDX-License-Identifier: MIT
 *
 * One pass over a recording that collects what profiles are made of.
 */
#ifndef SONDE_REPORT_EXPORTS_PROFILE_SOURCE_H
#define SONDE_REPORT_EXPORTS_PROFILE_SOURCE_H

#include "analysis/cpu_time.h"
#include "analysis/malloc/replay.h"
#include "analysis/samples.h"
#include "analysis/wall.h"
#include "report/exports/profile/times.h"

typedef struct profile_source {
  samples_t samples; /* most ticks first */
  cpu_time_t cpu_time;
  wall_t wall;           /* ranked */
  profile_times_t times; /* empty unless they were asked for */
  replay_t replay;
} profile_source_t;

/* 0 or SONDE_ENOMEM. Release with profile_source_free after success. */
int profile_source_read(profile_source_t *out, reader_t *reader, bool with_times);
void profile_source_free(profile_source_t *source);

/* The CPU time of a sample: that of all samples, as the kernel counts it, divided among them. 0:
 * unknown. */
double profile_source_tick_ns(const profile_source_t *source);

#endif
