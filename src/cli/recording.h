/* SPDX-License-Identifier: MIT
 *
 * Opening a recording, which is what most verbs begin with. What goes wrong has been said when
 * these return.
 */
#ifndef SONDE_CLI_RECORDING_H
#define SONDE_CLI_RECORDING_H

#include "report/report.h"

/* The recording PATH, or NULL. */
reader_t *recording_open(const char *path);

/* The same of one of the programs of its process (reader_open_program). */
reader_t *recording_open_program(const char *path, uint32_t program);

/* The same, unless it is a summary, which holds no events. */
reader_t *recording_open_events(const char *path);

/* Opens REPORT's path into its reader, and makes it ready to print to stdout. */
bool recording_open_report(report_t *report);

#endif
