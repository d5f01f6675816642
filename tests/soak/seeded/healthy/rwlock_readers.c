// SPDX-License-Identifier: MIT
// does: four readers and a rare writer of a table
// record: --sample --wall --stall
// build: gcc -O1 -g -pthread
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static long table[1000];

static void *reader(void *argument) {
  long *sum = argument;
  for (int i = 0; i < 200; i++) {
    pthread_rwlock_rdlock(&lock);
    for (int k = 0; k < 1000; k++)
      *sum += table[k];
    pthread_rwlock_unlock(&lock);
    usleep(10000);
  }
  return NULL;
}

static void write_table(long version) {
  pthread_rwlock_wrlock(&lock);
  for (int i = 0; i < 1000; i++)
    table[i] = version + i;
  pthread_rwlock_unlock(&lock);
}

int main(void) {
  pthread_t threads[4];
  long sums[4] = {0}, sum = 0;
  for (int i = 0; i < 4; i++)
    pthread_create(&threads[i], NULL, reader, &sums[i]);
  for (long version = 0; version < 20; version++) {
    write_table(version);
    usleep(100000);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
    sum += sums[i];
  }
  printf("%ld\n", sum);
}
