/* SPDX-License-Identifier: MIT
 *
 * Healthy: reads a file by lines.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main() {
  FILE *f = fopen("/etc/services", "r");
  char line[200];
  long n = 0;
  while (fgets(line, 200, f)) {
    char *c = strdup(line);
    n += strlen(c);
    free(c);
  }
  printf("%ld\n", n);
  fclose(f);
}
