/* SPDX-License-Identifier: MIT
 *
 * Opens a library twice, calls a function of it, and closes it.
 */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
  int sum = 0;
  for (int i = 0; i < 2 && argc > 1; i++) {
    void *library = dlopen(argv[1], RTLD_NOW);
    int (*work)(int) = library ? (int (*)(int))dlsym(library, "late_work") : 0;
    if (!work) return 1;
    for (int n = 0; n < 5; n++)
      sum += work(n);
    dlclose(library);
  }
  printf("%d\n", sum);
  return 0;
}
