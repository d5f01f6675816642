/* SPDX-License-Identifier: MIT
 *
 * What audited calls returned. A thread's calls may be nested, and some never return, so a result
 * belongs to the last call of its function on its stream that has none yet.
 */
#ifndef SONDE_ANALYSIS_AUDIT_RESULTS_H
#define SONDE_ANALYSIS_AUDIT_RESULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/call_results.h"
#include "base/hash.h"
#include "reader/reader.h"
#include "sensor/audit/results.h"

enum { AUDIT_CALLS_OPEN = 8 };

/* The calls of a stream that have not returned, the last ones if there are more. */
typedef struct audit_open_calls {
  uint32_t stream, count;
  struct {
    uint32_t function, entry;
  } calls[AUDIT_CALLS_OPEN];
} audit_open_calls_t;

typedef struct audit_open {
  audit_open_calls_t *streams;
  size_t count, capacity;
  hash_index_t index;
} audit_open_t;

/* A call of FUNCTION on STREAM, which is counted in the entry number ENTRY. False: out of memory.
 */
bool audit_open_call(audit_open_t *open, uint32_t stream, uint32_t function, uint32_t entry);

/* Decodes EXTENDED_AUDIT_RESULT. Returns the number of the call's entry and adds to *RESULTS, or -1
 * if no call waits for it. RESULTS_OF returns those of an entry. */
void audit_add_result(audit_open_t *open, const record_event_t *event,
                      call_results_t *(*results_of)(void *context, uint32_t entry), void *context);
void audit_open_free(audit_open_t *open);

/* Writes ' = 3', ' = -1 ENOENT (No such file or directory)' or '; 2 of 5 failed: ENOENT (…)' for
 * calls with results of KIND to OUT; "" if nothing is known. Returns OUT. */
char *audit_results_text(const call_results_t *results, audit_result_t kind, char *out,
                         size_t size);

/* "ENOENT", of Linux; NULL: unknown. TEXT, which may be NULL, is set to its description. */
const char *audit_error_name(uint32_t number, const char **text);

#endif
