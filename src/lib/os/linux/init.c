/* SPDX-License-Identifier: MIT
 *
 * Preparation before the first capture, while the loader may still be called.
 */
#include <stddef.h>
#include <string.h>

#include "os/os.h"

/* The first call of an imported function may run the loader, which binds the function lazily. A
 * capture in a signal handler must not run the loader, so these functions are called here first.
 * This concerns libsonde.a, which is linked into a program with lazy binding. */
static void bind_memory_functions(void) {
  char from[16] = "", to[16] = "";
  volatile size_t size = sizeof from; /* volatile, so that the compiler keeps the calls */
  memset(from, 1, size);
  memcpy(to, from, size);
  memmove(to, to + 1, size - 1);
  volatile int order = memcmp(to, from, size);
  (void)order;
}

/* Defined by the agent only: it learns whether a seccomp filter forbids system calls. */
__attribute__((weak, visibility("hidden"))) void os_before_start(void);

__attribute__((constructor(101))) static void prepare(void) {
  bind_memory_functions();
  if (os_before_start) os_before_start();
#if !defined(SONDE_ATTACHED) /* the thread of its start may not call the loader */
  os_loader_init();
#endif
}
