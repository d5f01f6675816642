/* SPDX-License-Identifier: MIT
 *
 * The audit of one recording, judged: what the verbs that compare or export it begin with.
 */
#ifndef SONDE_CLI_COMMON_AUDIT_RECORDING_H
#define SONDE_CLI_COMMON_AUDIT_RECORDING_H

#include "report/exports/audit_exports.h"

typedef struct audit_recording {
  report_t report;   /* its reader and names */
  audit_t *audit;    /* of the last program */
  audited_t audited; /* of all */
  findings_t findings;
} audit_recording_t;

/* Reads the recording PATH, of all its programs (0) or of one. False when that cannot be done or it
 * holds no audit, which has been said. Close it in either case. */
bool audit_recording_open(audit_recording_t *out, const char *path, uint32_t program);
void audit_recording_close(audit_recording_t *recording);

/* Writes the audit of the recording PATH, likewise, to OUT in FORMAT; what the file BASELINE (NULL:
 * none) does not have is new. Returns an exit status. */
int export_audit(const char *path, uint32_t program, const char *format, const char *baseline,
                 FILE *out);
bool export_audit_knows(const char *format);

/* Prints what the recording NEW found and OLD, a baseline or a recording, has not. Returns an exit
 * status: CLI_FINDING when that is anything but allowed. */
int audit_compare(const char *old, const char *new);

#endif
