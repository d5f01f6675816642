// SPDX-License-Identifier: MIT
// fault: a ring buffer's assertion fails when a burst fills it
// culprit: ring_push, receive_burst
// kind: abort, assert, SIGABRT
// symptom: crash, abort
// record:
// build: gcc -O1 -g
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

struct ring {
  int items[256];
  unsigned head, tail;
};

static __attribute__((noinline)) void ring_push(struct ring *r, int item) {
  assert(r->head - r->tail < 256);
  r->items[r->head++ % 256] = item;
}

static __attribute__((noinline)) int ring_pop(struct ring *r) {
  return r->head == r->tail ? -1 : r->items[r->tail++ % 256];
}

static __attribute__((noinline)) void receive_burst(struct ring *r, int count) {
  for (int i = 0; i < count; i++)
    ring_push(r, i * 7 % 13);
}

static __attribute__((noinline)) long drain(struct ring *r, int count) {
  long sum = 0;
  while (count-- > 0) {
    int item = ring_pop(r);
    if (item < 0) break;
    sum += item;
  }
  return sum;
}

int main(void) {
  struct ring *r = calloc(1, sizeof *r);
  long sum = 0;
  for (int round = 0; round < 5000; round++) {
    receive_burst(r, round < 4000 ? 50 : 60);
    sum += drain(r, 50);
  }
  printf("%ld\n", sum);
  free(r);
}
