/* SPDX-License-Identifier: MIT
 *
 * What the audit found, one row for each sighting and category: who did it, what, whether it is
 * allowed. All forms of the audit's report are made of these rows.
 */
#ifndef SONDE_REPORT_FINDINGS_H
#define SONDE_REPORT_FINDINGS_H

#include "report/audited.h"

typedef struct finding_row {
  const audited_program_t *by; /* the program that made the calls, which all else here is of */
  const audit_entry_t *sighting;
  const policy_category_t *category;
  const frame_name_t *site; /* the first frame outside the system; NULL: there is none */
  const char *owner; /* whose that is: as the policy names it, else its package, else its library */
  char *arguments;   /* in words */
  char *class;       /* what of the arguments stays the same from run to run */
  const policy_allowance_t *allowed; /* NULL: by nothing */
  const char *too_early; /* the phase before which the policy denies such calls; NULL: in time */
  uint64_t fingerprint;  /* of category, function, class and owner: no address, no build-id */
} finding_row_t;

typedef struct findings {
  finding_row_t *rows; /* the gravest level first, then by category, then the most calls */
  size_t count, room;
  void *packages; /* who installed what */
  char **owners;  /* kept texts */
  size_t owner_count;
  const audited_t *audited;
} findings_t;

/* Judges what AUDITED holds, which must outlive it. Returns 0 or SONDE_ENOMEM; release with
 * findings_free in either case. */
int findings_make(findings_t *out, const audited_t *audited);
void findings_free(findings_t *findings);

const char *finding_function(const finding_row_t *row);

/* Whether two rows are of one category, be it of two programs. */
bool finding_same_category(const finding_row_t *row, const finding_row_t *other);

#endif
