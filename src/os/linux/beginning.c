/* SPDX-License-Identifier: MIT
 *
 * What a program begins with, from /proc/self/stat: proc_pid_stat(5).
 */
#include "base/text.h"
#include "os/os.h"

enum { START_STACK = 28, START_HEAP = 47, END_OF_STRINGS = 51 };

#define STRINGS_MAX (64u << 20) /* far more than execve(2) lets a program begin with */

/* Field 3 of TEXT. The name in field 2 may hold anything, so it ends at the last ')'. */
static const char *third(const char *text) {
  const char *found = "";
  for (; *text; text++)
    if (*text == ')') found = text + 1;
  return *found ? found + 1 : found;
}

static const char *next(const char *at) {
  while (*at && *at != ' ')
    at++;
  return *at ? at + 1 : at;
}

bool os_beginning(os_beginning_t *out) {
  char text[1024];
  *out = (os_beginning_t){0};
  if (os_read_file("/proc/self/stat", text, sizeof text) <= 0) return false;
  const char *at = third(text);
  for (int field = 3; field <= END_OF_STRINGS && *at; field++, at = next(at)) {
    const char *number = at;
    if (field == START_STACK) out->stack = decimal_read(&number);
    if (field == START_HEAP) out->heap = decimal_read(&number);
    if (field == END_OF_STRINGS) out->strings_end = decimal_read(&number);
  }
  if (out->strings_end < out->stack || out->strings_end - out->stack > STRINGS_MAX)
    out->strings_end = 0;
  return out->stack != 0;
}
