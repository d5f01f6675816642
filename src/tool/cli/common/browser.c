/* SPDX-License-Identifier: MIT */
#include "cli/common/browser.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __APPLE__
#define OPENER "open"
bool browser_has_display(void) { return true; }
#else
#define OPENER "xdg-open"
static bool is_set(const char *variable) {
  const char *value = getenv(variable);
  return value && *value;
}
bool browser_has_display(void) { return is_set("DISPLAY") || is_set("WAYLAND_DISPLAY"); }
#endif

/* Writes PATH to OUT as one word of the shell. False: it does not fit in SIZE bytes. */
static bool quote(char *out, size_t size, const char *path) {
  size_t n = 0;
  if (4 * strlen(path) + 3 > size) return false;
  out[n++] = '\'';
  for (; *path; path++) {
    if (*path == '\'') {
      memcpy(out + n, "'\\'", 3);
      n += 3;
    }
    out[n++] = *path;
  }
  out[n++] = '\'';
  out[n] = 0;
  return true;
}

bool browser_open(const char *path) {
  char command[16384], word[16000];
  if (!browser_has_display() || !quote(word, sizeof word, path)) return false;
  snprintf(command, sizeof command,
           "command -v " OPENER " >/dev/null && { " OPENER " %s >/dev/null 2>&1 & }", word);
  fflush(stdout);
  FILE *shell = popen(command, "w");
  return shell && pclose(shell) == 0;
}
