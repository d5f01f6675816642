/* SPDX-License-Identifier: MIT
 *
 * Threads that wait for known things for times that they measure themselves, for
 * tests/real/waits.py: three for a mutex that a fourth one holds again and again, one for a pipe,
 * one for a file lock, two in turn for a mutex that each other holds. A line each: kind, tid, ns,
 * the mutex' address or the descriptor, the tid of who held it.
 *
 * usage: waits SECONDS
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t shared = PTHREAD_MUTEX_INITIALIZER, turns = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t ready;
static int pipe_fds[2], lock_fd;
static uint64_t end_ns;
static pid_t holder_tid;

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void print(const char *kind, uint64_t ns, const void *address, int fd, pid_t owner) {
  flockfile(stdout);
  printf("%s %d %llu %p %d %d\n", kind, (int)gettid(), (unsigned long long)ns, address, fd,
         (int)owner);
  funlockfile(stdout);
}

/* Holds the mutex for 120 ms, lets it go for 5. */
static void *holds(void *unused) {
  holder_tid = gettid();
  pthread_mutex_lock(&shared);
  pthread_barrier_wait(&ready);
  while (now_ns() < end_ns) {
    usleep(120000);
    pthread_mutex_unlock(&shared);
    usleep(5000);
    pthread_mutex_lock(&shared);
  }
  pthread_mutex_unlock(&shared);
  return unused;
}

static void *waits_for_mutex(void *unused) {
  uint64_t waited = 0;
  pthread_barrier_wait(&ready);
  while (now_ns() < end_ns) {
    uint64_t began = now_ns();
    pthread_mutex_lock(&shared);
    waited += now_ns() - began;
    pthread_mutex_unlock(&shared);
    usleep(1000);
  }
  print("mutex", waited, &shared, -1, holder_tid);
  return unused;
}

static void *waits_for_pipe(void *unused) {
  uint64_t waited = 0;
  char byte = 0;
  pthread_barrier_wait(&ready);
  while (byte != 'x') {
    uint64_t began = now_ns();
    if (read(pipe_fds[0], &byte, 1) != 1) break;
    waited += now_ns() - began;
  }
  print("pipe", waited, NULL, pipe_fds[0], 0);
  return unused;
}

static void *waits_for_file(void *path) {
  int fd = open(path, O_RDWR);
  pthread_barrier_wait(&ready);
  uint64_t began = now_ns();
  if (flock(fd, LOCK_EX)) return NULL;
  print("file", now_ns() - began, NULL, fd, 0);
  close(fd);
  return NULL;
}

/* Two threads hold it for 60 ms in turn: each waits for the other. */
static void *takes_turns(void *unused) {
  uint64_t waited = 0;
  pthread_barrier_wait(&ready);
  while (now_ns() < end_ns) {
    uint64_t began = now_ns();
    pthread_mutex_lock(&turns);
    waited += now_ns() - began;
    usleep(60000);
    pthread_mutex_unlock(&turns);
    usleep(200);
  }
  print("turns", waited, &turns, -1, 0);
  return unused;
}

int main(int argc, char **argv) {
  char path[] = "/tmp/sonde-waits-XXXXXX";
  void *(*const work[])(void *) = {holds,           waits_for_mutex, waits_for_mutex,
                                   waits_for_mutex, waits_for_pipe,  waits_for_file,
                                   takes_turns,     takes_turns};
  enum { THREADS = sizeof work / sizeof *work };
  pthread_t threads[THREADS];
  end_ns = now_ns() + (uint64_t)(1e9 * (argc > 1 ? atof(argv[1]) : 2));
  lock_fd = mkstemp(path);
  if (lock_fd < 0 || flock(lock_fd, LOCK_EX) || pipe(pipe_fds)) return 1;
  pthread_barrier_init(&ready, NULL, THREADS + 1);
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, work[i], path)) return 1;
  pthread_barrier_wait(&ready);
  while (now_ns() < end_ns) {
    usleep(70000);
    if (write(pipe_fds[1], ".", 1) != 1) return 1;
  }
  if (write(pipe_fds[1], "x", 1) != 1 || flock(lock_fd, LOCK_UN)) return 1;
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  unlink(path);
  return 0;
}
