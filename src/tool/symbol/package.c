/* SPDX-License-Identifier: MIT
 *
 * The packages that own files. dpkg has one list of paths per package
 * (/var/lib/dpkg/info/NAME.list, or NAME:ARCHITECTURE.list); apk has one file with P:, F: and R:
 * lines: a package, a folder, a file in it. Both are read once into a table from paths to packages.
 *
 * If /lib is a link to /usr/lib, a package may list a file under either path, so both are tried.
 */
#include "symbol/package.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/rpm.h"
#include "base/array.h"
#include "base/hash.h"
#include "symbol/index/strings.h"

/* A path and its package, as offsets in the strings. */
typedef struct owned_path {
  uint32_t path, owner;
} owned_path_t;

struct packages {
  char *root;
  bool read;
  string_table_t strings; /* paths and packages */
  owned_path_t *paths;
  size_t count, capacity;
  hash_index_t index; /* of the paths */
  rpm_t *rpm;         /* NULL: no rpm database, or no librpm */
};

packages_t *packages_new(const char *root) {
  packages_t *packages = calloc(1, sizeof *packages);
  if (!packages) return NULL;
  packages->root = strdup(root);
  if (packages->root && strings_init(&packages->strings)) return packages;
  packages_free(packages);
  return NULL;
}

void packages_free(packages_t *packages) {
  if (!packages) return;
  rpm_close(packages->rpm);
  strings_free(&packages->strings);
  free(packages->root);
  free(packages->paths);
  hash_free(&packages->index);
  free(packages);
}

/* ---- reading ------------------------------------------------------------------------------ */

/* Only paths that can be an image are kept: most of a distribution is documentation. */
static bool may_be_image(const char *path) {
  return strstr(path, ".so") || strstr(path, "bin/") || strstr(path, "/lib") ||
         strstr(path, "/opt/");
}

static bool add(packages_t *packages, const char *path, uint32_t owner) {
  uint32_t text;
  if (!may_be_image(path)) return true;
  if (!strings_add(&packages->strings, path, &text) ||
      !ARRAY_GROW(packages->paths, packages->count, packages->capacity))
    return false;
  packages->paths[packages->count++] = (owned_path_t){text, owner};
  return true;
}

static FILE *open_below(const packages_t *packages, const char *format, const char *name) {
  char path[PATH_MAX], tail[PATH_MAX];
  if ((size_t)snprintf(tail, sizeof tail, format, name) >= sizeof tail ||
      (size_t)snprintf(path, sizeof path, "%s%s", packages->root, tail) >= sizeof path)
    return NULL;
  return fopen(path, "re");
}

/* The package of a list: libc6 for "libc6:amd64.list". */
static bool package_name(const char *file, char *out, size_t size) {
  size_t length = strlen(file);
  if (length <= 5 || strcmp(file + length - 5, ".list") || length >= size) return false;
  memcpy(out, file, length - 5);
  out[length - 5] = 0;
  char *colon = strchr(out, ':');
  if (colon) *colon = 0;
  return true;
}

static void read_dpkg_list(packages_t *packages, const char *file) {
  char name[256], *line = NULL;
  size_t capacity = 0;
  uint32_t owner;
  ssize_t length;
  if (!package_name(file, name, sizeof name) || !strings_add(&packages->strings, name, &owner))
    return;
  FILE *list = open_below(packages, "/var/lib/dpkg/info/%s", file);
  while (list && (length = getline(&line, &capacity, list)) > 0) {
    if (line[length - 1] == '\n') line[length - 1] = 0;
    if (!add(packages, line, owner)) break;
  }
  free(line);
  if (list) fclose(list);
}

static bool read_dpkg(packages_t *packages) {
  char path[PATH_MAX];
  if ((size_t)snprintf(path, sizeof path, "%s/var/lib/dpkg/info", packages->root) >= sizeof path)
    return false;
  DIR *folder = opendir(path);
  if (!folder) return false;
  struct dirent *file;
  while ((file = readdir(folder)))
    read_dpkg_list(packages, file->d_name);
  closedir(folder);
  return packages->count > 0;
}

static bool read_apk(packages_t *packages) {
  char *line = NULL, folder[PATH_MAX] = "", path[PATH_MAX];
  size_t capacity = 0;
  uint32_t owner = 0;
  ssize_t length;
  FILE *database = open_below(packages, "%s", "/lib/apk/db/installed");
  while (database && (length = getline(&line, &capacity, database)) > 0) {
    if (line[length - 1] == '\n') line[length - 1] = 0;
    if (!strncmp(line, "P:", 2) && !strings_add(&packages->strings, line + 2, &owner)) break;
    if (!strncmp(line, "F:", 2)) snprintf(folder, sizeof folder, "/%s", line + 2);
    if (strncmp(line, "R:", 2) ||
        (size_t)snprintf(path, sizeof path, "%s/%s", folder, line + 2) >= sizeof path)
      continue;
    if (!add(packages, path, owner)) break;
  }
  free(line);
  if (database) fclose(database);
  return packages->count > 0;
}

/* ---- look-up ------------------------------------------------------------------------------ */

/* Strings are interned, so a path's offset identifies it. */
static uint64_t hash_of_path(const void *packages, size_t i) {
  return hash_number(((const packages_t *)packages)->paths[i].path);
}

/* Of several packages with PATH, the first one read wins. HASH_FIND yields it last. */
static const char *find(packages_t *packages, const char *path) {
  const char *owner = NULL;
  uint32_t text, *slot;
  if (!strings_find(&packages->strings, path, &text) ||
      !hash_reserve(&packages->index, packages->count, hash_of_path, packages))
    return NULL;
  HASH_FIND(&packages->index, hash_number(text), slot) {
    const owned_path_t *owned = &packages->paths[*slot - 1];
    if (owned->path == text) owner = strings_at(&packages->strings, owned->owner);
  }
  return owner;
}

static const char *find_rpm(packages_t *packages, const char *path) {
  char name[256];
  uint32_t text;
  if (!rpm_owner(packages->rpm, path, name, sizeof name)) return NULL;
  return strings_add(&packages->strings, name, &text) ? strings_at(&packages->strings, text) : NULL;
}

const char *package_of(packages_t *packages, const char *path) {
  char other[PATH_MAX];
  if (!packages->read) {
    packages->read = true;
    if (!read_dpkg(packages) && !read_apk(packages)) packages->rpm = rpm_open(packages->root);
  }
  if (packages->rpm) return find_rpm(packages, path);
  const char *name = find(packages, path);
  if (name) return name;
  if (!strncmp(path, "/usr/", 5)) return find(packages, path + 4);
  if ((size_t)snprintf(other, sizeof other, "/usr%s", path) >= sizeof other) return NULL;
  return find(packages, other);
}
