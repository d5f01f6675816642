/* SPDX-License-Identifier: MIT
 *
 * The audits of all programs that a process ran, one after the other: exec replaces the program
 * and the process goes on, as a launch script does in its last line. Each program has images,
 * stacks and names of its own, so each is read by a reader of its own.
 */
#ifndef SONDE_REPORT_AUDITED_H
#define SONDE_REPORT_AUDITED_H

#include "analysis/audit/audit.h"
#include "report/report.h"

#define AUDITED_MAX 32u /* programs: each takes its symbols' memory */

typedef struct audited_program {
  report_t report; /* its reader and names */
  audit_t *audit;
} audited_program_t;

typedef struct audited {
  audited_program_t *programs; /* the last one's are the report's that it was opened with */
  size_t count;
  uint32_t left_out; /* programs before these: there were too many */
} audited_t;

/* The programs before the one that REPORT tells of, unless that one was asked for by its number,
 * and that one, whose calls are in AUDIT. Their calls are those of the report's window. Returns 0
 * or a negative SONDE_E…; close it in either case. Both must outlive it. */
int audited_open(audited_t *out, const report_t *report, audit_t *audit);
void audited_close(audited_t *audited);

/* Whether there is anything to tell; the policy, which may be NULL; the calls. */
bool audited_holds(const audited_t *audited);
const policy_t *audited_policy(const audited_t *audited);
uint64_t audited_calls(const audited_t *audited);

#endif
