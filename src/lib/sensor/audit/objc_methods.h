/* SPDX-License-Identifier: MIT
 *
 * Objective-C methods that a policy names. The runtime's functions are hooked for them: GNU's
 * look-up functions (linux/objc_lookups.c), Apple's functions that send messages
 * (apple/objc_lookups.c).
 *
 * A name may be a glob; the method's own name is then the call's only argument, a text.
 *
 * A program may keep the result of a look-up forever. So trampolines are never freed; under another
 * policy or none they jump to the method.
 */
#ifndef SONDE_SENSOR_AUDIT_OBJC_METHODS_H
#define SONDE_SENSOR_AUDIT_OBJC_METHODS_H

#include "hook/trampoline.h"
#include "sensor/audit/policy.h"
#include "sensor/malloc/malloc.h"

/* The number of functions that are hooked if a policy names a method. */
#if defined(__APPLE__)
#define AUDIT_LOOKUPS 8
#else
#define AUDIT_LOOKUPS 2
#endif
const char *audit_lookup_name(uint32_t number);

/* The replacement of look-up function NUMBER, or NULL without a runtime; *ORIGINAL is as in
 * hook/filter.h. */
void *audit_lookup(uint32_t number, void ***original);

/* If POLICY names a method, makes it the active policy for methods and returns true. */
bool audit_methods_start(const audit_policy_t *policy);

/* No policy is active for methods. */
void audit_methods_stop(void);

/* The active policy for methods, or NULL. */
const audit_policy_t *audit_methods_policy(void);

/* The number, for audit_method_called, of the method NAME in POLICY. 0: POLICY does not name it, or
 * it cannot be audited, because a table is full or CAN_AUDIT is false; *LEFT is set then. */
uint32_t audit_method_number(const audit_policy_t *policy, const char *name, bool can_audit,
                             bool *left);

/* Counts a method that cannot be audited. */
void audit_method_left(void);

/* The method NUMBER, not 0, is about to be called. */
void audit_method_called(uint32_t number, caller_t at);

#endif
