/* SPDX-License-Identifier: MIT */
#ifndef SONDE_CLI_RECORD_AUDIT_H
#define SONDE_CLI_RECORD_AUDIT_H

#include <stdbool.h>
#include <sys/types.h>

#include "record/recorder.h"

/* Reads and compiles the audit policy NAME (as policy_file_compile) into a file in memory, whose
 * descriptor and size are kept for record_audit_offer. False when it is not understood, which has
 * been said. */
bool record_audit_read(const char *name);

/* Offers that policy to the program that is to be recorded. */
void record_audit_offer(recording_t *recording);

/* Watches the system calls of the child PID by that policy (monitor/coverage.h); the watcher closes
 * the COUNT descriptors at CLOSED. Returns its pid, or -1 when it cannot, which has been said. */
pid_t record_audit_watch(recording_t *recording, pid_t pid, const int *closed, int count);

#endif
