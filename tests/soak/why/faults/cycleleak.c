/* SPDX-License-Identifier: MIT
 *
 * Fault: loses pairs of nodes that point to each other.
 * Expected: growth make_pair
 */
#include <stdlib.h>
#include <unistd.h>
struct node {
  struct node *peer;
  char data[2000];
};
__attribute__((noinline)) struct node *make_pair(void) {
  struct node *a = malloc(sizeof *a), *b = malloc(sizeof *b);
  a->peer = b;
  b->peer = a;
  return a;
}
__attribute__((noinline)) void request(void) {
  struct node *n = make_pair();
  n->data[0] = 1;
}
int main() {
  for (int i = 0; i < 1500; i++) {
    request();
    usleep(500);
  }
}
