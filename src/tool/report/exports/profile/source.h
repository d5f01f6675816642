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
#include "base/portions.h"
#include "report/exports/profile/times.h"

/* What a recording that is read in parts (reader/resume.h) carries from one part to the next. It
 * begins as zeros. Its memory is bounded by the threads and the live blocks of the program. */
typedef struct profile_carry {
  cpu_time_t cpu_time;  /* records of a thread replace the one before */
  uint64_t sampled_ns;  /* of these times, what earlier samples stood for */
  live_block_t *blocks; /* live at the end; `stack` is the recorded id of a stack */
  size_t block_count;
} profile_carry_t;

void profile_carry_free(profile_carry_t *carry);

typedef struct profile_source {
  reader_t *reader;
  samples_t samples; /* most ticks first */
  cpu_time_t cpu_time;
  /* CPU time that samples stood for at the end, and at the end of the part before */
  uint64_t sampled_ns, sampled_before_ns;
  wall_t wall;           /* ranked */
  profile_times_t times; /* empty unless they were asked for */
  replay_t replay;
} profile_source_t;

/* 0 or SONDE_ENOMEM. Release with profile_source_free after success. */
int profile_source_read(profile_source_t *out, reader_t *reader, bool with_times);

/* The same of a part of a recording. CARRY is that of the part before, and is then given to the
 * next by profile_source_carry. */
int profile_source_read_part(profile_source_t *out, reader_t *reader, profile_carry_t *carry);

/* Moves what the next part needs from SOURCE to CARRY. False: out of memory; the live blocks are
 * then those of the part before. Call it once, before profile_source_free. */
bool profile_source_carry(profile_source_t *source, profile_carry_t *carry);
void profile_source_free(profile_source_t *source);

/* Divides the CPU time of all samples, as the kernel counts it, among them. An amount of 0:
 * unknown. */
portions_t profile_source_sample_times(const profile_source_t *source);

#endif
