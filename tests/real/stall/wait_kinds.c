/* SPDX-License-Identifier: MIT
 *
 * Threads named after what they wait for, 0.5 s each and more, and the end. Prints the pid, which
 * is also the tid of the thread that holds the lock `written`.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>

static pthread_rwlock_t written = PTHREAD_RWLOCK_INITIALIZER,
                        read_held = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_t napper;
static sem_t semaphore;
static int done;

#define WAITER(function, name, ...)                                                                \
  static void *function(void *unused) {                                                            \
    usleep(50000); /* it is found before it has its name */                                        \
    pthread_setname_np(pthread_self(), name);                                                      \
    __VA_ARGS__                                                                                    \
    return unused;                                                                                 \
  }
WAITER(read_lock, "reader", pthread_rwlock_rdlock(&written); pthread_rwlock_unlock(&written);)
WAITER(write_lock, "writer", pthread_rwlock_wrlock(&written); pthread_rwlock_unlock(&written);)
WAITER(upgrade, "upgrader", pthread_rwlock_wrlock(&read_held); pthread_rwlock_unlock(&read_held);)
WAITER(wait_for_condition, "cond", pthread_mutex_lock(&mutex);
       while (!done) pthread_cond_wait(&condition, &mutex); pthread_mutex_unlock(&mutex);)
WAITER(wait_for_post, "sem", sem_wait(&semaphore);)
WAITER(wait_for_barrier, "barrier", pthread_barrier_wait(&barrier);)
WAITER(nap, "nap", usleep(600000);)
WAITER(join, "join", pthread_join(napper, NULL);)

int main(void) {
  void *(*const functions[])(void *) = {
      read_lock, write_lock, upgrade, wait_for_condition, wait_for_post, wait_for_barrier, join};
  enum { COUNT = sizeof functions / sizeof *functions };
  pthread_t threads[COUNT];
  sem_init(&semaphore, 0, 0);
  pthread_barrier_init(&barrier, NULL, 2);
  pthread_rwlock_wrlock(&written);
  pthread_rwlock_rdlock(&read_held);
  pthread_create(&napper, NULL, nap, NULL);
  for (int i = 0; i < COUNT; i++)
    pthread_create(&threads[i], NULL, functions[i], NULL);
  usleep(600000);
  pthread_rwlock_unlock(&written);
  pthread_rwlock_unlock(&read_held);
  pthread_mutex_lock(&mutex);
  done = 1;
  pthread_cond_signal(&condition);
  pthread_mutex_unlock(&mutex);
  sem_post(&semaphore);
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < COUNT; i++)
    pthread_join(threads[i], NULL);
  printf("%d\n", (int)getpid());
  return 0;
}
