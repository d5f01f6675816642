/* SPDX-License-Identifier: MIT
 *
 * Classifies images as system or app.
 *
 * App images are the main executable and every image that is not system. By default these are
 * system: the dynamic loader, libc and its family, the vDSO, the C++ and compiler runtimes
 * (image/path.h). The user's globs take precedence. One thread uses these functions.
 */
#ifndef SONDE_SYMBOL_SYSTEM_H
#define SONDE_SYMBOL_SYSTEM_H

#include <stdbool.h>

typedef struct system_rules system_rules_t;

/* NULL when memory runs out. Release with system_rules_free. */
system_rules_t *system_rules_new(void);

void system_rules_free(system_rules_t *rules);

/* Makes images that match GLOB (path_matches) system or app. Of several matching globs the last
 * added wins. False when memory runs out. */
bool system_rules_add(system_rules_t *rules, const char *glob, bool is_system);

typedef enum system_verdict { SYSTEM_UNDECIDED, SYSTEM_YES, SYSTEM_NO } system_verdict_t;

/* What the user's globs say of the image at PATH; RULES may be NULL. */
system_verdict_t system_verdict(const system_rules_t *rules, const char *path);

/* Returns whether the image at PATH is a system image of the process with the main executable EXE,
 * which is an app image by default; EXE and RULES may be NULL. */
bool system_is(const system_rules_t *rules, const char *exe, const char *path);

#endif
