/* SPDX-License-Identifier: MIT
 *
 * One-line messages of the command.
 */
#include "base/message.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/unicode.h"

static const char *running_verb;

void message_set_verb(const char *verb) { running_verb = verb; }

const char *message_verb(void) { return running_verb; }

void message_print(const char *format, va_list arguments, const char *tail) {
  fflush(stdout); /* findings printed so far come before the line that ends the verb */
  fprintf(stderr, "sonde%s%s: ", running_verb ? " " : "", running_verb ? running_verb : "");
  char *text;
  if (vasprintf(&text, format, arguments) < 0) text = NULL;
  /* A file name must neither break the line nor control the terminal. */
  for (char *at = text; at && *at; at++)
    for (size_t n = unicode_control(at); n; n--)
      at[n - 1] = '?';
  fprintf(stderr, "%s%s\n", text ? text : "out of memory", tail);
  free(text);
}

int message_fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  message_print(format, arguments, "");
  va_end(arguments);
  return MESSAGE_FAILED;
}

void message_out_of_memory(void) { exit(message_fail("out of memory")); }

void message_note(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  message_print(format, arguments, "");
  va_end(arguments);
}
