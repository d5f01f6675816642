/* SPDX-License-Identifier: MIT
 *
 * Text without stdio: paths of /proc, and lines that a signal handler writes.
 */
#ifndef SONDE_BASE_TEXT_H
#define SONDE_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DECIMAL_MAX 20 /* digits of a 64-bit number */

static inline bool text_equal(const char *a, const char *b) {
  while (*a && *a == *b)
    a++, b++;
  return *a == *b;
}

static inline size_t text_length(const char *text) {
  size_t n = 0;
  while (text[n])
    n++;
  return n;
}

/* The rest of TEXT after PREFIX; NULL if TEXT does not begin with it. */
static inline const char *text_after(const char *text, const char *prefix) {
  while (*prefix)
    if (*text++ != *prefix++) return NULL;
  return text;
}

/* PATH without its folders; "" for NULL. */
static inline const char *text_base_name(const char *path) {
  const char *base = path ? path : "";
  for (const char *p = base; *p; p++)
    if (*p == '/') base = p + 1;
  return base;
}

/* Writes TEXT without its final 0 to OUT and returns the end. */
static inline char *text_append(char *out, const char *text) {
  while (*text)
    *out++ = *text++;
  return out;
}

/* Writes VALUE to OUT, which has space for DECIMAL_MAX characters, and returns the end. */
static inline char *decimal_append(char *out, uint64_t value) {
  char digits[DECIMAL_MAX];
  int n = 0;
  do
    digits[n++] = (char)('0' + value % 10);
  while (value /= 10);
  while (n)
    *out++ = digits[--n];
  return out;
}

#define HEX_MAX 16 /* digits of a 64-bit number */

/* Writes VALUE in hexadecimal, with at least LEAST digits, to OUT, which has space for HEX_MAX
 * characters, and returns the end. */
static inline char *hex_append(char *out, uint64_t value, unsigned least) {
  unsigned digits = least;
  while (digits < HEX_MAX && value >> (4 * digits))
    digits++;
  for (; digits; digits--)
    *out++ = "0123456789abcdef"[value >> (4 * (digits - 1)) & 15];
  return out;
}

/* Reads the number at *TEXT (0: there are no digits) and advances *TEXT past its digits. */
static inline uint64_t decimal_read(const char **text) {
  uint64_t value = 0;
  for (; **text >= '0' && **text <= '9'; ++*text)
    value = value * 10 + (uint64_t)(**text - '0');
  return value;
}

#endif
