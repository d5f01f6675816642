/* SPDX-License-Identifier: MIT
 *
 * Audit policies: categories of sensitive functions, allowed calls with an expiry date, limits, and
 * phases. A policy is read from YAML (docs/policy.md) and compiled into the flat form that the
 * audited program uses. A reading error names the line.
 *
 * A user's policy extends built-in ones; a category with the same id replaces the built-in
 * category. A policy with any error is rejected as a whole.
 */
#ifndef SONDE_ANALYSIS_AUDIT_POLICY_H
#define SONDE_ANALYSIS_AUDIT_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "sensor/audit/policy.h"

typedef struct policy_source {
  const char *name; /* a file's path, for messages */
  const char *text;
  size_t size;
} policy_source_t;

/* More policies are never extended at once. */
#define POLICY_BASES_MAX 8u

typedef struct policy_sources {
  policy_source_t items[POLICY_BASES_MAX];
  size_t count;
} policy_sources_t;

typedef struct policy_texts {
  const char **items;
  size_t count;
} policy_texts_t;

typedef enum policy_level { POLICY_NOTE, POLICY_WARNING, POLICY_ERROR } policy_level_t;
const char *policy_level_word(policy_level_t level);

typedef struct policy_function {
  const char *name;    /* of methods a glob, "-[Class *]" */
  const char *library; /* a glob for its file's name; "": any */
  uint8_t arguments[AUDIT_ARGUMENTS];
  /* The source and line of its description, for messages while the policy is read. */
  const char *source;
  int line;
} policy_function_t;

typedef struct policy_category {
  const char *id, *title;
  policy_level_t level;
  bool enabled;
  size_t source;          /* number of the policy that describes it; those extended come first */
  const char *apple;      /* NSPrivacyAccessedAPICategory…; NULL: not one of Apple's */
  policy_texts_t reasons; /* Apple's codes of permitted reasons */
  policy_texts_t match, except;
  uint32_t *functions; /* numbers in the policy */
  size_t function_count;
} policy_category_t;

/* Calls that are known and accepted. */
typedef struct policy_allowance {
  const char *category, *function, *owner; /* globs; "*": any */
  policy_texts_t match;                    /* for the call's first text argument; empty: any */
  const char *reason;
  time_t expires; /* the first second after its last day; 0: never */
} policy_allowance_t;

/* Permits CALLS calls of a category within WINDOW_NS. */
typedef struct policy_limit {
  const char *category;
  uint64_t calls, window_ns;
} policy_limit_t;

/* Forbids categories until the program calls sonde_audit_phase(PHASE). */
typedef struct policy_phase {
  const char *phase;
  policy_texts_t categories; /* globs */
} policy_phase_t;

/* The owner of a library. */
typedef struct policy_owner {
  const char *library; /* a glob for its file's name */
  const char *name;
} policy_owner_t;

typedef struct policy {
  policy_function_t *functions;
  size_t function_count;
  policy_category_t *categories;
  size_t category_count;
  policy_allowance_t *allowances;
  size_t allowance_count;
  policy_limit_t *limits;
  size_t limit_count;
  policy_phase_t *phases;
  size_t phase_count;
  policy_owner_t *owners;
  size_t owner_count;
  uint64_t depth;         /* innermost frames of a stack to record; 0: all */
  policy_sources_t bases; /* the policies that it extends */
  void *memory;           /* of all strings and arrays above, except the texts of BASES */
} policy_t;

/* The built-in policy NAME, one of POLICY_BUILTIN_WORDS; NULL for any other name. */
#define POLICY_BUILTIN_TABLE(X)                                                                    \
  X(linux)                                                                                         \
  X(apple)                                                                                         \
  X(descriptors)                                                                                   \
  X(files)                                                                                         \
  X(net)                                                                                           \
  X(exec)
const policy_source_t *policy_builtin(const char *name);

/* Reads SOURCE and, before it, the policies that SOURCE extends: BASES if not NULL, as from a
 * recording that contains all, else the built-in policies that SOURCE names. TODAY decides what has
 * expired: a policy with an expired allowance is rejected. TODAY 0 reads a policy of a recording
 * from any machine: nothing has expired, and functions need not exist in this C library. On failure
 * returns NULL and writes one line, "file:line: what is wrong and what to do", to ERROR. Release
 * with policy_free.
 */
policy_t *policy_read(const policy_source_t *source, const policy_sources_t *bases, time_t today,
                      char *error, size_t error_size);
void policy_free(policy_t *policy);

/* Read a day or a time of a policy. False when TEXT is NULL or is not one. */

/* YYYY-MM-DD. Sets *OUT to the first second, in UTC, after that day. */
bool policy_day(const char *text, time_t *out);

/* 200ms, 10s, 5m. */
bool policy_window(const char *text, uint64_t *ns);

/* Returns whether an enabled category that the glob CATEGORY matches has a function that the glob
 * FUNCTION matches; also true when all matching categories are disabled. */
bool policy_has_function(const policy_t *policy, const char *category, const char *function);

/* Returns whether NAME has the form "-[Class selector:]"; both words may be globs. */
bool policy_is_method(const char *name);

/* Returns whether a function of CATEGORY records a text, which globs can match. */
bool policy_sees_text(const policy_t *policy, const policy_category_t *category);

/* Compiles the policy for the user with the home folder HOME. Categories and functions keep their
 * numbers. The caller frees the result. NULL when it would exceed AUDIT_POLICY_MAX or memory runs
 * out. */
audit_policy_t *policy_flatten(const policy_t *policy, const char *home);

/* Limits the stacks that FLAT, of policy_flatten, records to DEPTH frames, up to AUDIT_DEPTH_MAX.
 */
void policy_limit_depth(audit_policy_t *flat, uint32_t depth);

/* Writes the numbers of the categories of a call of FUNCTION with the first text TEXT, at most MAX.
 * Returns their number. */
size_t policy_categories(const audit_policy_t *flat, uint32_t function, const char *text,
                         uint32_t *out, size_t max);

/* The allowance that covers a call, or NULL. NOW is the recording's time. */
const policy_allowance_t *policy_allows(const policy_t *policy, const char *category,
                                        const char *function, const char *owner, const char *text,
                                        time_t now);

#endif
