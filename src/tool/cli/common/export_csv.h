/* SPDX-License-Identifier: MIT
 *
 * The lists of a report as comma-separated values.
 */
#ifndef SONDE_CLI_COMMON_EXPORT_CSV_H
#define SONDE_CLI_COMMON_EXPORT_CSV_H

#include <stdbool.h>
#include <stdio.h>

#include "report/report.h"

/* Whether BY, a word of --by, names a list. NULL: that of CPU time or of blocks. */
bool export_csv_has_list(const char *by);

/* Writes a list of REPORT, which has its reader, to OUT. Returns the status of the verb. */
int export_csv(report_t *report, const char *by, FILE *out);

#endif
