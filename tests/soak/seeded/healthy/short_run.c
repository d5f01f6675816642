// SPDX-License-Identifier: MIT
// does: ends after a few milliseconds
// record:
// build: gcc -O1 -g
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
  char *name = strdup(argc > 1 ? argv[1] : "world");
  printf("hello, %s\n", name);
  free(name);
}
