/* SPDX-License-Identifier: MIT
 *
 * Which images are the system's and which are the program's own, and whose a library is.
 *
 * App images are the main executable and every image that is not system. System by default: the
 * dynamic loader, libc and its family, the vDSO, C++ and compiler runtimes (image/path.h). Patterns
 * of the user come before that. A library that is neither has an owner: the distribution's package
 * that installed it.
 */
#ifndef SONDE_SYMBOL_SYSTEM_H
#define SONDE_SYMBOL_SYSTEM_H

#include <stdbool.h>

typedef struct system_rules system_rules_t;

/* NULL when there is no memory. */
system_rules_t *system_rules_new(void);

/* PATH is the main executable, which is the app's own whatever it is called. */
bool system_rules_exe(system_rules_t *rules, const char *path);
void system_rules_free(system_rules_t *rules);

/* Images that match GLOB (fnmatch; against the whole path, or, without a slash in GLOB, the file's
 * name) are system, or app. Of several globs that match, the one added last counts. */
bool system_rules_add(system_rules_t *rules, const char *glob, bool is_system);

/* The verdict on the image at PATH. */
bool system_is(const system_rules_t *rules, const char *path);

#endif
