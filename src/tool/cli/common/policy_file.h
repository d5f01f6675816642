/* SPDX-License-Identifier: MIT
 *
 * An audit policy as it is named on the command line: a file, or one of those that ship inside.
 */
#ifndef SONDE_CLI_COMMON_POLICY_FILE_H
#define SONDE_CLI_COMMON_POLICY_FILE_H

#include "analysis/audit/policy.h"

/* Reads NAME ("linux", "apple" or a path) as of TODAY, 0: whenever. When it cannot, says one line
 * and returns NULL. TEXT, when not NULL, gets the policy's YAML, to be freed by the caller. */
policy_t *policy_file_read(const char *name, time_t today, policy_source_t *text);

/* The policy NAME as programs read it: in its flat form, which is first, then the YAML it was made
 * of and, behind a 0, that which this builds on. NULL when it is not understood, or there is no
 * memory for it, which has been said; else SIZE bytes, to be freed by the caller. */
audit_policy_t *policy_file_compile(const char *name, size_t *size);

#endif
