/* SPDX-License-Identifier: MIT
 *
 * The audit sensor: calls of sensitive functions, each with stack, thread, time, and the arguments
 * that the policy selects (sensor/audit/policy.h).
 *
 * The hook that replaces a function calls the sensor before the function is entered. Calls of
 * functions whose results are known (results.h) have a second record when they return. A call that
 * no rule of the policy matches leaves no trace. If the same thread recorded a call with the same
 * stack and arguments in the chunk that is still open, a record of about 5 bytes refers to that
 * earlier record. So a call site that repeats a million times needs little space and remains exact.
 *
 * Cost of a call at a known site: writer_enter (record/writer.h); reading and hashing the first
 * text argument; one cache line of the verdict table; one reading of the cycle counter; one capture
 * through the frame cache; building the record in the chunk (one or two lines); comparing it with
 * the record it may repeat (one or two lines). No atomic instruction. The only system call proves
 * that memory is readable, if the function would leave the reading to the kernel: a wrong path
 * gives the program EFAULT and must not fault here.
 *
 * With a limited depth, a known stack costs one more line, the table of truncated stacks.
 *
 * The sensor allocates only the thread's state, 7 KB, at the thread's first audited call. errno is
 * not changed.
 */
#ifndef SONDE_SENSOR_AUDIT_AUDIT_H
#define SONDE_SENSOR_AUDIT_AUDIT_H

#include "arch/keep.h"
#include "sensor/audit/policy.h"
#include "sensor/malloc/malloc.h"

/* Sets the policy. POLICY is valid and stays mapped forever. */
void audit_start(const audit_policy_t *policy);

/* Records the policy, its YAML (SIZE bytes at TEXT), and which of its functions are hooked. */
void audit_write_policy(const char *text, uint32_t size, const bool *reached);

/* The function NUMBER of the policy is about to be called, with the six register ARGUMENTS. False
 * if the call was not recorded. */
bool audit_called(uint32_t number, const uint64_t *arguments, caller_t at);

/* The recorded call of function NUMBER has returned. RESULT is its result, from -1 up; ERROR is
 * errno if that means that it failed, else 0. */
void audit_returned(uint32_t number, int64_t result, int32_t error);

/* The same from a trampoline, which must preserve vector registers: on Apple's systems the audit
 * calls libSystem, which may change them. */
#if defined(__APPLE__)
void audit_called_by(uint64_t number, uint64_t arguments, uint64_t at, uint64_t none);
static inline bool audit_called_keeping(uint32_t number, const uint64_t *arguments, caller_t at) {
  arch_call_keeping(number, (uintptr_t)arguments, (uintptr_t)&at, 0, audit_called_by);
  return false; /* the results are not recorded */
}
#else
static inline bool audit_called_keeping(uint32_t number, const uint64_t *arguments, caller_t at) {
  return audit_called(number, arguments, at);
}
#endif

#endif
