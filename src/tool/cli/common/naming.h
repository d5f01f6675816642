/* SPDX-License-Identifier: MIT
 *
 * The options of all verbs that name frames: where files are searched, and which images are the
 * app's. One table entry each, so that every verb has the same options.
 */
#ifndef SONDE_CLI_COMMON_NAMING_H
#define SONDE_CLI_COMMON_NAMING_H

#include "report/frame_names.h"

/* Far from the keys that verbs choose. */
enum {
  NAMING_DEBUG_DIR = 0x4000,
  NAMING_SYSROOT,
  NAMING_APP_ONLY,
  NAMING_SYSTEM,
  NAMING_APP,
};

#define NAMING_FILE_OPTIONS                                                                        \
  {NAMING_DEBUG_DIR, "debug-dir", "DIR",                                                           \
   "search files here by build-id or UUID: .build-id folders, binaries, debug files, dSYM "        \
   "bundles; may be repeated"},                                                                    \
  {                                                                                                \
    NAMING_SYSROOT, "sysroot", "DIR",                                                              \
        "search images below DIR, a copy of another machine's root folder; may be repeated"        \
  }

#define NAMING_RULE_OPTIONS                                                                        \
  {NAMING_SYSTEM, "system", "GLOB",                                                                \
   "matching images are system; with a slash, matches whole paths; may be repeated"},              \
  {                                                                                                \
    NAMING_APP, "app", "GLOB", "matching images are the app's; may be repeated"                    \
  }

#define NAMING_APP_OPTIONS                                                                         \
  {NAMING_APP_ONLY, "app-only", NULL, "omit frames of system images (libc and others)"},           \
      NAMING_RULE_OPTIONS

/* The option of verbs that shorten names to the width of the terminal. */
#define NAMING_FULL_NAMES_OPTION(key)                                                              \
  { key, "full-names", NULL, "print whole C++ and Rust names, whatever the width of the terminal" }

enum { NAMING_DIRS_MAX = 32 };

typedef struct naming {
  frame_names_options_t options;
  system_rules_t *rules;
  const char *debug_dirs[NAMING_DIRS_MAX + 1], *sysroots[NAMING_DIRS_MAX + 1];
  int debug_dir_count, sysroot_count;
} naming_t;

/* Takes the option KEY. False: it is not one of these options. *WRONG is NULL, or the error. */
bool naming_take(naming_t *naming, int key, const char *value, const char **wrong);

/* Prints which images have no names because their files were not found; a note to stderr. */
void naming_note_missing(const frame_names_t *names);

void naming_free(naming_t *naming);

#endif
