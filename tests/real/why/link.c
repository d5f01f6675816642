/* SPDX-License-Identifier: MIT
 *
 * A list of one entry, from which drop() removes what is old: it reads the link of the entry that
 * it has just freed. The C library has put a link of its own there.
 */
#include <stdlib.h>

struct entry {
  struct entry *next;
  long age;
};

static __attribute__((noinline)) struct entry *add(struct entry *next, long age) {
  struct entry *e = malloc(sizeof *e);
  if (!e) abort();
  e->next = next;
  e->age = age;
  return e;
}

static __attribute__((noinline)) long drop(struct entry *volatile *list) {
  long dropped = 0;
  for (struct entry *e = *list; e; e = e->next) {
    if (e->age < 7) continue;
    free(e);
    dropped++;
  }
  return dropped;
}

int main(void) {
  struct entry *volatile list = add(NULL, 9);
  return (int)drop(&list);
}
