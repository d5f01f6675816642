/* SPDX-License-Identifier: MIT
 *
 * Fault: loses a block that a wrapper allocated.
 * Expected: growth parse_message
 */
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <unistd.h>
__attribute__((noinline)) static void *xmalloc(size_t n) {
  void *p = malloc(n);
  if (!p) abort();
  return p;
}
struct msg {
  char *h;
  char *b;
};
__attribute__((noinline)) struct msg *parse_message(int i) {
  struct msg *m = xmalloc(sizeof *m);
  m->h = xmalloc(100);
  m->b = xmalloc(1500);
  sprintf(m->h, "h%d", i);
  sprintf(m->b, "b%d", i);
  return m;
}
__attribute__((noinline)) void handle_message(int i) {
  struct msg *m = parse_message(i);
  char *reply = xmalloc(500);
  sprintf(reply, "%s", m->b);
  free(reply);
  free(m->h);
  free(m);
}
int main() {
  for (int i = 0; i < 1500; i++) {
    handle_message(i);
    usleep(700);
  }
}
