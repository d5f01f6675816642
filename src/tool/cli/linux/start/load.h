/* SPDX-License-Identifier: MIT
 *
 * Loads the library of verbs. Any thread may call this.
 */
#ifndef SONDE_CLI_LINUX_START_LOAD_H
#define SONDE_CLI_LINUX_START_LOAD_H

#include "cli/linux/verbs_library.h"

/* The library, which remains loaded. On failure returns NULL, and *ERROR is one line, valid to the
 * end of the process. */
const verbs_library_t *load_verbs(const char **error);

#endif
