/* SPDX-License-Identifier: MIT
 *
 * Export to the Firefox Profiler (profiler.firefox.com): its processed format, version 48, which
 * newer versions read. https://github.com/firefox-devtools/profiler, docs-developer/.
 *
 * Threads have samples with CPU time, waits as markers with stacks, and allocations with their
 * frees; the process has tracks of live heap and resident memory.
 */
#ifndef SONDE_REPORT_EXPORTS_PAGE_FIREFOX_H
#define SONDE_REPORT_EXPORTS_PAGE_FIREFOX_H

#include "base/portions.h"
#include "report/exports/page/data.h"

/* Writes the gzipped profile to OUT. SAMPLE_TIMES divides the CPU time among the samples. 0 or
 * SONDE_ENOMEM. Errors of OUT are its own. */
int firefox_write(const page_source_t *source, portions_t sample_times, FILE *out);

#endif
