/* SPDX-License-Identifier: MIT
 *
 * Sensitive system calls: those that the functions of an audit policy make.
 *
 * Each system call has the public libc functions that are thin wrappers of it. A policy names
 * functions; its coverage is measured by their system calls. A function that does many things
 * (getaddrinfo, setlocale) has no system call: its calls count for the wrappers.
 */
#ifndef SONDE_TARGET_SENSITIVE_H
#define SONDE_TARGET_SENSITIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sensor/audit/policy.h"
#include "unwind/memory.h"

typedef struct sensitive_call {
  const char *name;
  /* audit_argument_t: which are recorded */
  uint8_t arguments[AUDIT_ARGUMENTS];
  /* its wrappers, with a space before and after each */
  const char *functions;
  /* functions that make it for another purpose; or NULL */
  const char *others;
} sensitive_call_t;

/* Larger system call numbers are never sensitive. */
#define SENSITIVE_NUMBERS 512

/* System call NUMBER of this CPU; NULL if it is never sensitive. */
const sensitive_call_t *sensitive_call(uint64_t number);

/* False if system call NUMBER with these arguments is about an open descriptor, and so has no path:
 * fstat(2) is newfstatat with AT_EMPTY_PATH. True for all other calls. */
bool sensitive_is_of_path(uint64_t number, const uint64_t arguments[6]);

/* Whether the public function NAME is a wrapper of CALL. */
bool sensitive_means(const sensitive_call_t *call, const char *name);

/* Whether NAME makes CALL for its own purpose; CALL NULL: any sensitive call. */
bool sensitive_belongs(const sensitive_call_t *call, const char *name);

/* Whether an active call of NAME may have made CALL: it does so itself, or does many things. */
bool sensitive_leads_to(const sensitive_call_t *call, const char *name);

/* Sets WANTED[number] for each system call that functions of POLICY make. */
void sensitive_of_policy(const audit_policy_t *policy, bool wanted[SENSITIVE_NUMBERS]);

/* The paths and addresses of CALL that must not be recorded, a bit for each argument: POLICY drops
 * or hashes those of a function that makes the call. */
uint8_t sensitive_withheld(const sensitive_call_t *call, const audit_policy_t *policy);

/* The kinds of the recorded arguments of CALL without those in WITHHELD. */
void sensitive_kinds(const sensitive_call_t *call, uint8_t withheld,
                     uint8_t kinds[AUDIT_ARGUMENTS]);

/* Writes the recorded arguments of a call, of KINDS, to OUT, SENSITIVE_BYTES large, encoded like
 * those of audited functions (docs/format.md). Returns the count of bytes. */
#define SENSITIVE_BYTES 1024u
uint32_t sensitive_arguments(const uint8_t kinds[AUDIT_ARGUMENTS], memory_t *memory,
                             const uint64_t arguments[6], uint8_t *out);

#endif
