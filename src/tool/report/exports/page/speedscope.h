/* SPDX-License-Identifier: MIT
 *
 * Export to speedscope (speedscope.app): profiles of each thread in the order of time, of its CPU
 * time, its waits, and its blocks; and one of all threads' blocks at the peak.
 * https://www.speedscope.app/file-format-schema.json
 */
#ifndef SONDE_REPORT_EXPORTS_PAGE_SPEEDSCOPE_H
#define SONDE_REPORT_EXPORTS_PAGE_SPEEDSCOPE_H

#include "base/portions.h"
#include "report/exports/page/data.h"

/* Writes the profiles to OUT, as JSON. SAMPLE_TIMES divides the CPU time among the samples. 0 or
 * SONDE_ENOMEM. Errors of OUT are its own. */
int speedscope_write(const page_source_t *source, portions_t sample_times, FILE *out);

#endif
