/* SPDX-License-Identifier: MIT
 *
 * The part of the audit's report that says what its hooks did not see.
 */
#ifndef SONDE_REPORT_SECTIONS_COVERAGE_H
#define SONDE_REPORT_SECTIONS_COVERAGE_H

#include "analysis/audit/audit.h"
#include "report/report.h"

/* Nothing where system calls were not watched. Returns 0 or SONDE_ENOMEM. */
int coverage_text(const report_t *report, const audit_t *audit, FILE *out);
json_object *coverage_json(const report_t *report, const audit_t *audit);

#endif
