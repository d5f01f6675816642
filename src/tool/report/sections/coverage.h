/* SPDX-License-Identifier: MIT
 *
 * The coverage of an audit: sensitive system calls that its hooks did not observe.
 */
#ifndef SONDE_REPORT_SECTIONS_COVERAGE_H
#define SONDE_REPORT_SECTIONS_COVERAGE_H

#include "analysis/audit/audit.h"
#include "report/report.h"

/* Adds "results", of calls with results of KIND, to ROW if any is known. */
void coverage_results_json(const call_results_t *results, audit_result_t kind, json_object *row);

/* Prints nothing without a coverage record. Returns 0 or SONDE_ENOMEM. */
int coverage_text(const report_t *report, const audit_t *audit, FILE *out);
json_object *coverage_json(const report_t *report, const audit_t *audit);

#endif
