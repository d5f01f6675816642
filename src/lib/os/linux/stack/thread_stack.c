/* SPDX-License-Identifier: MIT
 *
 * The bounds of the calling thread's stack, whichever C library created it, and the initial stack
 * of the program.
 */
#include <elf.h>

#include "arch/arch.h"
#include "os/os.h"
#include "base/text.h"

#define INITIAL_BYTES (64u << 20)

/* An address on the stack of the initial thread: the kernel stores the bytes of AT_RANDOM there
 * (getauxval(3)). 0: unknown. */
static uint64_t address_on_initial_stack(void) {
  uint64_t auxv[128];
  ssize_t size = os_read_file("/proc/self/auxv", (char *)auxv, sizeof auxv);
  for (ssize_t i = 0; i + 1 < size / 8; i += 2)
    if (auxv[i] == AT_RANDOM) return auxv[i + 1];
  return 0;
}

/* An address among the thread's variables. */
#if defined(SONDE_ATTACHED)
static uint64_t address_of_variables(void) { return arch_thread_pointer(); }
#else
static __thread char thread_variable __attribute__((tls_model("initial-exec")));
static uint64_t address_of_variables(void) { return (uint64_t)(uintptr_t)&thread_variable; }
#endif

/* The 128 MB below the initial thread's stack are unmapped (arch/x86/mm/mmap.c). For any other
 * thread the C library places the thread's variables at the top of its stack. Memory of the same
 * mapping beyond them is not part of the stack: the kernel has merged two mappings. */
bool os_thread_stack(uint64_t *low, uint64_t *high) {
  uint64_t start, end, variable = address_of_variables();
  bool is_initial = os_tid() == os_pid();
  int maps = os_mappings_open();
  if (maps < 0) return false;
  bool known =
      os_mapping(maps, is_initial ? address_on_initial_stack() : variable, &start, &end) >= 0;
  os_close(maps);
  if (!known) return false;
  *low = is_initial ? end - INITIAL_BYTES : start;
  *high = is_initial ? end : variable;
  return true;
}

enum { START_STACK = 28, START_HEAP = 47, END_OF_STRINGS = 51 };

#define STRINGS_MAX (64u << 20) /* far more than execve(2) allows */

/* Field 3 of TEXT. The name in field 2 may contain any character, so it ends at the last ')'. */
static const char *third_field(const char *text) {
  const char *found = "";
  for (; *text; text++)
    if (*text == ')') found = text + 1;
  return *found ? found + 1 : found;
}

static const char *next_field(const char *at) {
  while (*at && *at != ' ')
    at++;
  return *at ? at + 1 : at;
}

bool os_initial_stack(os_initial_stack_t *out) {
  char text[1024];
  *out = (os_initial_stack_t){0};
  if (os_read_file("/proc/self/stat", text, sizeof text) <= 0) return false;
  const char *at = third_field(text);
  for (int field = 3; field <= END_OF_STRINGS && *at; field++, at = next_field(at)) {
    const char *number = at;
    if (field == START_STACK) out->stack = decimal_read(&number);
    if (field == START_HEAP) out->heap = decimal_read(&number);
    if (field == END_OF_STRINGS) out->strings_end = decimal_read(&number);
  }
  if (out->strings_end < out->stack || out->strings_end - out->stack > STRINGS_MAX)
    out->strings_end = 0;
  return out->stack != 0;
}
