// SPDX-License-Identifier: MIT
// fault: a name longer than its field overwrites the next block, a channel with a callback
// culprit: set_title
// site: deliver, broadcast
// kind: overflow, overwrit, past the end, corrupt
// symptom: crash, abort
// record: --malloc=all
// build: gcc -O1 -g
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct channel {
  void (*callback)(struct channel *, int);
  long received;
  char *title;
  char padding[16];
};

static void count(struct channel *c, int value) { c->received += value; }

static __attribute__((noinline)) struct channel *open_channel(void) {
  struct channel *c = calloc(1, sizeof *c);
  c->callback = count;
  return c;
}

static __attribute__((noinline)) char *new_title(void) { return calloc(1, 40); }

/* The title has room for 40 bytes; nothing checks it. */
static __attribute__((noinline)) void set_title(struct channel *c, const char *words[], int n) {
  char *p = c->title;
  for (int i = 0; i < n; i++) {
    for (const char *w = words[i]; *w;)
      *p++ = *w++;
    *p++ = ' ';
  }
  *p = 0;
}

static __attribute__((noinline)) void deliver(struct channel *c, int value) {
  c->callback(c, value);
}

static __attribute__((noinline)) void broadcast(struct channel **channels, int n, int value) {
  for (int i = 0; i < n; i++)
    deliver(channels[i], value);
}

int main(void) {
  enum { N = 16 };
  struct channel *channels[N];
  char *titles[N];
  for (int i = 0; i < N; i++) {
    titles[i] = new_title();
    channels[i] = open_channel();
    channels[i]->title = titles[i];
  }
  const char *words[] = {"weather", "and",      "traffic", "for",    "the",
                         "whole",   "northern", "coast",   "tonight"};
  for (int round = 0; round < 1000; round++) {
    set_title(channels[round % N], words, round < 700 ? 3 : 9);
    broadcast(channels, N, round);
  }
  long sum = 0;
  for (int i = 0; i < N; i++)
    sum += channels[i]->received;
  printf("%ld\n", sum);
}
