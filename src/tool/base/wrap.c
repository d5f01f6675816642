/* SPDX-License-Identifier: MIT */
#include "base/wrap.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Prints TEXT up to a line feed or its end; false: no line is left for the rest. */
static bool print_line(FILE *out, const char *text, size_t size, wrap_t *wrap) {
  size_t at = wrap->first;
  for (size_t i = 0; i < size;) {
    size_t spaces = strspn(text + i, " "), bytes = strcspn(text + i + spaces, " \n");
    size_t width = spaces + wrap_columns(text + i + spaces, bytes);
    bool may_end = wrap->lines == 1 && i + spaces + bytes < size; /* with " …" */
    if (i && wrap->columns && at + width + (may_end ? 2 : 0) > wrap->columns) {
      if (--wrap->lines <= 0) {
        fputs(" …\n", out);
        return false;
      }
      fprintf(out, "\n%*s", (int)wrap->indent, "");
      at = wrap->indent;
      i += spaces;
      width -= spaces;
      spaces = 0;
    }
    fwrite(text + i, 1, spaces + bytes, out);
    at += width;
    i += spaces + bytes;
  }
  fputc('\n', out);
  return --wrap->lines > 0;
}

int wrap_print(FILE *out, const char *text, wrap_t wrap) {
  for (;;) {
    size_t size = strcspn(text, "\n");
    bool goes_on = print_line(out, text, size, &wrap);
    text += size + (text[size] == '\n');
    if (!goes_on || !*text) return wrap.lines;
    fprintf(out, "%*s", (int)wrap.indent, "");
    wrap.first = wrap.indent;
  }
}

void wrap_format(FILE *out, wrap_t wrap, const char *format, ...) {
  char *text;
  va_list values;
  va_start(values, format);
  int size = vasprintf(&text, format, values);
  va_end(values);
  if (size < 0) return; /* out of memory */
  wrap.lines = WRAP_ALL_LINES;
  (void)wrap_print(out, text, wrap);
  free(text);
}
