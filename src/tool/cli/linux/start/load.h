/* SPDX-License-Identifier: MIT
 *
 * Loads the library of verbs, and that of audit policies. Any thread may call this.
 */
#ifndef SONDE_CLI_LINUX_START_LOAD_H
#define SONDE_CLI_LINUX_START_LOAD_H

#include "cli/linux/policy_library.h"
#include "cli/linux/verbs_library.h"

/* Each returns the library, which remains loaded. On failure returns NULL, and *ERROR is one line,
 * valid to the end of the process. */
const verbs_library_t *load_verbs(const char **error);
const policy_library_t *load_policy(const char **error);

#endif
