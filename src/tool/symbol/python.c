/* SPDX-License-Identifier: MIT
 *
 * Installation paths of CPython (the module sysconfig): the standard library is in lib/python3.N or
 * lib/python3N.zip, packages are in a folder site-packages, of Debian dist-packages, below it or
 * elsewhere. The path of a frozen module is "<frozen NAME>".
 */
#include "symbol/python.h"

#include <ctype.h>
#include <string.h>

/* The rest of FILE after its last folder of packages; NULL: it is in none. */
static const char *in_packages(const char *file) {
  static const char *const folders[] = {"/site-packages/", "/dist-packages/"};
  const char *found = NULL;
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
    for (const char *p = strstr(file, folders[i]); p; p = strstr(p + 1, folders[i]))
      if (p + strlen(folders[i]) > (found ? found : file)) found = p + strlen(folders[i]);
  return found;
}

void python_package(const char *file, char *out, size_t size) {
  const char *rest = file ? in_packages(file) : NULL;
  size_t length = rest ? strcspn(rest, "/") : 0;
  if (rest && !rest[length]) length = strcspn(rest, "."); /* a module of one file */
  if (length >= size) length = size - 1;
  memcpy(out, rest ? rest : "", length);
  out[length] = 0;
}

size_t python_packages_folder(const char *file) {
  const char *rest = in_packages(file);
  return rest ? (size_t)(rest - file) : 0;
}

/* Whether PATH begins with the rest of a folder or archive of the standard library. */
static int is_library(const char *path) {
  static const char name[] = "/python3";
  if (strncmp(path, name, sizeof name - 1) != 0) return 0;
  const char *p = path + sizeof name - 1;
  if (*p == '.') p++;
  if (!isdigit((unsigned char)*p)) return 0;
  while (isalnum((unsigned char)*p)) /* 3.13t is a variant */
    p++;
  return *p == '/' || strncmp(p, ".zip", 4) == 0;
}

source_role_t python_role(const char *file) {
  if (!file) return SOURCE_APP;
  if (strncmp(file, "<frozen ", 8) == 0) return SOURCE_STANDARD;
  if (in_packages(file)) return SOURCE_PACKAGE;
  for (const char *p = strstr(file, "/lib"); p; p = strstr(p + 1, "/lib")) {
    const char *end = strchr(p + 1, '/');
    if (end && (end - p == 4 || end - p == 6) && is_library(end)) return SOURCE_STANDARD;
  }
  return SOURCE_APP;
}
