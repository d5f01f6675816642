/* SPDX-License-Identifier: MIT
 *
 * The coverage of an audit: which of the program's sensitive system calls its hooks observed.
 *
 * A tracer (recorder/monitor/coverage.h) records rows of equal calls. The ratio excludes the
 * agent's own calls, and calls made before the agent was ready, which no hook can observe. The
 * early calls are counted separately.
 */
#ifndef SONDE_ANALYSIS_AUDIT_COVERAGE_H
#define SONDE_ANALYSIS_AUDIT_COVERAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/audit/policy.h"
#include "analysis/stack_dedup.h"
#include "base/call_results.h"
#include "base/hash.h"
#include "reader/body.h"
#include "reader/reader.h"
#include "target/sensitive.h"

typedef struct coverage_call {
  coverage_class_t class;
  const sensitive_call_t *call;
  uint32_t function; /* number + 1 in the policy, of the hook that observed the call; 0: none */
  uint32_t stack;    /* 0: not read */
  uint64_t count;
  uint64_t first, last;   /* ticks */
  call_results_t results; /* of the calls that returned, if they were recorded */
  uint32_t arguments_size;
  const uint8_t *arguments;       /* as recorded: docs/format.md */
  uint8_t kinds[AUDIT_ARGUMENTS]; /* of these */
} coverage_call_t;

typedef struct coverage {
  coverage_call_t *calls;
  size_t count, capacity;
  hash_index_t index; /* of the calls */
  uint64_t totals[COVERAGE_CLASSES];
  bool recorded;               /* the recording has coverage */
  bool ended;                  /* the tracer recorded its end */
  uint64_t io_uring_ops;       /* operations of io_uring, which neither hooks nor the tracer see */
  uint64_t other_abi_calls;    /* system calls by another architecture's convention */
  uint64_t unobserved_threads; /* threads whose hooks could not report */
  uint64_t damaged;
  bool detached; /* an exec with more privileges ended the tracing */
} coverage_t;

/* Adds an event of any kind. DEDUP decides which stacks are equal. False when memory runs out. */
bool coverage_add(coverage_t *coverage, const record_event_t *event, stack_dedup_t *dedup);
void coverage_free(coverage_t *coverage);

/* Decodes the results in a record of system calls. */
void coverage_read_results(body_t *body, call_results_t *results);

/* Sensitive calls that a hook could have observed. */
uint64_t coverage_possible(const coverage_t *coverage);

/* The part of these calls that a hook did observe, from 0 to 1; 1 when there were no such calls. */
double coverage_ratio(const coverage_t *coverage);

/* Writes the numbers of the categories that match the text of CALL, whatever the function, each
 * once, at most MAX. Returns their number. */
size_t coverage_categories(const audit_policy_t *flat, const coverage_call_t *call, uint32_t *out,
                           size_t max);

/* Formats CALL as 'openat("/etc/passwd", O_RDONLY)', truncated to SIZE; MACHINE is that of the
 * recording (audit_machine). Returns OUT. */
char *coverage_words(const coverage_call_t *call, uint32_t machine, char *out, size_t size);

#endif
