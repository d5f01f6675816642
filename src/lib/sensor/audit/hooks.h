/* SPDX-License-Identifier: MIT
 *
 * Hooks of the audit: each function of a policy that some image defines is hooked where it is
 * imported (hook/), through a trampoline that calls the sensor and jumps to the function. Calls
 * that use no import slot are not seen, and neither are calls by the loader before the hooks are
 * set. Objective-C methods are audited by sensor/audit/objc_methods.h, whose look-up functions are
 * hooked here.
 *
 * One policy at a time. Called by one thread at a time, not in signal handlers.
 */
#ifndef SONDE_SENSOR_AUDIT_HOOKS_H
#define SONDE_SENSOR_AUDIT_HOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "sensor/audit/policy.h"

/* The flat policy at the start of SIZE bytes at DATA, which its YAML follows; NULL if invalid. */
const audit_policy_t *audit_policy_of(const void *data, uint64_t size);

/* Hooks the functions of POLICY, and writes policy and YAML, SIZE bytes in all, to the recording
 * unless it has them (WRITTEN). POLICY stays mapped forever. Returns 0 or a negative SONDE_E…. */
int audit_hooks_set(const audit_policy_t *policy, uint32_t size, bool written);

/* In a forked child, which inherits the hooks: writes policy, YAML and hooked functions to the
 * child's recording. */
void audit_hooks_record_again(void);

/* Removes the hooks. */
void audit_hooks_remove(void);

#endif
