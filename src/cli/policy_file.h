/* SPDX-License-Identifier: MIT
 *
 * An audit policy as it is named on the command line: a file, or one of those that ship inside.
 */
#ifndef SONDE_CLI_POLICY_FILE_H
#define SONDE_CLI_POLICY_FILE_H

#include "analysis/policy.h"

/* Reads NAME ("linux", "apple" or a path) as of TODAY, 0: whenever. When it cannot, says one line
 * and returns NULL. TEXT, when not NULL, gets the policy's YAML, to be freed by the caller. */
policy_t *policy_file_read(const char *name, time_t today, policy_source_t *text);

#endif
