/* SPDX-License-Identifier: MIT */
#include "analysis/called_name.h"

#include <stddef.h>
#include <string.h>

#include "analysis/futex_calls.h"

static const char *without(const char *name, const char *prefix) {
  size_t length = strlen(prefix);
  if (!strncmp(name, prefix, length)) name += length;
  return name + strspn(name, "_");
}

const char *called_name(const char *function) {
  static const char *const prefixes[] = {"GI_", "libc_", "IO_", "new_"};
  const futex_wait_t *wait = futex_wait_of_function(function);
  if (wait && wait->function) return wait->function;
  const char *name = function + strspn(function, "_");
  for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
    name = without(name, prefixes[i]);
  if (!strcmp(name, "fopen_internal")) return "fopen"; /* which jumps into it */
  return *name ? name : function;
}

/* Whether NAME, perhaps with a version behind '@', is WORD. */
static bool is_word(const char *name, const char *word) {
  size_t length = strlen(word);
  return !strncmp(name, word, length) && (!name[length] || name[length] == '@');
}

bool called_is_start(const char *function) {
  static const char *const starts[] = {"start_thread",         "clone", "clone3", "libc_start_main",
                                       "libc_start_call_main", "start"};
  function += strspn(function, "_");
  for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
    if (is_word(function, starts[i])) return true;
  return false;
}

bool called_is_libc(const char *library) {
  static const char *const names[] = {"libc.", "libc-", "libpthread", "ld-musl"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strncmp(library, names[i], strlen(names[i]))) return true;
  return false;
}
