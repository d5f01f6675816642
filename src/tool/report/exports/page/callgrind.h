/* SPDX-License-Identifier: MIT
 *
 * Export to callgrind_annotate and KCachegrind: CPU time by line, and the time of calls. The number
 * of calls is unknown to samples, so each call path counts as one.
 * https://valgrind.org/docs/manual/cl-format.html
 */
#ifndef SONDE_REPORT_EXPORTS_PAGE_CALLGRIND_H
#define SONDE_REPORT_EXPORTS_PAGE_CALLGRIND_H

#include "report/exports/page/data.h"

/* Writes the samples of SOURCE to OUT; a sample counts SAMPLE_NS. 0 or SONDE_ENOMEM. Errors of OUT
 * are its own. */
int callgrind_write(const page_source_t *source, uint64_t sample_ns, FILE *out);

#endif
