/* SPDX-License-Identifier: MIT
 *
 * Sensitive system calls: those that the functions of an audit policy come down to.
 *
 * Each has the public functions of the C library that are little more than it. A policy asks for
 * functions; the system calls that belong to them are what its coverage is measured by. A function
 * that does many things (getaddrinfo, setlocale) belongs to none: what it does below counts by the
 * functions that stand for that.
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
  uint8_t arguments[AUDIT_ARGUMENTS]; /* audit_argument_t: which are kept */
  const char *functions;              /* public ones, with a space before and after each … */
  const char *others; /* … and those that make it on their way to something else; or NULL */
} sensitive_call_t;

#define SENSITIVE_NUMBERS 512 /* of system calls; those from here on are never sensitive */

/* The system call NUMBER of this machine, NULL when nothing could make it sensitive. */
const sensitive_call_t *sensitive_call(uint64_t number);

/* Whether the public function NAME means CALL and no more. */
bool sensitive_means(const sensitive_call_t *call, const char *name);

/* Whether NAME makes CALL in its own name, or, CALL being NULL, any sensitive call. */
bool sensitive_belongs(const sensitive_call_t *call, const char *name);

/* Whether a call of NAME that is under way may have led to CALL: it makes it, or does many things.
 */
bool sensitive_leads_to(const sensitive_call_t *call, const char *name);

/* Sets in WANTED, by number, the system calls that the functions of POLICY come down to. */
void sensitive_of_policy(const audit_policy_t *policy, bool wanted[SENSITIVE_NUMBERS]);

/* The arguments of a call that are kept, in the form in which a recording has those of audited
 * functions (docs/format.md), to OUT of SENSITIVE_BYTES. Returns how many bytes. */
#define SENSITIVE_BYTES 1024u
uint32_t sensitive_arguments(const sensitive_call_t *call, memory_t *memory,
                             const uint64_t arguments[6], uint8_t *out);

#endif
