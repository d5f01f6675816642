/* SPDX-License-Identifier: MIT
 *
 * Names of functions in exported files.
 */
#ifndef SONDE_REPORT_EXPORTS_NAME_H
#define SONDE_REPORT_EXPORTS_NAME_H

#include "report/frame_names.h"
#include "report/report.h"
#include "symbol/short_name.h"

/* The longest short name: template arguments are shown if they fit. */
enum { EXPORT_NAME_COLUMNS = 80 };

/* The name of a function, short unless FULL. OUT, of REPORT_NAME_MAX bytes, may hold the result. */
static inline const char *export_name(const frame_name_t *name, bool full, char *out) {
  if (full || !name->known) return name->function;
  return short_name(name->function, EXPORT_NAME_COLUMNS, out, REPORT_NAME_MAX);
}

#endif
