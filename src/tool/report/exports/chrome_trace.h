/* SPDX-License-Identifier: MIT
 *
 * Writes traced calls in the Trace Event Format, for Perfetto, speedscope and Chrome: one complete
 * event ("ph":"X") a call, times in microseconds.
 */
#ifndef SONDE_REPORT_EXPORTS_CHROME_TRACE_H
#define SONDE_REPORT_EXPORTS_CHROME_TRACE_H

#include <stdio.h>

#include "analysis/trace.h"
#include "report/frame_names.h"

/* Writes the calls of READER that FILTER selects; its on_call is not used. Names are short unless
 * FULL. Returns 0 or SONDE_ENOMEM; ferror(OUT) reports a write error. */
int chrome_trace_write(reader_t *reader, frame_names_t *names, const trace_filter_t *filter,
                       bool full, FILE *out);

#endif
