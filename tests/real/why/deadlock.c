/* SPDX-License-Identifier: MIT
 *
 * Two threads take two locks in opposite order. argv[1]: milliseconds until the program gives up.
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t accounts = PTHREAD_MUTEX_INITIALIZER, journal = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;

__attribute__((noinline)) static void transfer(void) {
  pthread_mutex_lock(&accounts);
  pthread_barrier_wait(&both);
  pthread_mutex_lock(&journal);
  pthread_mutex_unlock(&journal);
  pthread_mutex_unlock(&accounts);
}

__attribute__((noinline)) static void rotate(void) {
  pthread_mutex_lock(&journal);
  pthread_barrier_wait(&both);
  pthread_mutex_lock(&accounts);
  pthread_mutex_unlock(&accounts);
  pthread_mutex_unlock(&journal);
}

static void *transfers(void *unused) {
  transfer();
  return unused;
}

static void *rotates(void *unused) {
  rotate();
  return unused;
}

int main(int argc, char **argv) {
  pthread_t a, b;
  pthread_barrier_init(&both, NULL, 2);
  pthread_create(&a, NULL, transfers, NULL);
  pthread_create(&b, NULL, rotates, NULL);
  usleep(argc > 1 ? 1000u * (unsigned)atoi(argv[1]) : 60000000);
  _exit(0);
}
