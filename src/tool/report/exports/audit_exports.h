/* SPDX-License-Identifier: MIT
 *
 * The audit in the forms that others read, each made of the same rows (findings.h).
 */
#ifndef SONDE_REPORT_EXPORTS_AUDIT_EXPORTS_H
#define SONDE_REPORT_EXPORTS_AUDIT_EXPORTS_H

#include <json-c/json.h>
#include <stdio.h>

#include "report/findings.h"
#include "report/report.h"

/* A baseline: which findings are known. Fingerprints alone decide. */
typedef struct baseline {
  uint64_t *fingerprints; /* sorted */
  size_t count;
} baseline_t;

/* What is written to be compared with later: {"baseline":1,"findings":[…]}, one row a fingerprint,
 * in their order, so that two of them can be compared by eye as well. NULL without memory. */
json_object *baseline_json(const findings_t *findings);

/* Reads what baseline_json made. False with one line in ERROR. */
bool baseline_read(baseline_t *out, const char *path, char *error, size_t error_size);

/* The fingerprints of FINDINGS. False without memory. */
bool baseline_of(baseline_t *out, const findings_t *findings);
bool baseline_has(const baseline_t *baseline, uint64_t fingerprint);
void baseline_free(baseline_t *baseline);

/* SARIF 2.1.0 (OASIS): a result for each fingerprint, with its stacks; what BASELINE, which may be
 * NULL, does not have is new. NULL without memory. */
json_object *sarif_json(const findings_t *findings, const baseline_t *baseline);

/* Comma-separated values (RFC 4180), a line a finding. */
void findings_csv(const findings_t *findings, FILE *out);

/* A draft of PrivacyInfo.xcprivacy: the categories of Apple's that were called, with the reasons
 * that may be given, of which somebody has to choose. */
void findings_xcprivacy(const findings_t *findings, FILE *out);

#endif
