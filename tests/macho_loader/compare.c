/* SPDX-License-Identifier: MIT
 *
 * The other witness of a stop: libsonde for Linux, in the same process, walks the stack of a thread
 * that was stopped, from the registers it was stopped with. That it knows the Mach-O code it owes
 * to a library that the glibc loader has mapped where the image lies, with the unwind rows that
 * the compiler wrote for it (witness.py). A line a stop goes to the descriptor MACHO_STOPS.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loader.h"

#if defined(WITH_SONDE)
#include "sonde/stack.h"

static int out = -1;

void compare_begin(void) {
  const char *fd = getenv("MACHO_STOPS");
  uintptr_t pcs[4];
  if (!fd) return;
  out = atoi(fd);
  (void)sonde_stack(pcs, 4); /* what is made at the first capture is made now */
}

static char *put_hex(char *at, uint64_t value) {
  char digits[17];
  int n = 0;
  do
    digits[n++] = "0123456789abcdef"[value & 15];
  while (value >>= 4);
  while (n)
    *at++ = digits[--n];
  return at;
}

void compare_stopped(const mac_thread_t *thread, const void *context) {
  if (out < 0) return;
  uintptr_t pcs[256];
  char line[256 * 17 + 64], *at = line;
  sonde_capture_t c = {.pcs = pcs, .max = 256, .ucontext = context};
  int count = sonde_capture(&c);
  at = put_hex(at, (uint64_t)thread->tid);
  *at++ = ' ';
  at = put_hex(at, (uint64_t)c.status);
  for (int i = 0; i < count; i++) {
    *at++ = ' ';
    at = put_hex(at, pcs[i]);
  }
  *at++ = '\n';
  if (write(out, line, (size_t)(at - line)) != at - line) die("a stop could not be told");
}
#else
void compare_begin(void) {}
void compare_stopped(const mac_thread_t *thread, const void *context) {
  (void)thread, (void)context;
}
#endif

/* Where the image PATH of SIZE bytes is to be mapped; NULL: anywhere. */
void *witness_room(const char *path, uint64_t size) {
  const char *folder = getenv("MACHO_WITNESS"), *base = strrchr(path, '/');
  char name[1024];
  if (!folder || !base) return NULL;
  snprintf(name, sizeof name, "%s%s.so", folder, base);
  if (access(name, R_OK) != 0) return NULL;
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  char *start = library ? dlsym(library, "mach_image") : NULL;
  char *end = library ? dlsym(library, "mach_image_end") : NULL;
  if (!start || (uint64_t)(end - start) < size) die("%s is no witness: %s", name, dlerror());
  return start;
}
