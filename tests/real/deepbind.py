#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Libraries whose functions lead to the C library's malloc, past the agent's: RTLD_DEEPBIND."""
from helpers import compile_c, needs_agent, record, report, run_cases

needs_agent()

DEEP_LIBRARY = r"""
#include <stdlib.h>
static void *early;
__attribute__((constructor)) static void begin(void) { early = malloc(40); }
__attribute__((destructor)) static void end(void) { free(early); }
void *allocate(size_t size) { return malloc(size); }
void release(void *block) { free(block); }
"""
DEEP_PROGRAM = r"""
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL | (!strcmp(argv[2], "deep") ? RTLD_DEEPBIND : 0));
  if (argc != 3 || !library) return 1;
  void *(*allocate)(size_t) = (void *(*)(size_t))dlsym(library, "allocate");
  void (*release)(void *) = (void (*)(void *))dlsym(library, "release");
  for (int i = 0; i < 300; i++) {
    release(malloc(1000));
    free(allocate(2000));
    if (i % 3 == 0) realloc(allocate(50), 60);
  }
  return dlclose(library);
}
"""


def a_library_that_binds_to_the_c_library_first():
    """RTLD_DEEPBIND changes no count: blocks that it allocates, and blocks of others that it frees."""
    library, program = compile_c(DEEP_LIBRARY, "-shared", "-fPIC", "-O1"), compile_c(DEEP_PROGRAM, "-O0", "-ldl")
    counts = {}
    for how in "plain", "deep":
        path, done = record([program, library, how], "--malloc=all")
        assert done.returncode == 0, done
        told = report(path, "malloc")["malloc"]
        counts[how] = {key: told[key] for key in ("frees", "reallocs", "address_reuses", "unknown_frees", "double_frees")}
        counts[how]["blocks"] = told["allocated"]["blocks"]
    assert counts["deep"] == counts["plain"] and counts["deep"]["blocks"] >= 700, counts


run_cases(globals())
