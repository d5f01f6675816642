/* SPDX-License-Identifier: MIT
 *
 * Where the calling thread's own stack is, however the C library made it.
 */
#include <elf.h>

#include "os/os.h"

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
bool os_own_stack(uint64_t *low, uint64_t *high) {
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
