/* SPDX-License-Identifier: MIT
 *
 * The globs of policies, patterns and options. In a glob, * matches any text, ? one byte, and # a
 * decimal number; every other byte matches itself.
 */
#ifndef SONDE_BASE_GLOB_H
#define SONDE_BASE_GLOB_H

#include <stdbool.h>

/* True if GLOB matches all of TEXT. Any thread, also in a signal handler. */
bool glob_matches(const char *glob, const char *text);

#endif
