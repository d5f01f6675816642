/* SPDX-License-Identifier: MIT
 *
 * Calls each of the functions that the agent has in front of the C library's, a few times, and
 * prints the file that defines it, as the loader says, and how often it was called.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <unistd.h>

enum { TIMES = 3 };

static void *thread(void *nothing) { return nothing; }

static void wait_in_all_ways(void) {
  struct timeval short_time = {0, 1000};
  struct timespec short_spec = {0, 1000000};
  struct epoll_event event;
  int epoll = epoll_create1(0);
  epoll_wait(epoll, &event, 1, 1);
  epoll_pwait(epoll, &event, 1, 1, NULL);
  close(epoll);
  poll(NULL, 0, 1);
  ppoll(NULL, 0, &short_spec, NULL);
  select(0, NULL, NULL, NULL, &short_time);
  pselect(0, NULL, NULL, NULL, &short_spec, NULL);
}

static void allocate(void) {
  void *volatile block = malloc(10);
  block = realloc(block, 100);
  free(block);
  block = calloc(1, 10);
  free(block);
}

static void others(void) {
  pthread_t made;
  pthread_create(&made, NULL, thread, NULL);
  pthread_join(made, NULL);
  prctl(PR_SET_NAME, "in_front");
  signal(SIGUSR1, SIG_IGN);
  munmap(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
}

static void tell(const char *name, int count) {
  void *function = dlsym(RTLD_DEFAULT, name);
  Dl_info info;
  if (!function || !dladdr(function, &info)) abort();
  const char *slash = strrchr(info.dli_fname, '/');
  dprintf(1, "%s %s %d\n", name, slash ? slash + 1 : info.dli_fname, count);
}

int main(int argc, char **argv) {
  static const char *const names[] = {
      "epoll_wait", "epoll_pwait", "poll",  "ppoll", "select", "pselect", "malloc",
      "realloc",    "calloc",      "prctl", "mmap",  "munmap", "signal",  "pthread_create"};
  (void)argv;
  for (int i = 0; i < TIMES; i++) {
    wait_in_all_ways();
    allocate();
    others();
  }
  for (unsigned i = 0; argc > 1 && i < sizeof names / sizeof *names; i++)
    tell(names[i], TIMES);
  return 0;
}
