/* SPDX-License-Identifier: MIT
 *
 * RECORD is CSV: a path, a hash and a size. Paths are relative to the folder of packages, with
 * slashes; a path with a comma or a quotation mark is quoted. Only modules are kept. METADATA has
 * headers as in mail.
 */
#include "symbol/distribution.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/hash.h"
#include "symbol/index/strings.h"
#include "symbol/python.h"

/* Of a folder with 1,500 packages, all lists have 20 MB. */
#define FILE_BYTES_MAX (64 << 20)
/* A program has packages in a few folders; a hostile recording may name any number. */
#define FOLDERS_MAX 64u

/* A file and its distribution, as offsets in the strings. */
typedef struct module {
  uint32_t path, name;
} module_t;

struct distributions {
  string_table_t strings;
  ARRAY(uint32_t) folders; /* that were read */
  ARRAY(module_t) modules;
  hash_index_t index; /* of the paths */
};

distributions_t *distributions_new(void) {
  distributions_t *d = calloc(1, sizeof *d);
  if (d && strings_init(&d->strings)) return d;
  distributions_free(d);
  return NULL;
}

void distributions_free(distributions_t *d) {
  if (!d) return;
  strings_free(&d->strings);
  free(d->folders.items);
  free(d->modules.items);
  hash_free(&d->index);
  free(d);
}

/* ---- the table ---------------------------------------------------------------------------- */

/* Strings are interned, so a path's offset identifies it. */
static uint64_t hash_of_module(const void *distributions, size_t i) {
  return hash_number(((const distributions_t *)distributions)->modules.items[i].path);
}

/* The module at PATH; NULL: there is none, and *PLACE is its slot. */
static const module_t *find(const distributions_t *d, uint32_t path, uint32_t **place) {
  uint32_t *slot;
  HASH_FIND(&d->index, hash_number(path), slot) {
    const module_t *module = &d->modules.items[*slot - 1];
    if (module->path == path) return module;
  }
  *place = slot;
  return NULL;
}

/* Of several distributions with a file, the first one read wins. */
static bool add(distributions_t *d, const char *folder, const char *path, uint32_t name) {
  char whole[PATH_MAX];
  uint32_t text, *slot;
  if ((size_t)snprintf(whole, sizeof whole, "%s%s", folder, path) >= sizeof whole) return true;
  if (!strings_add(&d->strings, whole, &text) ||
      !hash_reserve(&d->index, d->modules.count, hash_of_module, d))
    return false;
  if (find(d, text, &slot)) return true;
  module_t *module = ARRAY_ADD(d->modules);
  if (!module) return false;
  *module = (module_t){text, name};
  *slot = (uint32_t)d->modules.count;
  return true;
}

/* ---- reading ------------------------------------------------------------------------------ */

/* The path was read from a recording, so it may lead to anything. */
static FILE *open_in(const char *folder, const char *entry, const char *name) {
  char path[PATH_MAX];
  struct stat info;
  if ((size_t)snprintf(path, sizeof path, "%s%s/%s", folder, entry, name) >= sizeof path)
    return NULL;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  bool good =
      fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size <= FILE_BYTES_MAX;
  FILE *file = good ? fdopen(fd, "r") : NULL;
  if (!file && fd >= 0) close(fd);
  return file;
}

/* The name in METADATA. The headers end at the first empty line. */
static bool read_name(const char *folder, const char *entry, char *out, size_t size) {
  char line[1024];
  FILE *file = open_in(folder, entry, "METADATA");
  bool found = false;
  while (file && !found && fgets(line, sizeof line, file) && *line != '\n') {
    if (strncmp(line, "Name:", 5)) continue;
    char *name = line + 5 + strspn(line + 5, " \t");
    name[strcspn(name, " \t\r\n")] = 0;
    found = *name && (size_t)snprintf(out, size, "%s", name) < size;
  }
  if (file) fclose(file);
  return found;
}

/* The path at the start of LINE, without its quotation marks. */
static const char *path_in(char *line) {
  if (*line != '"') {
    line[strcspn(line, ",\r\n")] = 0;
    return line;
  }
  char *to = line;
  for (const char *from = line + 1; *from && (*from != '"' || *++from == '"'); from++)
    *to++ = *from;
  *to = 0;
  return line;
}

static bool is_module(const char *path) {
  size_t length = strlen(path);
  return length > 3 && !strcmp(path + length - 3, ".py") && strncmp(path, "../", 3) && *path != '/';
}

static void read_distribution(distributions_t *d, const char *folder, const char *entry) {
  char name[256], *line = NULL;
  size_t capacity = 0;
  uint32_t text;
  if (!read_name(folder, entry, name, sizeof name) || !strings_add(&d->strings, name, &text))
    return;
  FILE *record = open_in(folder, entry, "RECORD");
  while (record && getline(&line, &capacity, record) > 0) {
    const char *path = path_in(line);
    if (is_module(path) && !add(d, folder, path, text)) break;
  }
  free(line);
  if (record) fclose(record);
}

static bool is_dist_info(const char *name) {
  static const char end[] = ".dist-info";
  size_t length = strlen(name);
  return length > sizeof end - 1 && !strcmp(name + length - (sizeof end - 1), end);
}

/* FOLDER ends with a slash. */
static void read_folder(distributions_t *d, const char *folder) {
  uint32_t text, *place;
  for (size_t i = 0; i < d->folders.count; i++)
    if (!strcmp(strings_at(&d->strings, d->folders.items[i]), folder)) return;
  if (d->folders.count == FOLDERS_MAX || !strings_add(&d->strings, folder, &text)) return;
  if (!(place = ARRAY_ADD(d->folders))) return;
  *place = text;
  DIR *entries = opendir(folder);
  struct dirent *entry;
  while (entries && (entry = readdir(entries)))
    if (is_dist_info(entry->d_name)) read_distribution(d, folder, entry->d_name);
  if (entries) closedir(entries);
}

const char *distribution_of(distributions_t *d, const char *file) {
  char folder[PATH_MAX];
  size_t length = python_packages_folder(file);
  uint32_t text, *slot;
  if (*file != '/' || !length || length >= sizeof folder) return NULL;
  memcpy(folder, file, length);
  folder[length] = 0;
  read_folder(d, folder);
  if (!d->index.slots || !strings_find(&d->strings, file, &text)) return NULL;
  const module_t *module = find(d, text, &slot);
  return module ? strings_at(&d->strings, module->name) : NULL;
}
