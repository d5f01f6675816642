/* SPDX-License-Identifier: MIT
 *
 * Traced calls in the Trace Event Format, as a JSON object, which Perfetto, speedscope and Chrome's
 * tracing page open: one complete event ("ph":"X") a call, times in microseconds.
 */
#ifndef SONDE_REPORT_EXPORTS_CHROME_TRACE_H
#define SONDE_REPORT_EXPORTS_CHROME_TRACE_H

#include <stdio.h>

#include "analysis/trace.h"
#include "report/frame_names.h"

/* Writes the calls of READER that FILTER leaves (its `each` is not used) to OUT. 0 or SONDE_ENOMEM;
 * whether OUT could be written is told by ferror. */
int chrome_trace_write(reader_t *reader, frame_names_t *names, const trace_filter_t *filter,
                       FILE *out);

#endif
