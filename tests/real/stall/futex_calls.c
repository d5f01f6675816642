/* SPDX-License-Identifier: MIT
 *
 * An event loop that stalls 200 ms in each of four functions of the C library, all of which wait in
 * the system call futex. The function that calls one is named after it.
 */
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#define STALLS __attribute__((noinline)) static void

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static int done;

static void *end_waits(void *unused) {
  usleep(200000);
  pthread_mutex_lock(&mutex);
  done = 1;
  pthread_cond_signal(&condition);
  pthread_mutex_unlock(&mutex);
  sem_post(&semaphore);
  return unused;
}

static void *hold_mutex(void *held) {
  pthread_mutex_lock(&mutex);
  usleep(80000); /* the stall begins in main's sem_wait */
  sem_post(held);
  usleep(200000);
  pthread_mutex_unlock(&mutex);
  return NULL;
}

STALLS in_pthread_cond_wait(void) {
  pthread_mutex_lock(&mutex);
  while (!done)
    pthread_cond_wait(&condition, &mutex);
  pthread_mutex_unlock(&mutex);
}

STALLS in_sem_wait(void) {
  sem_wait(&semaphore); /* of the thread before this one */
  sem_wait(&semaphore);
}

STALLS in_pthread_join(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, end_waits, NULL);
  pthread_join(thread, NULL);
}

STALLS in_pthread_mutex_lock(void) {
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
}

static void turn(void) {
  for (int i = 0; i < 15; i++)
    poll(&(struct pollfd){.fd = -1}, 1, 4);
}

int main(void) {
  pthread_t threads[2], holder;
  sem_t held;
  sem_init(&semaphore, 0, 0);
  sem_init(&held, 0, 0);
  turn();
  pthread_create(&threads[0], NULL, end_waits, NULL);
  in_pthread_cond_wait();
  turn();
  pthread_create(&threads[1], NULL, end_waits, NULL);
  in_sem_wait();
  turn();
  in_pthread_join();
  turn();
  pthread_create(&holder, NULL, hold_mutex, &held);
  sem_wait(&held);
  in_pthread_mutex_lock();
  turn();
  pthread_join(holder, NULL);
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  return 0;
}
