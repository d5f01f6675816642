/* SPDX-License-Identifier: MIT
 *
 * The exports that need times: the Firefox Profiler, speedscope, callgrind, heaptrack and
 * massif.
 */
#ifndef SONDE_CLI_COMMON_EXPORT_TIMELINE_H
#define SONDE_CLI_COMMON_EXPORT_TIMELINE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/portions.h"
#include "report/report.h"

/* X(key, word of --as, whether the format is binary) */
#define EXPORT_TIMELINE_FORMATS(X)                                                                 \
  X(FIREFOX, "firefox", true)                                                                      \
  X(SPEEDSCOPE, "speedscope", false)                                                               \
  X(CALLGRIND, "callgrind", false)                                                                 \
  X(HEAPTRACK, "heaptrack", false)                                                                 \
  X(MASSIF, "massif", false)

/* "firefox" for that word; NULL: not one of these formats. */
const char *export_timeline_format(const char *word);

/* Writes REPORT, which has its reader, in FORMAT to OUT. Returns the status of the verb. */
int export_timeline(report_t *report, const char *format, FILE *out);

/* The CPU time SAMPLED_NS of all samples, divided among them. If it is 0, since the recording does
 * not say it, each sample counts for the usual interval of 10 ms. */
portions_t export_sample_times(uint64_t sampled_ns, uint64_t samples);

#endif
