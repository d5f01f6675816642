/* SPDX-License-Identifier: MIT
 *
 * Leaves blocks behind in several ways, and ends as the first argument says: `return` from main,
 * `exit` deep in calls whose variables still have blocks, `_exit`, `abort`. With a second argument
 * another thread waits meanwhile with a block of its own.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <pthread.h>
#include <string>
#include <unistd.h>
#include <vector>

#include "../../fixtures/asleep.h"

#define APART __attribute__((noinline))

namespace {

struct node {
  node *next, *other;
  char rest[40];
};

node *kept;
char *volatile last;
const char *how;

node *make() { return static_cast<node *>(calloc(1, sizeof(node))); }

APART void drop(int count) {
  for (int i = 0; i < count; i++)
    last = static_cast<char *>(malloc(100));
}

APART void chain(int count) {
  node *head = nullptr;
  for (int i = 0; i < count; i++) {
    node *n = make();
    n->next = head;
    head = n;
  }
  last = reinterpret_cast<char *>(head);
}

/* A ring, and what hangs on it: allocated before it and after it. */
APART void ring() {
  node *tail = make(), *a = make(), *b = make(), *after = make();
  a->next = b;
  b->next = a;
  a->other = tail;
  b->other = after;
  tail->next = make();
  last = reinterpret_cast<char *>(a);
}

APART void itself() {
  node *n = make();
  n->next = n;
  last = reinterpret_cast<char *>(n);
}

APART void keep(int count) {
  for (int i = 0; i < count; i++) {
    node *n = make();
    n->next = kept;
    kept = n;
  }
}

struct peer {
  std::shared_ptr<peer> other;
  std::string name = "a name that is too long to be stored in place";
};

APART void containers() {
  auto *list = new std::list<std::string>;
  auto *map = new std::map<int, std::vector<int>>;
  for (int i = 0; i < 20; i++) {
    list->push_back("a text that is too long to be stored in place " + std::to_string(i));
    (*map)[i].resize(10);
  }
  for (int i = 0; i < 5; i++) {
    auto a = std::make_shared<peer>(), b = std::make_shared<peer>();
    a->other = b;
    b->other = a;
  }
}

/* Overwrites what earlier calls left on the stack. */
APART void wipe() {
  volatile char stack[4096];
  memset(const_cast<char *>(stack), 0, sizeof stack);
}

void *wait_for_ever(void *) {
  char *volatile own = static_cast<char *>(malloc(123));
  for (;;) {
    pause();
    own[0]++;
  }
}

APART void leave(int depth, char *from) {
  char *volatile own = static_cast<char *>(malloc(50));
  own[0] = *from;
  if (depth) leave(depth - 1, own);
  if (!strcmp(how, "exit")) exit(0);
  if (!strcmp(how, "_exit")) _exit(0);
  if (!strcmp(how, "abort")) abort();
  free(own);
}

} // namespace

int main(int count, char **words) {
  how = words[1];
  drop(20);
  chain(10);
  ring();
  itself();
  keep(5);
  containers();
  wipe();
  last = nullptr;
  if (count > 2) {
    pthread_t thread;
    pthread_create(&thread, nullptr, wait_for_ever, nullptr);
    until_asleep(1);
  }
  leave(4, words[0]);
}
