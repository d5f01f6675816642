/* SPDX-License-Identifier: MIT
 *
 * The methods of Objective-C that a policy names. They are told by a trampoline of their own, as
 * functions are, which the runtime's look-up of methods gives the program (sensor/methods.h).
 *
 * A name may be a glob; the method's own name is then the call's one argument, a text.
 *
 * A program keeps what a look-up gave it for as long as it likes: trampolines are never given back,
 * and go straight on under another policy or none.
 */
#ifndef SONDE_SENSOR_AUDIT_METHODS_H
#define SONDE_SENSOR_AUDIT_METHODS_H

#include "hook/trampoline.h"
#include "sensor/audit_policy.h"

/* The functions that are to be replaced while a policy names a method. */
#define AUDIT_LOOKUPS 2
extern const char *const audit_lookups[AUDIT_LOOKUPS];

/* Whether POLICY names one; from now on it is the policy whose methods are told. */
bool audit_methods_start(const audit_policy_t *policy);

/* The replacement of lookup NUMBER, or NULL without a runtime; *ORIGINAL as hook/family.h has it.
 */
void *audit_lookup(uint32_t number, void ***original);

/* Methods pass as if nothing had been there. */
void audit_methods_stop(void);

#endif
