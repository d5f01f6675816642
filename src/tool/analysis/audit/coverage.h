/* SPDX-License-Identifier: MIT
 *
 * The coverage of an audit: which of the program's sensitive system calls its hooks have seen.
 *
 * Recorded by a tracer (recorder/monitor/coverage.h) as rows of equal calls. The ratio leaves out
 * what was made before the agent was ready, which no hook can see and which is counted by itself,
 * and the agent's own calls.
 */
#ifndef SONDE_ANALYSIS_AUDIT_COVERAGE_H
#define SONDE_ANALYSIS_AUDIT_COVERAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/audit/policy.h"
#include "analysis/stack_dedup.h"
#include "base/hash.h"
#include "reader/reader.h"
#include "target/sensitive.h"

typedef struct coverage_call {
  coverage_class_t class;
  const sensitive_call_t *call;
  uint32_t function; /* in the policy, + 1: whose hook has seen it; 0: none has */
  uint32_t stack;    /* 0: it was not read */
  uint64_t count;
  uint64_t first, last; /* ticks */
  uint32_t arguments_size;
  const uint8_t *arguments; /* as recorded: docs/format.md */
} coverage_call_t;

typedef struct coverage {
  coverage_call_t *calls;
  size_t count, room;
  hash_index_t slots; /* of the calls */
  uint64_t totals[COVERAGE_CLASSES];
  bool recorded, ended;        /* there is something; and the tracer has come to the end */
  uint64_t io_uring_ops;       /* operations of io_uring, which nobody sees */
  uint64_t other_abi_calls;    /* system calls of another architecture's convention */
  uint64_t unobserved_threads; /* threads whose hooks could not be heard */
  uint64_t damaged;
  bool detached; /* the program went on unwatched, with more rights */
} coverage_t;

/* Adds an event, of whatever kind; calls of stacks that are the SAME together. False without
 * memory. */
bool coverage_add(coverage_t *coverage, const record_event_t *event, stack_dedup_t *same);
void coverage_free(coverage_t *coverage);

/* Sensitive calls that a hook could have seen, and the part of them that was, from 0 to 1 (1 when
 * there were none). */
uint64_t coverage_possible(const coverage_t *coverage);
double coverage_ratio(const coverage_t *coverage);

/* The numbers of the categories that ask for CALL by its text, whatever the function, each once, at
 * most MAX. */
size_t coverage_categories(const audit_policy_t *flat, const coverage_call_t *call, uint32_t *out,
                           size_t max);

/* "openat("/etc/passwd", 0x80000)"; returns OUT, cut to SIZE. */
char *coverage_words(const coverage_call_t *call, char *out, size_t size);

#endif
