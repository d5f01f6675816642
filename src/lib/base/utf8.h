/* SPDX-License-Identifier: MIT
 *
 * Well-formed UTF-8 by table 3-7 of the Unicode standard: no surrogates, no overlong forms, no code
 * point above U+10FFFF.
 */
#ifndef SONDE_BASE_UTF8_H
#define SONDE_BASE_UTF8_H

#include <stddef.h>

/* The length of the well-formed sequence at P, or 0. The text at P ends with a 0. */
static inline size_t utf8_length(const unsigned char *p) {
  unsigned char low = 0x80, high = 0xbf;
  size_t more;
  if (p[0] < 0x80) return 1;
  if (p[0] >= 0xc2 && p[0] <= 0xdf)
    more = 1;
  else if (p[0] >= 0xe0 && p[0] <= 0xef)
    more = 2;
  else if (p[0] >= 0xf0 && p[0] <= 0xf4)
    more = 3;
  else
    return 0;
  if (p[0] == 0xe0) low = 0xa0;
  if (p[0] == 0xed) high = 0x9f;
  if (p[0] == 0xf0) low = 0x90;
  if (p[0] == 0xf4) high = 0x8f;
  if (p[1] < low || p[1] > high) return 0;
  for (size_t i = 2; i <= more; i++)
    if (p[i] < 0x80 || p[i] > 0xbf) return 0;
  return more + 1;
}

#endif
