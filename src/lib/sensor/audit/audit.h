/* SPDX-License-Identifier: MIT
 *
 * The audit: calls of sensitive functions, each with its stack, its thread, its time and those of
 * its arguments that the policy names (sensor/audit/policy.h).
 *
 * It is told before the function is entered, by the hook that stands in its place. A call that no
 * rule of the policy wants leaves nothing behind. One that was recorded before, by this thread, in
 * the chunk that is still open, with the same stack and arguments, is told by a record of some 5
 * bytes that points back at it; so what a site repeats a million times stays small, and exact.
 *
 * What a call costs at a known site: the enter (write.h), the first text argument's 8 or more
 * bytes read and hashed, one line of the table of verdicts, one read of the cycle counter, one
 * capture through the frame cache, the body built in the chunk (one or two lines), one comparison
 * with the record it repeats (one or two lines). No atomic instruction. A system call only to prove
 * that memory can be read which the function would leave to the kernel to read: a path that is
 * wrong is EFAULT to the program and must not be a fault in here.
 *
 * Nothing here allocates but the thread's state, 5 KB, at its first audited call.
 */
#ifndef SONDE_SENSOR_AUDIT_AUDIT_H
#define SONDE_SENSOR_AUDIT_AUDIT_H

#include "arch/keep.h"
#include "sensor/audit/policy.h"
#include "sensor/malloc/malloc.h"

/* From now on calls are judged by POLICY, which is valid and stays. */
void audit_start(const audit_policy_t *policy);

/* Writes the policy and its YAML, SIZE bytes at TEXT, into the recording, and which of its
 * functions are hooked. */
void audit_write_policy(const char *text, uint32_t size, const bool *reached);

/* The function NUMBER of the policy is about to be entered, with ARGUMENTS in its six registers. */
void audit_called(uint32_t number, const uint64_t *arguments, caller_t at);

/* The same from a trampoline, where the function's arguments may be in vector registers too: on
 * Apple's systems libSystem, which the audit calls, may use these. */
#if defined(__APPLE__)
void audit_called_by(uint64_t number, uint64_t arguments, uint64_t at, uint64_t none);
static inline void audit_called_keeping(uint32_t number, const uint64_t *arguments, caller_t at) {
  arch_call_keeping(number, (uintptr_t)arguments, (uintptr_t)&at, 0, audit_called_by);
}
#else
static inline void audit_called_keeping(uint32_t number, const uint64_t *arguments, caller_t at) {
  audit_called(number, arguments, at);
}
#endif

#endif
