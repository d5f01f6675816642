// SPDX-License-Identifier: MIT
// fault: readers that overlap without a gap keep the writer from the rwlock
// culprit: update_routes, find_route, read_routes
// kind: wait, blocked, starv, lock
// record: --sample --wall --stall
// build: gcc -O1 -g -pthread
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static pthread_rwlock_t routes_lock = PTHREAD_RWLOCK_INITIALIZER; /* prefers readers */
static int routes[256];
static atomic_int stop;
static atomic_long lookups;
static int updates;

static __attribute__((noinline)) int find_route(int address) {
  pthread_rwlock_rdlock(&routes_lock);
  int route = routes[address & 255];
  usleep(4000); /* asks a neighbor while it holds the lock */
  pthread_rwlock_unlock(&routes_lock);
  return route;
}

static void *read_routes(void *argument) {
  int address = (int)(long)argument;
  usleep((unsigned)address * 1000);
  while (!stop) {
    address += find_route(address) + 1;
    lookups++;
  }
  return NULL;
}

static __attribute__((noinline)) void update_routes(int version) {
  pthread_rwlock_wrlock(&routes_lock);
  for (int i = 0; i < 256; i++)
    routes[i] = version;
  updates++;
  pthread_rwlock_unlock(&routes_lock);
}

static void *write_routes(void *unused) {
  for (int version = 1; !stop; version++) {
    usleep(5000);
    update_routes(version);
  }
  return unused;
}

int main(void) {
  pthread_t readers[6], writer;
  for (long i = 0; i < 6; i++)
    pthread_create(&readers[i], NULL, read_routes, (void *)i);
  pthread_create(&writer, NULL, write_routes, NULL);
  usleep(2500000);
  stop = 1;
  pthread_join(writer, NULL);
  for (int i = 0; i < 6; i++)
    pthread_join(readers[i], NULL);
  printf("%ld lookups, %d updates\n", lookups, updates);
}
