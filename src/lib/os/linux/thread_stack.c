/* SPDX-License-Identifier: MIT
 *
 * Where the calling thread's own stack is, however the C library made it.
 */
#include <elf.h>

#include "os/os.h"
#include "base/text.h"

#define INITIAL_BYTES (64u << 20)

/* Where a word of the initial thread's stack is: the kernel puts one there (AT_RANDOM,
 * getauxval(3)). 0: not known. */
static uint64_t on_initial_stack(void) {
  uint64_t auxv[128];
  ssize_t size = os_read_file("/proc/self/auxv", (char *)auxv, sizeof auxv);
  for (ssize_t i = 0; i + 1 < size / 8; i += 2)
    if (auxv[i] == AT_RANDOM) return auxv[i + 1];
  return 0;
}

static __thread char among_variables __attribute__((tls_model("initial-exec")));

/* Below the initial thread's nothing is mapped for at least 128 MB (arch/x86/mm/mmap.c). The C
 * library has the variables of any other thread at the top of its stack; what the mapping has
 * beyond them is not of it, but joined. */
bool os_thread_stack(uint64_t *low, uint64_t *high) {
  uint64_t start, end, variable = (uint64_t)(uintptr_t)&among_variables;
  bool is_initial = os_tid() == os_pid();
  int maps = os_mappings_open();
  if (maps < 0) return false;
  bool known = os_mapping(maps, is_initial ? on_initial_stack() : variable, &start, &end) >= 0;
  os_close(maps);
  if (!known) return false;
  *low = is_initial ? end - INITIAL_BYTES : start;
  *high = is_initial ? end : variable;
  return true;
}

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

bool os_initial_stack(os_initial_stack_t *out) {
  char text[1024];
  *out = (os_initial_stack_t){0};
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
