/* SPDX-License-Identifier: MIT
 *
 * Comma-separated values (RFC 4180) of the lists in a report's JSON.
 */
#ifndef SONDE_REPORT_EXPORTS_CSV_H
#define SONDE_REPORT_EXPORTS_CSV_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>

/* A quoted field. An apostrophe before =, +, -, @ prevents evaluation as a formula. */
void csv_put_field(FILE *out, const char *text);

/* An array of objects: a line each. A column is a key in the order of first use. The keys of an
 * object in a row follow its own key: "peak_bytes". Arrays in a row are left out.
 * False: out of memory. */
bool csv_put_rows(json_object *rows, FILE *out);

/* The series of the section `usage`: a line for each time at which a value was read, with all
 * values that held then. */
void csv_put_usage(json_object *usage, FILE *out);

#endif
