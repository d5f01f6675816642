/* SPDX-License-Identifier: MIT
 *
 * A field of a structure that is not there.
 */
#include <stddef.h>

struct node {
  long key;
  struct node *next;
};
static struct node *volatile head;

__attribute__((noinline)) static long key_of_next(const struct node *node) {
  return node->next->key;
}

int main(void) { return (int)key_of_next(head); }
