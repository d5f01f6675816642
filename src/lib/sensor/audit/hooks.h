/* SPDX-License-Identifier: MIT
 *
 * The audit in force: every function of a policy that some image defines is hooked where it is
 * imported (hook/), through a trampoline that tells the sensor and goes straight on. Calls that
 * pass no import slot are not seen; the loader's own come before. Methods of Objective-C are told
 * by sensor/audit/objc_methods.h, whose look-ups are hooked here.
 *
 * One policy at a time. Called by one thread at a time, not in a signal handler.
 */
#ifndef SONDE_SENSOR_AUDIT_HOOKS_H
#define SONDE_SENSOR_AUDIT_HOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "sensor/audit/policy.h"

/* The flat policy at the start of SIZE bytes at DATA, which its YAML follows; NULL when it is none.
 */
const audit_policy_t *audit_policy_of(const void *data, uint64_t size);

/* Hooks what POLICY names and writes policy and YAML, SIZE bytes in all, into the recording, unless
 * WRITTEN says that it has them. POLICY stays for ever. 0 or a negative SONDE_E…. */
int audit_hooks_set(const audit_policy_t *policy, uint32_t size, bool written);

/* In a forked child, whose hooks are its parent's: writes the policy, its YAML and what is hooked
 * into the recording that the child has begun. */
void audit_hooks_record_again(void);

/* Calls pass as if nothing had been there. */
void audit_hooks_remove(void);

#endif
