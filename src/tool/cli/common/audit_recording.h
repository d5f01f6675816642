/* SPDX-License-Identifier: MIT
 *
 * The findings of a recording, for the verbs that compare and export them.
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

/* Reads all programs (PROGRAM 0) or one program of the recording PATH. On failure, or without an
 * audit, prints an error and returns false. NAMING may be NULL. The caller closes *OUT in either
 * case. */
bool audit_recording_open(audit_recording_t *out, const char *path,
                          const frame_names_options_t *naming, uint32_t program);
void audit_recording_close(audit_recording_t *recording);

/* Writes the findings of the recording PATH to OUT in FORMAT. Findings that are not in the file
 * BASELINE (NULL: none) are new. Returns an exit status. */
int audit_recording_export(const char *path, const frame_names_options_t *naming, uint32_t program,
                           const char *format, const char *baseline, FILE *out);
bool audit_recording_has_format(const char *format);

/* Prints the findings of the recording NEW that OLD, a baseline or a recording, does not have, at
 * most MOST as text, or as JSON. Returns an exit status: CLI_FINDING if any of them is not allowed.
 */
int audit_recording_compare(const char *old, const char *new, const frame_names_options_t *naming,
                            size_t most, bool json);

#endif
