/* SPDX-License-Identifier: MIT */
#include "victim.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

int victim_call(void) { return getpid(); }
int (*victim_pointer(void))(void) { return getpid; }

int victim_stat(const char *path) {
  struct stat st;
  return stat(path, &st);
}

double victim_weigh(double a, double b, double c, double d, double e, double f, double g, double h,
                    const char *name) {
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + *name;
}

void *victim_next(const char *name) { return dlsym(RTLD_NEXT, name); }
