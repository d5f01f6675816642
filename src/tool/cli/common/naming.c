/* SPDX-License-Identifier: MIT */
#include "cli/common/naming.h"

#include <stdio.h>
#include <sys/stat.h>

#include "cli/cli.h"

/* Adds a folder to LIST. Returns the error, or NULL. */
static const char *add_folder(const char **list, int *count, const char *path) {
  struct stat status;
  static char error[512];
  if (stat(path, &status) != 0 || !S_ISDIR(status.st_mode)) {
    snprintf(error, sizeof error, "'%s' is not a folder", path);
    return error;
  }
  if (*count == NAMING_DIRS_MAX) return "--debug-dir and --sysroot may be given 32 times each";
  list[(*count)++] = path;
  return NULL;
}

static const char *add_rule(naming_t *n, const char *glob, bool is_system) {
  if (!*glob) return "--app and --system take a glob, such as 'libfoo*'";
  if (!n->rules) n->rules = system_rules_new();
  n->options.system = n->rules;
  return n->rules && system_rules_add(n->rules, glob, is_system) ? NULL : "out of memory";
}

bool naming_take(naming_t *n, int key, const char *value, const char **wrong) {
  *wrong = NULL;
  switch (key) {
  case NAMING_DEBUG_DIR:
    n->options.debug_dirs = n->debug_dirs;
    *wrong = add_folder(n->debug_dirs, &n->debug_dir_count, value);
    return true;
  case NAMING_SYSROOT:
    n->options.sysroots = n->sysroots;
    *wrong = add_folder(n->sysroots, &n->sysroot_count, value);
    return true;
  case NAMING_APP_ONLY: n->options.app_only = true; return true;
  case NAMING_SYSTEM:
  case NAMING_APP: *wrong = add_rule(n, value, key == NAMING_SYSTEM); return true;
  default: return false;
  }
}

void naming_note_missing(const frame_names_t *names) {
  enum { LISTED = 8 };
  char id[FRAME_NAMES_ID_MAX];
  const record_image_t *image;
  const char *reason;
  size_t place = 0, count = 0;
  for (; (image = frame_names_unnamed(names, &place, &reason)); count++)
    if (count < LISTED)
      message_note("no names for '%s' (build-id %s): %s", image->path,
                   image->build_id_size ? frame_names_build_id(image, id) : "none", reason);
  if (count > LISTED) message_note("no names for %zu more images", count - LISTED);
}

void naming_free(naming_t *n) {
  system_rules_free(n->rules);
  n->rules = NULL;
}
