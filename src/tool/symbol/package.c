/* SPDX-License-Identifier: MIT
 *
 * Owners of files. dpkg keeps a list of paths a package (/var/lib/dpkg/info/NAME.list, with
 * :ARCHITECTURE where packages of several are installed); apk one file with P:, F: and R: lines (a
 * package, a folder, a file in it). Both are read once into a table from a path's hash to its
 * package. A hash finds and the path decides: each entry keeps the path.
 *
 * Where /lib is a link to /usr/lib, a package may list either path of a file, so both are asked.
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
#include "symbol/index/strings.h"

struct packages {
  char *root;
  bool read;
  strings_t strings; /* paths and packages */
  uint32_t *owners;  /* by a path's ordinal in `paths`: its package */
  uint32_t *paths;
  size_t count, owner_room, path_room;
  uint32_t *slots; /* ordinal + 1, by the path's offset in the strings */
  size_t slot_count;
  rpm_t *rpm; /* while there is an rpm database and librpm */
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
  free(packages->owners);
  free(packages->paths);
  free(packages->slots);
  free(packages);
}

/* ---- reading ------------------------------------------------------------------------------ */

/* Only what can be an image is worth a place: the rest of a distribution is documentation. */
static bool may_be_image(const char *path) {
  return strstr(path, ".so") || strstr(path, "bin/") || strstr(path, "/lib") ||
         strstr(path, "/opt/");
}

static bool add(packages_t *packages, const char *path, uint32_t owner) {
  uint32_t text;
  if (!may_be_image(path)) return true;
  if (!strings_add(&packages->strings, path, &text) ||
      !array_reserve((void **)&packages->owners, &packages->owner_room, packages->count,
                     sizeof *packages->owners) ||
      !array_reserve((void **)&packages->paths, &packages->path_room, packages->count,
                     sizeof *packages->paths))
    return false;
  packages->owners[packages->count] = owner;
  packages->paths[packages->count++] = text;
  return true;
}

static FILE *open_below(const packages_t *packages, const char *format, const char *name) {
  char path[PATH_MAX], tail[PATH_MAX];
  if ((size_t)snprintf(tail, sizeof tail, format, name) >= sizeof tail ||
      (size_t)snprintf(path, sizeof path, "%s%s", packages->root, tail) >= sizeof path)
    return NULL;
  return fopen(path, "re");
}

/* "libc6:amd64.list" is of libc6. */
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
  size_t room = 0;
  uint32_t owner;
  ssize_t length;
  if (!package_name(file, name, sizeof name) || !strings_add(&packages->strings, name, &owner))
    return;
  FILE *list = open_below(packages, "/var/lib/dpkg/info/%s", file);
  while (list && (length = getline(&line, &room, list)) > 0) {
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
  size_t room = 0;
  uint32_t owner = 0;
  ssize_t length;
  FILE *database = open_below(packages, "%s", "/lib/apk/db/installed");
  while (database && (length = getline(&line, &room, database)) > 0) {
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

/* Strings are interned, so a path's offset stands for it. */
static void build_slots(packages_t *packages) {
  size_t count = 64;
  while (count < packages->count * 2)
    count *= 2;
  packages->slots = calloc(count, sizeof *packages->slots);
  packages->slot_count = packages->slots ? count : 0;
  for (size_t i = 0; packages->slots && i < packages->count; i++) {
    size_t at = packages->paths[i] * (size_t)2654435761u & (count - 1);
    while (packages->slots[at])
      at = (at + 1) & (count - 1);
    packages->slots[at] = (uint32_t)i + 1;
  }
}

/* ---- asking ------------------------------------------------------------------------------- */

static const char *find(packages_t *packages, const char *path) {
  uint32_t text;
  if (!packages->slot_count || !strings_find(&packages->strings, path, &text)) return NULL;
  size_t mask = packages->slot_count - 1;
  for (size_t at = text * (size_t)2654435761u & mask; packages->slots[at]; at = (at + 1) & mask) {
    uint32_t ordinal = packages->slots[at] - 1;
    if (packages->paths[ordinal] == text)
      return strings_at(&packages->strings, packages->owners[ordinal]);
  }
  return NULL;
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
    if (read_dpkg(packages) || read_apk(packages))
      build_slots(packages);
    else
      packages->rpm = rpm_open(packages->root);
  }
  if (packages->rpm) return find_rpm(packages, path);
  const char *name = find(packages, path);
  if (name) return name;
  if (!strncmp(path, "/usr/", 5)) return find(packages, path + 4);
  if ((size_t)snprintf(other, sizeof other, "/usr%s", path) >= sizeof other) return NULL;
  return find(packages, other);
}
