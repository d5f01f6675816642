// SPDX-License-Identifier: MIT
// does: loads and unloads a library, and calls its functions
// record: --malloc=all
// build: gcc -O1 -g
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

static double call(const char *function, double x) {
  void *library = dlopen("libm.so.6", RTLD_NOW);
  if (!library) return 0;
  double (*f)(double) = (double (*)(double))dlsym(library, function);
  double y = f ? f(x) : 0;
  dlclose(library);
  return y;
}

int main(void) {
  double sum = 0;
  for (int i = 1; i < 200; i++) {
    sum += call(i % 2 ? "sqrt" : "cos", i);
    usleep(3000);
  }
  printf("%f\n", sum);
}
