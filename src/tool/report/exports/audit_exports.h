/* SPDX-License-Identifier: MIT
 *
 * Exports of an audit: baseline, SARIF, CSV and xcprivacy, all from the rows of findings.h.
 */
#ifndef SONDE_REPORT_EXPORTS_AUDIT_EXPORTS_H
#define SONDE_REPORT_EXPORTS_AUDIT_EXPORTS_H

#include <json-c/json.h>
#include <stdio.h>

#include "report/findings.h"
#include "report/report.h"

/* A baseline: the fingerprints of known findings. */
typedef struct baseline {
  uint64_t *fingerprints; /* sorted */
  size_t count;
} baseline_t;

/* {"baseline":1,"findings":[…]}: one row a fingerprint, sorted, so that text tools can compare two
 * baselines. NULL: out of memory. */
json_object *baseline_json(const findings_t *findings);

/* Reads a baseline. On failure returns false with a message in ERROR. */
bool baseline_read(baseline_t *out, const char *path, char *error, size_t error_size);

/* The fingerprints of FINDINGS. False: out of memory. */
bool baseline_of(baseline_t *out, const findings_t *findings);
bool baseline_has(const baseline_t *baseline, uint64_t fingerprint);
void baseline_free(baseline_t *baseline);

/* SARIF 2.1.0 (OASIS): a result for each fingerprint, with its stacks. Results that are not in
 * BASELINE, which may be NULL, are new. NULL: out of memory. */
json_object *sarif_json(const findings_t *findings, const baseline_t *baseline);

/* Comma-separated values (RFC 4180), a line a finding. */
void findings_csv(const findings_t *findings, FILE *out);

/* A draft of PrivacyInfo.xcprivacy: Apple's categories that were called, with all permitted
 * reasons, from which the developer selects. */
void findings_xcprivacy(const findings_t *findings, FILE *out);

#endif
