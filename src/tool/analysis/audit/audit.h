/* SPDX-License-Identifier: MIT
 *
 * The audited calls of a recording: equal ones counted, judged by the policy they were recorded
 * under.
 *
 * A *sighting* is a function, a stack and arguments; every call is one more of some sighting. Two
 * stacks that differ only in the order of their frames, or in how often a frame recurs, are two
 * ids and never share a count. Two that differ only in where their libraries lay are one: the calls
 * of a library that came back at another address are counted with those it made before. Memory
 * follows the entries, not the calls.
 */
#ifndef SONDE_ANALYSIS_AUDIT_AUDIT_H
#define SONDE_ANALYSIS_AUDIT_AUDIT_H

#include "analysis/audit/coverage.h"
#include "analysis/audit/policy.h"
#include "analysis/stack_dedup.h"
#include "reader/reader.h"

typedef struct audit_entry {
  uint32_t function; /* its number in the policy */
  uint32_t stack;    /* of the first one */
  uint32_t stream;   /* the thread of the first one */
  uint32_t arguments_size;
  const uint8_t *arguments; /* as recorded: docs/format.md */
  uint64_t count;
  uint64_t first, last; /* ticks */
  uint64_t early;       /* bits of the policy's phases that had not begun at one of the calls */
} audit_entry_t;

/* How often a limit of the policy was exceeded. */
typedef struct limit_state {
  uint64_t *times; /* of the newest calls, a ring of `calls` + 1 */
  size_t next, count;
  uint64_t exceeded; /* calls that were one too many in their window */
  uint64_t first;    /* ticks of the first of them */
} limit_state_t;

typedef struct audit {
  reader_t *reader;
  policy_t *policy;     /* NULL: no policy was recorded, or it is damaged */
  audit_policy_t *flat; /* what the calls were chosen by; with `policy` or NULL */
  bool *reached;        /* by function: it was hooked */
  audit_entry_t *entries;
  size_t count, room;
  uint32_t *slots;
  size_t mask;
  stack_dedup_t *dedup;
  limit_state_t *limits; /* one for each of the policy's */
  uint64_t begun;        /* bits of its phases, of which at most 64 count */
  uint64_t calls;
  uint64_t damaged; /* calls whose record could not be understood */
  coverage_t coverage;
} audit_t;

/* Begins with the policy of READER. NULL without memory. Release with audit_free. */
audit_t *audit_new(reader_t *reader);
void audit_free(audit_t *audit);

/* The call that EVENT tells of as a sighting of its own, whose arguments are the event's. False
 * when it is no audited call, or a damaged one. */
bool audit_decode(const audit_t *audit, const record_event_t *event, audit_entry_t *out);

/* Adds an event, of whatever kind. False without memory. */
bool audit_add(audit_t *audit, const record_event_t *event);

/* Whether there is anything to tell: a policy, or a call. */
bool audit_has_data(const audit_t *audit);

/* One argument of a sighting. TEXT, for text, paths and addresses, is not ended by a 0 and may hold
 * any byte. */
typedef struct audit_value {
  uint8_t kind; /* audit_argument_t */
  int64_t number;
  const uint8_t *text;
  uint32_t size;
} audit_value_t;

/* The arguments of SIGHTING that were kept, at most AUDIT_ARGUMENTS. Returns how many, -1 when they
 * are damaged. */
int audit_values(const audit_t *audit, const audit_entry_t *sighting, audit_value_t *out);

/* The same of SIZE bytes of arguments of these KINDS, whatever they belong to. */
int audit_values_of(const uint8_t kinds[AUDIT_ARGUMENTS], const uint8_t *arguments, uint32_t size,
                    audit_value_t *out);

/* The first text argument, ended by a 0, in OUT of AUDIT_TEXT_MAX + 1 bytes; "" when there is none.
 */
void audit_text(const audit_t *audit, const audit_entry_t *sighting, char *out);

void audit_text_of(const uint8_t kinds[AUDIT_ARGUMENTS], const uint8_t *arguments, uint32_t size,
                   char *out);

/* The values in words, "/etc/passwd, 0x80000"; returns OUT, cut to SIZE. */
char *audit_words(const audit_t *audit, const audit_entry_t *sighting, char *out, size_t size);

char *audit_words_of(const uint8_t kinds[AUDIT_ARGUMENTS], const uint8_t *arguments,
                     uint32_t arguments_size, char *out, size_t size);

/* What of the values stays the same from run to run: no number, no digits in a text, of an internet
 * address its port and whether it is this machine's, a private one or any other. */
char *audit_class(const audit_t *audit, const audit_entry_t *sighting, char *out, size_t size);

const char *audit_function_name(const audit_t *audit, uint32_t function);

#endif
