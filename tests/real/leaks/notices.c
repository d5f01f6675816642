/* SPDX-License-Identifier: MIT
 *
 * Threads in calls that a signal can end. When a line is read, each says what its call returned,
 * its errno, and how long it took in tenths of a second; then what this process sees of children:
 * what wait() says, and how many SIGCHLD came.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECONDS 3

static int ready_pipe[2];
static volatile sig_atomic_t children;
static sem_t none;

static void on_child(int number) {
  (void)number;
  children++;
}

static struct timespec later(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  t.tv_sec += SECONDS;
  return t;
}

static int nap(void) { return nanosleep(&(struct timespec){SECONDS, 0}, &(struct timespec){0}); }
static int doze(void) { return (int)sleep(SECONDS); }
static int choose(void) { return select(0, NULL, NULL, NULL, &(struct timeval){SECONDS, 0}); }
static int watch(void) { return ppoll(NULL, 0, &(struct timespec){SECONDS, 0}, NULL); }
static int lock(void) { return sem_timedwait(&none, &(struct timespec){later().tv_sec, 0}); }
static int events(void) {
  struct epoll_event e;
  int fd = epoll_create1(0);
  e.events = EPOLLIN;
  epoll_ctl(fd, EPOLL_CTL_ADD, ready_pipe[0], &e);
  return epoll_wait(fd, &e, 1, -1);
}
static int look(void) { return poll(&(struct pollfd){ready_pipe[0], POLLIN, 0}, 1, -1); }

static const struct {
  const char *name;
  int (*call)(void);
} calls[] = {{"nanosleep", nap}, {"sleep", doze},   {"select", choose}, {"ppoll", watch},
             {"sem", lock},      {"epoll", events}, {"poll", look}};
#define CALLS (sizeof calls / sizeof *calls)

static char told[CALLS][64];

static void *run(void *number) {
  size_t n = (size_t)number;
  struct timespec a, b;
  clock_gettime(CLOCK_MONOTONIC, &a);
  errno = 0;
  int result = calls[n].call();
  int error = errno;
  clock_gettime(CLOCK_MONOTONIC, &b);
  double took = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
  snprintf(told[n], sizeof told[n], "%s %d %d %.1f", calls[n].name, result, result < 0 ? error : 0,
           took);
  return NULL;
}

int main(void) {
  pthread_t threads[CALLS];
  char c;
  signal(SIGCHLD, on_child);
  if (pipe(ready_pipe) || sem_init(&none, 0, 0)) return 1;
  for (size_t i = 0; i < CALLS; i++)
    if (pthread_create(&threads[i], NULL, run, (void *)i)) return 1;
  usleep(100000);
  puts("ready");
  fflush(stdout);
  ssize_t n = read(0, &c, 1);
  int read_error = n < 0 ? errno : 0;
  if (write(ready_pipe[1], "x", 1) != 1) return 1;
  for (size_t i = 0; i < CALLS; i++)
    pthread_join(threads[i], NULL);
  for (size_t i = 0; i < CALLS; i++)
    puts(told[i]);
  int ended = (int)waitpid(-1, NULL, WNOHANG);
  printf("read %zd %d\nwait %d %d\nsigchld %d\n", n, read_error, ended, errno, (int)children);
  return 0;
}
