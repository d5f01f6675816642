/* SPDX-License-Identifier: MIT
 *
 * The summary of a recording: what `sonde report` and `sonde diff` need of it, without its events.
 * docs/format.md, "Summaries", describes it.
 *
 * It is at most SUMMARY_MAX bytes, whatever the recording's size: the stacks with most are kept, by
 * any measure, and what the others add up to stands as stack 0, so all totals are exact.
 */
#ifndef SONDE_ANALYSIS_SUMMARY_SUMMARY_H
#define SONDE_ANALYSIS_SUMMARY_SUMMARY_H

#include <stdio.h>

#include "analysis/summary/pack.h"
#include "analysis/malloc/replay.h"

#define SUMMARY_MAX         1000000u
#define SUMMARY_CHECKPOINTS 16 /* evenly spaced, at which the live bytes of each stack are kept */

/* Writes the summary of READER's recording to OUT. 0 or a negative SONDE_E…; SONDE_EIO with errno.
 */
int summary_write(reader_t *reader, FILE *out, pack_totals_t *totals, pack_progress_fn progress,
                  void *context);

/* Fills REPLAY, of which the reader is set, from the summary that its recording is. The window of
 * OPTIONS begins and ends at the moments before; REPLAY says which. 0 or SONDE_ENOMEM. */
int summary_read(replay_t *replay, const replay_options_t *options);

/* Whether the recording is a summary, without events. */
bool is_summary(const reader_t *reader);

/* ---- records, in a chunk of type CHUNK_SUMMARY --------------------------------------------- */

typedef enum summary_record {
  SUMMARY_TOTALS = 1,
  SUMMARY_STACK = 2,
  SUMMARY_THREAD = 3,
  SUMMARY_SIZE = 4,
  SUMMARY_INVALID_FREE = 5,
  SUMMARY_SAMPLES = 6,
  SUMMARY_SAMPLE = 7,
  SUMMARY_CHECKPOINT = 8,
} summary_record_t;

/* The last number of a SUMMARY_SAMPLE whose merged ticks are those of its own stack. */
#define SAMPLE_OWN_MISSED 1u

/* The numbers of SUMMARY_TOTALS, in order. X(lvalue of a replay_t). */
#define SUMMARY_TOTALS_TABLE(X)                                                                    \
  X(events)                                                                                        \
  X(allocated.count)                                                                               \
  X(allocated.bytes)                                                                               \
  X(frees)                                                                                         \
  X(reallocs)                                                                                      \
  X(temporary)                                                                                     \
  X(live.count)                                                                                    \
  X(live.bytes)                                                                                    \
  X(at_peak.count)                                                                                 \
  X(at_peak.bytes)                                                                                 \
  X(peak_time)                                                                                     \
  X(first_time)                                                                                    \
  X(last_time)                                                                                     \
  X(unknown_frees)                                                                                 \
  X(double_frees)                                                                                  \
  X(address_reuses)                                                                                \
  X(prerecording_frees)                                                                            \
  X(untracked)                                                                                     \
  X(switches)                                                                                      \
  X(snapshots)

#endif
