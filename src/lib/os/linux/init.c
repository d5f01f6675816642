/* SPDX-License-Identifier: MIT
 *
 * What has to be found before the first capture, while the loader may still be asked.
 */
#include <stddef.h>
#include <string.h>

#include "os/os.h"

/* The first call of an imported function may be the one that binds it, and a capture in a signal
 * handler must not be that call: libsonde.a takes part in the program's lazy binding. */
static void bind_memory_functions(void) {
  char from[16] = "", to[16] = "";
  volatile size_t size = sizeof from; /* not known to the compiler, which would do without a call */
  memset(from, 1, size);
  memcpy(to, from, size);
  memmove(to, to + 1, size - 1);
  volatile int order = memcmp(to, from, size);
  (void)order;
}

__attribute__((constructor(101))) static void prepare(void) {
  bind_memory_functions();
  os_loader_init();
}
