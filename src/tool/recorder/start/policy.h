/* SPDX-License-Identifier: MIT
 *
 * Shares a compiled audit policy with the program.
 */
#ifndef SONDE_RECORDER_START_POLICY_H
#define SONDE_RECORDER_START_POLICY_H

#include <stddef.h>

#include "sensor/audit/policy.h"

/* A memfd with the SIZE bytes of POLICY, which the agent opens through /proc. -1 with errno on
 * failure. */
int policy_share(const audit_policy_t *policy, size_t size);

#endif
