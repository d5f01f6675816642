/* SPDX-License-Identifier: MIT
 *
 * The coverage of an audit: sensitive system calls that its hooks did not observe.
 */
#ifndef SONDE_REPORT_SECTIONS_COVERAGE_H
#define SONDE_REPORT_SECTIONS_COVERAGE_H

#include "analysis/audit/audit.h"
#include "report/report.h"

/* What a tracer saw of a program that makes its system calls itself (report/findings.h). */
typedef struct self_made {
  uint64_t calls;
  size_t distinct;
} self_made_t;
self_made_t coverage_self_made(const report_t *report, const audit_t *audit);

/* Whether the tracer saw all that there is: the program called no hooked function. */
bool coverage_is_all(const report_t *report, const audit_t *audit);

/* Adds "results", of calls with results of KIND, to ROW if any is known. */
void coverage_results_json(const call_results_t *results, audit_result_t kind, json_object *row);

/* Prints nothing without a coverage record. Returns 0 or SONDE_ENOMEM. */
int coverage_text(const report_t *report, const audit_t *audit, FILE *out);
json_object *coverage_json(const report_t *report, const audit_t *audit);

#endif
