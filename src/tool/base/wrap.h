/* SPDX-License-Identifier: MIT
 *
 * Text on a screen of limited width.
 */
#ifndef SONDE_BASE_WRAP_H
#define SONDE_BASE_WRAP_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Of `lines`, when all are wanted. */
#define WRAP_ALL_LINES INT_MAX

/* The columns of SIZE bytes of UTF-8: each code point counts as one, a color (ESC [ … m) as none.
 */
static inline size_t wrap_columns(const char *text, size_t size) {
  size_t columns = 0;
  bool in_color = false;
  for (size_t i = 0; i < size; i++) {
    in_color |= text[i] == '\033';
    columns += !in_color && ((unsigned char)text[i] & 0xc0) != 0x80; /* begins a sequence */
    in_color &= text[i] != 'm';
  }
  return columns;
}

typedef struct wrap {
  size_t first, indent; /* the columns at which the first line and later lines begin */
  size_t columns;       /* of the screen; 0: lines are not broken */
  int lines;            /* no more are printed; a line that is cut short ends with "…" */
} wrap_t;

/* Prints TEXT and a line feed on OUT, where column WRAP.first is reached. Lines are broken between
 * words, whose spaces are then left out, and at line feeds. Returns the lines that are left. */
int wrap_print(FILE *out, const char *text, wrap_t wrap);

/* The same for a format and its values; all lines are printed. */
void wrap_format(FILE *out, wrap_t wrap, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
