/* SPDX-License-Identifier: MIT
 *
 * Names of functions in exported files.
 */
#ifndef SONDE_REPORT_EXPORTS_NAME_H
#define SONDE_REPORT_EXPORTS_NAME_H

#include "report/frame_names.h"
#include "report/report.h"

/* The longest short name: template arguments are shown if they fit. */
enum { EXPORT_NAME_COLUMNS = 80 };

/* Writes the name of a function, short unless FULL, to OUT, of REPORT_NAME_MAX bytes. */
static inline const char *export_name(const frame_name_t *name, bool full, char *out) {
  return frame_name_text(name, full, EXPORT_NAME_COLUMNS, out, REPORT_NAME_MAX);
}

#endif
