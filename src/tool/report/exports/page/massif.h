/* SPDX-License-Identifier: MIT
 *
 * The live heap over time with call trees, as a file of valgrind's massif, for ms_print and
 * massif-visualizer.
 */
#ifndef SONDE_REPORT_EXPORTS_PAGE_MASSIF_H
#define SONDE_REPORT_EXPORTS_PAGE_MASSIF_H

#include "report/report.h"

/* REPORT has its reader and names. 0 or SONDE_ENOMEM; errors of OUT are its own. */
int massif_write(const report_t *report, FILE *out);

#endif
