/* SPDX-License-Identifier: MIT
 *
 * The oracle for sleds: the same functions, compiled with hooks as well, tell these, which keep a
 * stack of their own and write "thread depth function" to the file SHADOW, a line a call.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern char __executable_start;
static __thread int depth;
static int fd = -2;

void __cyg_profile_func_enter(void *function, void *call_site);
void __cyg_profile_func_exit(void *function, void *call_site);

void __cyg_profile_func_enter(void *function, void *call_site) {
  char line[64];
  const char *path = getenv("SHADOW");
  (void)call_site;
  if (!path) return;
  if (fd == -2) fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
  int n = snprintf(line, sizeof line, "%d %d %lx\n", (int)gettid(), depth++,
                   (unsigned long)((uintptr_t)function - (uintptr_t)&__executable_start));
  if (write(fd, line, (size_t)n) < 0) abort();
}

void __cyg_profile_func_exit(void *function, void *call_site) {
  (void)function;
  (void)call_site;
  depth--;
}
