/* SPDX-License-Identifier: MIT
 *
 * Fault: calls through a structure that was freed and used again.
 * Expected: crash dispatch
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
struct conn {
  char *name;
  void (*cb)(struct conn *);
  int fd;
  char pad[32];
};
static struct conn *conns[16];
static void ok(struct conn *c) { c->fd++; }
__attribute__((noinline)) struct conn *conn_new(int i) {
  struct conn *c = malloc(sizeof *c);
  c->name = strdup("hello");
  c->cb = ok;
  c->fd = i;
  return c;
}
__attribute__((noinline)) void conn_close(struct conn *c) {
  free(c->name);
  free(c);
}
__attribute__((noinline)) void reuse(void) {
  for (int i = 0; i < 100; i++) {
    char *p = malloc(56);
    memset(p, 'A', 56);
  }
}
__attribute__((noinline)) void dispatch(struct conn *c) { c->cb(c); }
int main() {
  for (int i = 0; i < 16; i++)
    conns[i] = conn_new(i);
  for (int i = 0; i < 50; i++)
    for (int k = 0; k < 16; k++)
      dispatch(conns[k]);
  usleep(100000);
  conn_close(conns[3]);
  reuse();
  dispatch(conns[3]);
  return 0;
}
