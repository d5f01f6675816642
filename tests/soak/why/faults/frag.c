/* SPDX-License-Identifier: MIT
 *
 * Fault: small blocks between large ones that are freed.
 * Expected: resident-memory index_entry
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char *keep[20000];
static char *tmp[20000];
__attribute__((noinline)) char *index_entry(int i) {
  char *p = malloc(64);
  memset(p, i, 64);
  return p;
}
__attribute__((noinline)) char *load_row(int i) {
  char *p = malloc(2000);
  memset(p, i, 2000);
  return p;
}
int main() {
  for (int i = 0; i < 20000; i++) {
    tmp[i] = load_row(i);
    keep[i] = index_entry(i);
  }
  usleep(100000);
  for (int i = 0; i < 20000; i++)
    free(tmp[i]);
  for (int i = 0; i < 10; i++)
    usleep(100000);
  return keep[5][0];
}
