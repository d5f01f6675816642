/* SPDX-License-Identifier: MIT
 *
 * Export to heaptrack (heaptrack_gui, heaptrack_print): its text format, version 3. Every
 * allocation and free is a line, written during the second of two replays, so memory does not
 * depend on their number. Sampled blocks are written with the bytes that they represent.
 */
#ifndef SONDE_REPORT_EXPORTS_PAGE_HEAPTRACK_H
#define SONDE_REPORT_EXPORTS_PAGE_HEAPTRACK_H

#include "report/report.h"

/* Replays the recording of REPORT, which has a reader and names, and writes it to OUT. 0 or
 * SONDE_ENOMEM. Errors of OUT are its own. */
int heaptrack_write(const report_t *report, FILE *out);

#endif
