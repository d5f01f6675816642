/* SPDX-License-Identifier: MIT
 *
 * The methods of Objective-C that a policy names. What is hooked for them is the runtime's: GNU's
 * functions that look methods up (audit_lookups.c), Apple's that send messages
 * (apple/audit_lookups.c).
 *
 * A name may be a glob; the method's own name is then the call's one argument, a text.
 *
 * A program keeps what a look-up gave it for as long as it likes: trampolines are never given back,
 * and go straight on under another policy or none.
 */
#ifndef SONDE_SENSOR_AUDIT_OBJC_METHODS_H
#define SONDE_SENSOR_AUDIT_OBJC_METHODS_H

#include "hook/trampoline.h"
#include "sensor/audit/policy.h"
#include "sensor/malloc/malloc.h"

/* The functions that are to be replaced while a policy names a method. */
#if defined(__APPLE__)
#define AUDIT_LOOKUPS 8
#else
#define AUDIT_LOOKUPS 2
#endif
const char *audit_lookup_name(uint32_t number);

/* The replacement of lookup NUMBER, or NULL without a runtime; *ORIGINAL as hook/filter.h has it.
 */
void *audit_lookup(uint32_t number, void ***original);

/* Whether POLICY names one; from now on it is the policy whose methods are told. */
bool audit_methods_start(const audit_policy_t *policy);

/* Methods pass as if nothing had been there. */
void audit_methods_stop(void);

/* The policy whose methods are told now, or NULL. */
const audit_policy_t *audit_methods_policy(void);

/* For audit_method_called: what POLICY has the method NAME told as; 0: it does not name it, or
 * cannot be told, since there is no room here, or CAN_TELL says so: *LEFT is set then. */
uint32_t audit_method_number(const audit_policy_t *policy, const char *name, bool can_tell,
                             bool *left);

/* A method that cannot be told was met: counted. */
void audit_method_left(void);

/* The method NUMBER, not 0, is about to be entered. */
void audit_method_called(uint32_t number, caller_t at);

#endif
