/* SPDX-License-Identifier: MIT
 *
 * An audit policy: categories of sensitive functions, what is allowed and until when, how often,
 * and from which phase on. Read from YAML (docs/policy.md), with the line of everything that is
 * not understood; compiled into the flat form that a program under audit follows.
 *
 * A policy of the user's builds on one that ships inside; a category of the same id replaces the
 * one there. Nothing is recorded under a policy that was not understood in full.
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

typedef struct policy_texts {
  const char **items;
  size_t count;
} policy_texts_t;

typedef enum policy_level { POLICY_NOTE, POLICY_WARNING, POLICY_ERROR } policy_level_t;
const char *policy_level_word(policy_level_t level);

typedef struct policy_function {
  const char *name;    /* of methods a glob, "-[Class *]" */
  const char *library; /* a glob of its file's name; "" for any */
  uint8_t arguments[AUDIT_ARGUMENTS];
  const char *source; /* where it stands, for messages while the policy is read */
  int line;
} policy_function_t;

typedef struct policy_category {
  const char *id, *title;
  policy_level_t level;
  bool enabled, of_base;
  const char *apple;      /* NSPrivacyAccessedAPICategory…; NULL: not one of Apple's */
  policy_texts_t reasons; /* codes that may be given for it, of Apple's */
  policy_texts_t match, except;
  uint32_t *functions; /* numbers in the policy */
  size_t function_count;
} policy_category_t;

/* Calls that are known and accepted. */
typedef struct policy_allowance {
  const char *category, *function, *owner; /* globs; "*" for any */
  policy_texts_t match;                    /* of the call's first text argument; none: any */
  const char *reason;
  time_t expires; /* the first second it no longer holds; 0: never */
} policy_allowance_t;

/* More than CALLS of a category within WINDOW_NS are too many. */
typedef struct policy_limit {
  const char *category;
  uint64_t calls, window_ns;
} policy_limit_t;

/* Categories that must not be called before the program has said sonde_audit_phase(PHASE). */
typedef struct policy_phase {
  const char *phase;
  policy_texts_t categories; /* globs */
} policy_phase_t;

/* Who stands behind a library. */
typedef struct policy_owner {
  const char *library; /* a glob of its file's name */
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
  const policy_source_t *base; /* of those inside; NULL: none */
  void *memory;                /* what all strings and arrays above lie in */
} policy_t;

/* The policies that ship inside; NULL for a name that is none of them ("linux", "apple"). */
const policy_source_t *policy_builtin(const char *name);

/* Reads SOURCE, and first what it builds on: BASE where that is not NULL, as of a recording that
 * holds both, else what it names of those inside. TODAY decides what has expired: a policy that
 * leans on an expired allowance is refused. 0 is for a policy that was in force once, on whatever
 * machine: nothing has expired, and functions need not be in this C library. On failure returns
 * NULL and writes one line, "file:line: what is wrong and what to do", to ERROR. Release with
 * policy_free. */
policy_t *policy_read(const policy_source_t *source, const policy_source_t *base, time_t today,
                      char *error, size_t error_size);
void policy_free(policy_t *policy);

const policy_category_t *policy_category(const policy_t *policy, const char *id);

/* Whether a category that the glob CATEGORY names has a function that FUNCTION, a glob too, names;
 * or all of them are switched off. */
bool policy_has_function(const policy_t *policy, const char *category, const char *function);

/* "-[Class selector:]", of which both may be globs. */
bool policy_is_method(const char *name);

/* Whether a function of CATEGORY keeps a text, which globs can be compared with. */
bool policy_sees_text(const policy_t *policy, const policy_category_t *category);

/* The flat form, of HOME's user; released with free. NULL when it would be larger than
 * AUDIT_POLICY_MAX, or without memory. Categories keep their numbers, functions too. */
audit_policy_t *policy_flatten(const policy_t *policy, const char *home);

/* The numbers of the categories that a call of function FUNCTION with the first text TEXT belongs
 * to, at most MAX. */
size_t policy_categories(const audit_policy_t *flat, uint32_t function, const char *text,
                         uint32_t *out, size_t max);

/* The allowance that covers a call, or NULL. NOW is the recording's time. */
const policy_allowance_t *policy_allows(const policy_t *policy, const char *category,
                                        const char *function, const char *owner, const char *text,
                                        time_t now);

#endif
