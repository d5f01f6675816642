/* SPDX-License-Identifier: MIT
 *
 * Export to callgrind_annotate and KCachegrind: CPU time, allocations and traced calls by
 * line, each also with the callees. Only traced calls are counted: without them, each call path of
 * a stack counts as one call, with them as none.
 * https://valgrind.org/docs/manual/cl-format.html
 */
#ifndef SONDE_REPORT_EXPORTS_PAGE_CALLGRIND_H
#define SONDE_REPORT_EXPORTS_PAGE_CALLGRIND_H

#include "base/portions.h"
#include "report/exports/page/data.h"

/* Writes what SOURCE has to OUT. SAMPLE_TIMES divides the CPU time among the samples. 0 or
 * SONDE_ENOMEM. Errors of OUT are its own. */
int callgrind_write(const page_source_t *source, portions_t sample_times, FILE *out);

#endif
