/* SPDX-License-Identifier: MIT
 *
 * Findings of an audit: a row for each recorded call site and category, with the owner of the code,
 * the arguments and the verdict of the policy. Text, JSON and all exports use these rows.
 *
 * A program without the agent, and a Go program, makes its system calls itself. No hook sees them,
 * but a tracer does: these are findings, too. System calls that a system library makes are not:
 * they belong to the function of the library that was called, which has hooks.
 */
#ifndef SONDE_REPORT_FINDINGS_H
#define SONDE_REPORT_FINDINGS_H

#include "report/audited.h"
#include "report/json.h"

typedef struct finding_row {
  const audited_program_t *by; /* the program that made the calls */
  const audit_entry_t *sighting;
  const coverage_call_t *traced; /* the system call, which the program made itself; NULL: hooked */
  const policy_category_t *category;
  const frame_name_t *site; /* the innermost frame outside the system; NULL: none */
  const char *owner;        /* of SITE: by the policy, else its package, else its library */
  char *arguments;          /* as text */
  char *alike;              /* the same without the numbers of descriptors */
  char *class;              /* the part of the arguments that is the same in every run */
  const policy_allowance_t *allowed; /* NULL: not allowed */
  const char *too_early; /* the phase that such calls must wait for; NULL: not too early */
  uint64_t fingerprint;  /* of category, function, class and owner; the same in every build */
} finding_row_t;

typedef struct findings {
  finding_row_t *rows; /* most severe level first, then by category, most calls first */
  size_t count, capacity;
  char **owners; /* owned texts */
  size_t owner_count;
  audit_entry_t *sightings; /* of the traced calls */
  audit_entry_t *merged;    /* of findings_merge; NULL: it was not called */
  const audited_t *audited;
} findings_t;

/* Makes the findings of AUDITED, which must outlive them; traced calls are omitted if HOOKED_ONLY.
 * Returns 0 or SONDE_ENOMEM; release with findings_free in either case. */
int findings_make(findings_t *out, const audited_t *audited, bool hooked_only);

/* Merges the rows that say the same: one function calls another in one line with equal arguments,
 * descriptors aside, from calls that are printed alike (report/stacks/alike.h). For people; tools
 * get all rows. Returns 0 or SONDE_ENOMEM. */
int findings_merge(findings_t *findings);
void findings_free(findings_t *findings);

/* The category of a traced call: the most severe one that it may belong to, since several functions
 * with different purposes make one system call (openat: open, opendir). NULL: none. */
const policy_category_t *finding_category(const audit_t *audit, const coverage_call_t *call);

/* Whether CALL was traced, and the program made it itself. */
bool finding_is_traced(const report_t *report, const coverage_call_t *call);

const char *finding_function(const finding_row_t *row);

/* Adds what the finding says to OBJECT: category, level, function, arguments, owner. */
void finding_add_json(const finding_row_t *row, json_object *object);

/* True if two rows have the same category, even in different programs. */
bool finding_same_category(const finding_row_t *row, const finding_row_t *other);

#endif
