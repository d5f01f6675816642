/* SPDX-License-Identifier: MIT */
#include "victim.h"

#include <dlfcn.h>
#include <unistd.h>

int victim_call(void) { return getpid(); }
int (*victim_pointer(void))(void) { return getpid; }
void *victim_next(const char *name) { return dlsym(RTLD_NEXT, name); }
