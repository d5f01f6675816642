/* SPDX-License-Identifier: MIT
 *
 * The audit policy of a recording: the agent opens it through /proc and copies it into the
 * recording.
 */
#ifndef SONDE_RECORDER_AUDIT_POLICY_H
#define SONDE_RECORDER_AUDIT_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "recorder/recording_file.h"
#include "sensor/audit/policy.h"

/* Keeps the compiled policy FLAT, SIZE bytes, for record_audit_offer, and takes ownership of it.
 * Returns false after a message when that fails. */
bool record_audit_keep(audit_policy_t *flat, size_t size);

/* Offers that policy to the program that is to be recorded. */
void record_audit_offer(recording_t *recording);

/* Watches the system calls of the child PID by that policy (recorder/monitor/coverage.h); the
 * watcher closes the COUNT descriptors at CLOSED. Returns its pid, or -1 when it cannot, which has
 * been said. */
pid_t record_audit_watch(recording_t *recording, pid_t pid, const int *closed, int count);

#endif
