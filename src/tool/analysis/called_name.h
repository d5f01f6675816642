/* SPDX-License-Identifier: MIT
 *
 * The public names of functions of the C library, which has others on stacks: "read" for
 * "__GI___libc_read", and "pthread_join" for "__pthread_clockjoin_ex".
 */
#ifndef SONDE_ANALYSIS_CALLED_NAME_H
#define SONDE_ANALYSIS_CALLED_NAME_H

#include <stdbool.h>

/* What a program calls to get to FUNCTION. Part of FUNCTION, or static text. */
const char *called_name(const char *function);

/* Whether FUNCTION starts threads or programs: no program calls it. */
bool called_is_start(const char *function);

/* Whether LIBRARY, a file name, is the C library or the part of an old one with threads. */
bool called_is_libc(const char *library);

#endif
