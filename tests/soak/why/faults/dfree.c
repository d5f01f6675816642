/* SPDX-License-Identifier: MIT
 *
 * Fault: frees a block twice.
 * Expected: crash release
 */
#include <stdlib.h>
#include <unistd.h>
struct s {
  char *buf;
};
__attribute__((noinline)) void release(struct s *s) { free(s->buf); }
__attribute__((noinline)) void shutdown_all(struct s *s) {
  release(s);
  usleep(50000);
  release(s);
}
int main() {
  struct s s = {malloc(100)};
  shutdown_all(&s);
  return 0;
}
