/* SPDX-License-Identifier: MIT
 *
 * The audited calls of a recording, counted, and checked against the policy of the recording.
 *
 * An *entry* counts the calls of one function with one stack and equal arguments. Stacks that
 * differ in the order or the repetition of their frames have different ids and different entries.
 * Stacks that differ only in the addresses of their libraries count as one stack
 * (analysis/stack_dedup.h). Memory is proportional to the entries, not to the calls.
 */
#ifndef SONDE_ANALYSIS_AUDIT_AUDIT_H
#define SONDE_ANALYSIS_AUDIT_AUDIT_H

#include "analysis/audit/coverage.h"
#include "analysis/audit/policy.h"
#include "analysis/audit/results.h"
#include "analysis/stack_dedup.h"
#include "base/hash.h"
#include "reader/reader.h"

typedef struct audit_entry {
  uint32_t function; /* its number in the policy */
  uint32_t stack;    /* of the first call */
  uint32_t stream;   /* the thread of the first call */
  uint32_t arguments_size;
  const uint8_t *arguments; /* as recorded: docs/format.md */
  uint64_t count;
  uint64_t first, last;   /* ticks */
  call_results_t results; /* of the calls that returned, if they were recorded */
  uint64_t early;         /* a bit for each phase of the policy that had not begun at some call */
} audit_entry_t;

/* How often the calls exceeded a limit of the policy. */
typedef struct limit_state {
  uint64_t *times; /* of the last `calls` + 1 calls, a ring */
  size_t next, count;
  uint64_t exceeded; /* calls beyond the limit of their window */
  uint64_t first;    /* ticks of the first of them */
} limit_state_t;

typedef struct audit {
  reader_t *reader;
  uint32_t machine;     /* audit_machine */
  policy_t *policy;     /* NULL: no policy was recorded, or it is damaged */
  audit_policy_t *flat; /* the compiled policy; NULL when `policy` is */
  bool *reached;        /* by function: it was hooked */
  audit_entry_t *entries;
  size_t count, capacity;
  hash_index_t index; /* of the entries */
  stack_dedup_t *dedup;
  limit_state_t *limits; /* one for each limit of the policy */
  uint64_t begun;        /* a bit for each phase that has begun; at most 64 phases count */
  uint64_t calls;
  audit_open_t open;
  uint64_t damaged; /* calls whose record could not be decoded */
  coverage_t coverage;
} audit_t;

/* Reads the policy of READER. NULL when memory runs out. Release with audit_free. */
audit_t *audit_new(reader_t *reader);
void audit_free(audit_t *audit);

/* Decodes EVENT as an entry of one call, which points to the event's arguments. False when it is
 * not an audited call, or damaged. */
bool audit_decode(const audit_t *audit, const record_event_t *event, audit_entry_t *out);

/* Adds an event of any kind. False when memory runs out. */
bool audit_add(audit_t *audit, const record_event_t *event);

/* Returns whether the recording has a policy or an audited call. */
bool audit_has_data(const audit_t *audit);

/* One argument of a call. TEXT, of texts, paths and addresses, is not terminated and may contain
 * any byte. */
typedef struct audit_value {
  uint8_t kind;     /* audit_argument_t */
  uint8_t argument; /* its place in the call, from 0 */
  int64_t number;
  const uint8_t *text;
  uint32_t size;
} audit_value_t;

/* Decodes SIZE bytes of recorded ARGUMENTS of these KINDS, at most AUDIT_ARGUMENTS. Returns their
 * number, or -1 if they are damaged. */
int audit_values_of(const uint8_t kinds[AUDIT_ARGUMENTS], const uint8_t *arguments, uint32_t size,
                    audit_value_t *out);

/* Copies the first text argument, terminated, to OUT of AUDIT_TEXT_SIZE bytes; "" when there is
 * none. A path in /proc/PID of the program itself is one in /proc/self. */
void audit_text(const audit_t *audit, const audit_entry_t *entry, char *out);

void audit_text_of(const uint8_t kinds[AUDIT_ARGUMENTS], const uint8_t *arguments, uint32_t size,
                   char *out);

/* Formats the values as '"/etc/passwd", O_RDONLY|O_CLOEXEC', truncated to SIZE. Returns OUT. */
char *audit_words(const audit_t *audit, const audit_entry_t *entry, char *out, size_t size);

/* The same for a call of FUNCTION, recorded on MACHINE: audit_machine. */
char *audit_words_of(const char *function, uint32_t machine, const uint8_t kinds[AUDIT_ARGUMENTS],
                     const uint8_t *arguments, uint32_t arguments_size, char *out, size_t size);

/* The same with "…" in place of a descriptor, whose number is not what a call is about: a loop that
 * opens sockets and connects them connects a new number each time. */
char *audit_words_alike(const audit_t *audit, const audit_entry_t *entry, char *out, size_t size);
char *audit_words_alike_of(const char *function, uint32_t machine,
                           const uint8_t kinds[AUDIT_ARGUMENTS], const uint8_t *arguments,
                           uint32_t arguments_size, char *out, size_t size);

/* The machine of the recording for flag_words; 0 for Apple's systems, whose flags differ. */
uint32_t audit_machine(const reader_t *reader);

/* Formats the parts of the arguments that stay the same from run to run. Numbers, and digits in
 * texts, are left out. Of an internet address, the port is kept, and whether the address is of this
 * machine, a private network or the internet. */
char *audit_class(const audit_t *audit, const audit_entry_t *entry, char *out, size_t size);

/* The same for recorded arguments of these kinds. */
char *audit_class_of(const uint8_t kinds[AUDIT_ARGUMENTS], const uint8_t *arguments,
                     uint32_t arguments_size, char *out, size_t size);

const char *audit_function_name(const audit_t *audit, uint32_t function);

#endif
