/* SPDX-License-Identifier: MIT
 *
 * The summary of a recording: the facts that `sonde report` and `sonde diff` use, without the
 * events. docs/format.md, "Summaries", describes its format.
 *
 * A summary has at most SUMMARY_MAX bytes, whatever the size of the recording. It keeps the stacks
 * that are largest by any measure. Stack 0 has the sum of all other stacks, so all totals are
 * exact.
 */
#ifndef SONDE_ANALYSIS_SUMMARY_SUMMARY_H
#define SONDE_ANALYSIS_SUMMARY_SUMMARY_H

#include <stdio.h>

#include "analysis/summary/pack.h"
#include "analysis/malloc/replay.h"

#define SUMMARY_MAX 1000000u

/* Evenly spaced times for which a summary keeps the live bytes of each stack. */
#define SUMMARY_CHECKPOINTS 16

/* A number of stacks, and the bytes of a summary with these. */
typedef struct summary_size {
  size_t stacks, bytes;
} summary_size_t;

/* How many stacks a summary of LIMIT bytes may have, if one with LAST's is too large; BEFORE is an
 * earlier try, with more stacks; all zeros: none. Bytes are taken for a power of the stacks, below
 * 1 as a rule, as stacks share frames and names: then the second estimate fits. */
size_t summary_estimate(summary_size_t last, summary_size_t before, size_t limit);

/* Writes the summary of READER's recording to OUT, with the NAMES of its functions; NULL: the
 * recording's own stored names. 0 or a negative SONDE_E…; with SONDE_EIO errno has the cause. */
int summary_write(reader_t *reader, const pack_names_t *names, FILE *out, pack_totals_t *totals,
                  pack_progress_fn progress, void *context);

/* Fills REPLAY, whose reader is set, from its recording, which is a summary. The window of OPTIONS
 * is moved to the last checkpoints before its ends: window_from and window_to of REPLAY. 0 or
 * SONDE_ENOMEM. */
int summary_read(replay_t *replay, const replay_options_t *options);

/* Returns whether the recording is a summary, without events. */
bool is_summary(const reader_t *reader);

/* ---- records: summary_record_t of record/format.h ------------------------------------------ */

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
