/* SPDX-License-Identifier: MIT
 *
 * An event loop that stalls in each of four functions of the C library, all of which wait in the
 * system call futex. The function that calls one is named after it. A byte of input ends a stall.
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

static void read_byte(void) {
  char byte;
  (void)!read(0, &byte, 1);
}

static void *end_waits(void *unused) {
  read_byte();
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
  read_byte();
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
  if (write(1, "ready\n", 6) != 6) return 1;
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
