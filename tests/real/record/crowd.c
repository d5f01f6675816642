/* SPDX-License-Identifier: MIT
 *
 * Many threads that allocate and free, one after the other or at once, and end together.
 * usage: crowd THREADS ROUNDS
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_barrier_t all;
static int rounds;

static void *work(void *unused) {
  for (int i = 0; i < rounds; i++) {
    void *volatile block = malloc((size_t)(i % 500) + 1);
    free(block);
  }
  pthread_barrier_wait(&all);
  return unused;
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  int count = atoi(argv[1]);
  rounds = atoi(argv[2]);
  pthread_t *threads = calloc((size_t)count, sizeof *threads);
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 128 << 10);
  pthread_barrier_init(&all, NULL, (unsigned)count);
  for (int i = 0; i < count; i++)
    if (pthread_create(&threads[i], &small, work, NULL)) return 1;
  for (int i = 0; i < count; i++)
    pthread_join(threads[i], NULL);
  free(threads);
  puts("done");
  return 0;
}
