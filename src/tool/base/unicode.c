/* SPDX-License-Identifier: MIT */
#include "base/unicode.h"

#include <string.h>

#include "base/utf8.h"

bool unicode_is_valid(const char *text) {
  const unsigned char *p = (const unsigned char *)text;
  size_t n;
  while (*p && (n = utf8_length(p)) > 0)
    p += n;
  return !*p;
}

size_t unicode_clean(const char *text, char *out) {
  char *at = out;
  for (const unsigned char *p = (const unsigned char *)text; *p;) {
    size_t n = utf8_length(p);
    memcpy(at, n ? (const char *)p : "\xef\xbf\xbd", n ? n : 3);
    at += n ? n : 3;
    p += n ? n : 1;
  }
  *at = 0;
  return (size_t)(at - out);
}
