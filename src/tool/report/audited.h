/* SPDX-License-Identifier: MIT
 *
 * The audits of all programs that a process ran (exec). Each program has its own images, stacks and
 * names, so each has its own reader.
 */
#ifndef SONDE_REPORT_AUDITED_H
#define SONDE_REPORT_AUDITED_H

#include "analysis/audit/audit.h"
#include "report/report.h"

/* The limit of programs: each needs memory for its symbols. */
#define AUDITED_MAX 32u

typedef struct audited_program {
  report_t report; /* its reader and names */
  audit_t *audit;
} audited_program_t;

typedef struct audited {
  audited_program_t *programs; /* the last one uses the reader of the report */
  size_t count;
  uint32_t left_out; /* earlier programs, beyond the limit */
} audited_t;

/* Opens the programs before REPORT's, unless that was selected by number, and adds REPORT's own,
 * whose calls are in AUDIT. Only calls in the report's window count. REPORT and AUDIT must outlive
 * it. Returns 0 or a negative SONDE_E…; release with audited_close in either case. */
int audited_open(audited_t *out, const report_t *report, audit_t *audit);
void audited_close(audited_t *audited);

/* True if there are calls or a policy; the policy, or NULL; the number of calls. */
bool audited_has_data(const audited_t *audited);
const policy_t *audited_policy(const audited_t *audited);
uint64_t audited_calls(const audited_t *audited);

#endif
