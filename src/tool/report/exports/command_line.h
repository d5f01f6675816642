/* SPDX-License-Identifier: MIT
 *
 * Text of a recording in formats of lines.
 */
#ifndef SONDE_REPORT_EXPORTS_COMMAND_LINE_H
#define SONDE_REPORT_EXPORTS_COMMAND_LINE_H

#include <stdio.h>

#include "reader/reader.h"

/* Writes TEXT with spaces for newlines. */
static inline void export_line_text(const char *text, FILE *out) {
  for (; *text; text++)
    fputc(*text == '\n' ? ' ' : *text, out);
}

/* Writes the arguments of the program, with a space before each. */
static inline void export_command_line(const reader_t *reader, FILE *out) {
  const char *argument;
  for (uint32_t i = 1; (argument = reader_argument(reader, i)); i++) {
    fputc(' ', out);
    export_line_text(argument, out);
  }
}

#endif
