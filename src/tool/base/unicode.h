/* SPDX-License-Identifier: MIT
 *
 * Texts of programs and files as valid UTF-8, which JSON and protobuf require.
 */
#ifndef SONDE_BASE_UNICODE_H
#define SONDE_BASE_UNICODE_H

#include <stdbool.h>
#include <stddef.h>

bool unicode_is_valid(const char *text);

/* The bytes of the control character at TEXT: 1, or 2 for one from U+0080 to U+009F. 0: there is
 * another character. */
static inline size_t unicode_control(const char *text) {
  const unsigned char *p = (const unsigned char *)text;
  if ((*p && *p < ' ') || *p == 127) return 1;
  return p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0 ? 2 : 0;
}

/* Space for what unicode_clean writes of a TEXT of SIZE bytes. */
#define UNICODE_CLEAN_SIZE(size) ((size)*3 + 1)

/* Writes TEXT to OUT, with U+FFFD for each byte that is in no valid sequence, and a terminating 0.
 * Returns the length. */
size_t unicode_clean(const char *text, char *out);

#endif
