/* SPDX-License-Identifier: MIT */
#include "report/own_code.h"

#include <ctype.h>
#include <string.h>

#include "image/path.h"

static bool starts_with_any(const char *text, const char *const *starts) {
  for (; *starts; starts++)
    if (!strncmp(text, *starts, strlen(*starts))) return true;
  return false;
}

static bool contains_any(const char *text, const char *const *parts) {
  for (; *parts; parts++)
    if (strstr(text, *parts)) return true;
  return false;
}

bool own_image(const char *path) {
  static const char *const folders[] = {"/lib/", "/lib64/",     "/lib32/", "/libx32/", "/usr/",
                                        "/opt/", "/nix/store/", "/snap/",  NULL};
  return path[0] == '/' && !starts_with_any(path, folders) && !path_is_system(path, NULL);
}

/* The name behind a return type: "void std::sort<int*>(…)" has "std::sort<int*>(…)". */
static const char *without_type(const char *function) {
  int depth = 0;
  const char *name = function;
  for (const char *p = function; *p && (*p != '(' || depth); p++) {
    if (depth == 0 && p > function && p[-1] == ':' && !strncmp(p, "operator", 8)) break;
    depth += (*p == '<') - (*p == '>' && p > function && p[-1] != '-');
    if (*p == ' ' && depth == 0 && p[1] != '(' && p[1] != '[') name = p + 1;
  }
  return name;
}

/* Compares without case; PART is in lower case. Returns the rest of TEXT, or NULL. */
static const char *after(const char *text, const char *part) {
  for (; *part; text++, part++)
    if (tolower((unsigned char)*text) != *part) return NULL;
  return text;
}

/* Whether what stands behind the allocator's name belongs to such a name. */
static bool is_suffix(const char *rest) {
  static const char *const suffixes[] = {"",        "(",         "0",       "_n",      "_num",
                                         "array",   "_array",    "_usable", "_zeroed", "_aligned",
                                         "_nofail", "_internal", NULL};
  for (const char *const *s = suffixes; *s; s++) {
    const char *end = after(rest, *s);
    if (end && (!*end || *end == '(' || (**s == '(' && end))) return true;
  }
  return false;
}

static bool wraps_allocator(const char *name) {
  static const char *const stems[] = {"malloc", "calloc",  "realloc",       "memalign",
                                      "strdup", "strndup", "aligned_alloc", NULL};
  for (const char *p = name; *p && *p != '('; p++)
    for (const char *const *s = stems; *s; s++) {
      const char *rest = after(p, *s);
      if (rest && is_suffix(rest)) return true;
    }
  return false;
}

bool own_function(const char *function, const char *file) {
  static const char *const runtimes[] = {
      "std::",        "__gnu_cxx::",     "__gthread_", "__cxxabiv1::", "core::",
      "alloc::",      "<std::",          "<core::",    "<alloc::",     "__rust",
      "operator new", "operator delete", "_start",     "__libc_",      NULL};
  static const char *const folders[] = {"/usr/include/",  "/usr/lib/", "/usr/local/include/",
                                        "/usr/local/go/", "/rustc/",   NULL};
  static const char *const parts[] = {"/.cargo/registry/", "/.rustup/", "/go/pkg/mod/",
                                      "/include/c++/", NULL};
  /* Names that C reserves (C11 7.1.3). A static program contains the C library, which has no debug
   * information as a rule. */
  static const char *const reserved[] = {"__", "_dl_", "_IO_", "_nl_", NULL};
  size_t length = strlen(function);
  if (length > 4 && !strcmp(function + length - 4, "@plt")) return false; /* a stub of the linker */
  if (file && (starts_with_any(file, folders) || contains_any(file, parts))) return false;
  if (!file && starts_with_any(function, reserved)) return false;
  const char *name = without_type(function);
  return !starts_with_any(name, runtimes) && !wraps_allocator(name);
}
