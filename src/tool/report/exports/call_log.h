/* SPDX-License-Identifier: MIT
 *
 * Writes traced calls as text: one line a call, with its depth and duration, in the order in which
 * the calls of a thread began. A line "# thread" begins each thread.
 */
#ifndef SONDE_REPORT_EXPORTS_CALL_LOG_H
#define SONDE_REPORT_EXPORTS_CALL_LOG_H

#include <stdio.h>

#include "analysis/trace.h"
#include "report/frame_names.h"

/* Writes the calls of READER that FILTER selects; its on_call is not used. Names are short unless
 * FULL. Holds the calls within one outermost call in memory, 48 bytes each. Returns 0 or
 * SONDE_ENOMEM; ferror(OUT) reports a write error. */
int call_log_write(reader_t *reader, frame_names_t *names, const trace_filter_t *filter, bool full,
                   FILE *out);

#endif
