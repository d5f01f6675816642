/* SPDX-License-Identifier: MIT */
#include "cli/common/recordings.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/message.h"

/* A deeper tree of folders is a mistake. */
enum { FOLDERS_MAX = 64 };

static bool add_path(recordings_t *r, char *path) {
  char **added = path ? ARRAY_ADD(r->paths) : NULL;
  if (added) *added = path;
  if (!added) free(path);
  return added || (message_fail("out of memory"), false);
}

static bool is_recording(const char *name) {
  static const char ending[] = ".sonde";
  size_t n = strlen(name);
  return n >= sizeof ending && !strcmp(name + n - (sizeof ending - 1), ending);
}

static bool add_folder(recordings_t *r, const char *path, int depth);

static bool add_entry(recordings_t *r, const char *folder, const char *name, int depth) {
  struct stat status;
  char *path;
  if (name[0] == '.') return true;
  if (asprintf(&path, "%s/%s", folder, name) < 0) return add_path(r, NULL);
  bool exists = lstat(path, &status) == 0;
  if (exists && S_ISREG(status.st_mode) && is_recording(name)) return add_path(r, path);
  bool good = !exists || !S_ISDIR(status.st_mode) || add_folder(r, path, depth + 1);
  free(path);
  return good;
}

static bool add_folder(recordings_t *r, const char *path, int depth) {
  struct dirent **entries;
  if (depth > FOLDERS_MAX) {
    (void)message_fail("'%s': folders are nested more than %d deep", path, FOLDERS_MAX);
    return false;
  }
  int count = scandir(path, &entries, NULL, alphasort);
  bool good = count >= 0;
  if (!good) (void)message_fail("'%s': %s", path, strerror(errno));
  for (int i = 0; i < count; i++) {
    good = good && add_entry(r, path, entries[i]->d_name, depth);
    free(entries[i]);
  }
  if (count >= 0) free(entries);
  return good;
}

bool recordings_add(recordings_t *r, const char *path) {
  struct stat status;
  if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) return add_folder(r, path, 0);
  return add_path(r, strdup(path));
}

void recordings_free(recordings_t *r) {
  for (size_t i = 0; i < r->paths.count; i++)
    free(r->paths.items[i]);
  free(r->paths.items);
}
