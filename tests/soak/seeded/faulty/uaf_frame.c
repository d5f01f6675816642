// SPDX-License-Identifier: MIT
// fault: the capturing thread frees the rows of a frame that the encoder thread still reads
// culprit: recycle_frame, encode_frame, checksum_rows
// kind: use after free, freed, unmapped
// symptom: crash, abort
// record: --malloc=all
// build: gcc -O1 -g -pthread
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 1280, HEIGHT = 40 };

struct frame {
  uint8_t **rows;
  int number;
  int encoded;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ready = PTHREAD_COND_INITIALIZER;
static struct frame *pending;
static uint64_t total;

static __attribute__((noinline)) struct frame *capture_frame(int number) {
  struct frame *f = malloc(sizeof *f);
  f->rows = malloc(HEIGHT * sizeof *f->rows);
  for (int y = 0; y < HEIGHT; y++)
    f->rows[y] = memset(malloc(WIDTH), number, WIDTH);
  f->number = number;
  f->encoded = 0;
  return f;
}

/* The last row comes first, as the device wants it. */
static __attribute__((noinline)) uint64_t checksum_rows(uint8_t *const *rows) {
  uint64_t sum = 0;
  for (int y = HEIGHT - 1; y >= 0; y--) {
    for (int x = 0; x < WIDTH; x += 16)
      sum = sum * 31 + rows[y][x];
    usleep(500);
  }
  return sum;
}

static __attribute__((noinline)) void encode_frame(struct frame *f) {
  total += checksum_rows(f->rows);
  f->encoded = 1;
}

static void *encoder(void *unused) {
  for (;;) {
    pthread_mutex_lock(&lock);
    while (!pending)
      pthread_cond_wait(&ready, &lock);
    struct frame *f = pending;
    pending = NULL;
    pthread_mutex_unlock(&lock);
    encode_frame(f);
  }
  return unused;
}

static __attribute__((noinline)) void recycle_frame(struct frame *f) {
  for (int y = 0; y < HEIGHT; y++)
    free(f->rows[y]);
  free(f->rows); /* without a look at f->encoded */
}

static void submit(struct frame *f) {
  pthread_mutex_lock(&lock);
  pending = f;
  pthread_cond_signal(&ready);
  pthread_mutex_unlock(&lock);
}

int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, encoder, NULL);
  for (int i = 0; i < 30; i++) {
    struct frame *f = capture_frame(i);
    submit(f);
    usleep(i < 15 ? 90000 : 10000); /* the exposure becomes shorter than the encoder's time */
    recycle_frame(f);
    usleep(50000);
  }
  printf("%llu\n", (unsigned long long)total);
}
