/* SPDX-License-Identifier: MIT */
#include "base/glob.h"

#include <stddef.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* On a mismatch the last * matches one more byte; earlier ones need no second try. */
bool glob_matches(const char *glob, const char *text) {
  const char *star = NULL, *again = NULL;
  while (*text) {
    if (*glob == '*') {
      star = ++glob;
      again = text;
    } else if (*glob == '#' && is_digit(*text)) {
      glob++;
      while (is_digit(*text))
        text++;
    } else if (*glob == '?' || (*glob == *text && *glob != '#')) {
      glob++;
      text++;
    } else if (star) {
      glob = star;
      text = ++again;
    } else {
      return false;
    }
  }
  while (*glob == '*')
    glob++;
  return !*glob;
}
