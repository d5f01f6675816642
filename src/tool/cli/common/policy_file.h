/* SPDX-License-Identifier: MIT
 *
 * An audit policy named on the command line: built-in policies or a file.
 */
#ifndef SONDE_CLI_COMMON_POLICY_FILE_H
#define SONDE_CLI_COMMON_POLICY_FILE_H

#include "analysis/audit/policy.h"

/* Reads NAME ("linux", "files,net" or a path). TODAY decides which allowances have expired; 0:
 * none. On failure prints an error and returns NULL. TEXT, if not NULL, receives the policy's YAML,
 * which the caller frees. */
policy_t *policy_file_read(const char *name, time_t today, policy_source_t *text);

/* Compiles the policy NAME for programs: the flat form, its YAML and, each after a 0 byte, the
 * YAML of the policies that it extends. Returns *SIZE bytes, which the caller frees; on failure
 * prints an error and returns NULL. */
audit_policy_t *policy_file_compile(const char *name, size_t *size);

#endif
