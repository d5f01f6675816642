/* SPDX-License-Identifier: MIT
 *
 * A million captures in a signal handler at random times, while the same thread calls malloc and a
 * known chain of functions, and other threads call malloc, dlopen and dlclose. Each stack must be
 * in mapped executable images and contain the known chain in order. Nearly all must reach the
 * thread's entry.
 *
 * usage: signal_soak [CAPTURES]
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sonde/sonde.h"

#define CHAIN 3

static atomic_long taken, complete, outside, out_of_order, failed;
static atomic_int stop;
static long wanted = 1000000;
/* Starts of the functions of the chain, outermost first. */
static uintptr_t chain[CHAIN];
/* Minimum number of them on the stack now. */
static _Thread_local volatile int planted;
#define FUNCTION_BYTES 256

static void check(const sonde_capture_t *c) {
  int found = 0;
  for (int i = c->count - 1; i >= 0; i--) {
    sonde_name_t name;
    if (i > 0 && sonde_name(c->pcs[i], 0, &name) == SONDE_ENOTFOUND) atomic_fetch_add(&outside, 1);
    if (found < CHAIN && c->pcs[i] - 1 - chain[found] < FUNCTION_BYTES) found++;
  }
  if (c->status == SONDE_STACK_COMPLETE) {
    atomic_fetch_add(&complete, 1);
    if (found < planted) atomic_fetch_add(&out_of_order, 1);
  }
}

static void on_signal(int number, siginfo_t *info, void *context) {
  uintptr_t pcs[128];
  sonde_capture_t c = {.pcs = pcs, .max = 128};
  (void)number;
  (void)info;
  (void)context;
  if (sonde_capture(&c) <= 0) atomic_fetch_add(&failed, 1);
  check(&c);
  atomic_fetch_add(&taken, 1);
}

static __attribute__((noinline, noclone)) void innermost(unsigned *random) {
  void *blocks[16];
  planted = 3;
  for (int i = 0; i < 16; i++) {
    *random = *random * 1103515245 + 12345;
    blocks[i] = malloc(1 + (*random >> 16) % 2000);
    if (blocks[i]) memset(blocks[i], 1, 1);
  }
  for (int i = 0; i < 16; i++)
    free(blocks[i]);
  planted = 2;
  __asm__ volatile("");
}
static __attribute__((noinline, noclone)) void middle(unsigned *random) {
  /* A frame that only the frame pointer can unwind. */
  volatile char room[1 + (*random >> 16) % 64];
  room[0] = 1;
  planted = 2;
  innermost(random);
  planted = 1;
  __asm__ volatile("" ::"r"(room[0]));
}
static __attribute__((noinline, noclone)) void outermost(unsigned *random) {
  planted = 1;
  while (!atomic_load_explicit(&stop, memory_order_relaxed))
    middle(random);
  planted = 0;
  __asm__ volatile("");
}

static void *victim(void *argument) {
  unsigned random = (unsigned)(uintptr_t)argument;
  outermost(&random);
  return NULL;
}

static void *loader(void *argument) {
  static const char *const names[] = {"libm.so.6", "libz.so.1", "libcrypt.so.1", "liblzma.so.5"};
  (void)argument;
  for (int i = 0; !atomic_load(&stop); i++) {
    void *handle = dlopen(names[i % 4], RTLD_NOW);
    free(malloc(100));
    if (handle) dlclose(handle);
  }
  return NULL;
}

int main(int argc, char **argv) {
  pthread_t victims[2], loaders[2];
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
  if (argc > 1) wanted = atol(argv[1]);
  chain[0] = (uintptr_t)outermost;
  chain[1] = (uintptr_t)middle;
  chain[2] = (uintptr_t)innermost;
  sigaction(SIGUSR1, &action, NULL);
  for (uintptr_t i = 0; i < 2; i++)
    pthread_create(&victims[i], NULL, victim, (void *)(i + 1));
  for (int i = 0; i < 2; i++)
    pthread_create(&loaders[i], NULL, loader, NULL);
  unsigned random = 1;
  for (long sent = 0; atomic_load(&taken) < wanted; sent++) {
    pthread_kill(victims[sent % 2], SIGUSR1);
    random = random * 1103515245 + 12345;
    struct timespec pause = {0, (long)(random >> 16) % 20000};
    if (sent % 4 == 0) nanosleep(&pause, NULL);
    if (sent > wanted * 200) break;
  }
  atomic_store(&stop, 1);
  for (int i = 0; i < 2; i++)
    pthread_join(victims[i], NULL);
  for (int i = 0; i < 2; i++)
    pthread_join(loaders[i], NULL);
  long n = atomic_load(&taken), whole = atomic_load(&complete);
  printf("%ld captures, %.3f %% complete; %ld frames outside images, %ld chains out of order, %ld "
         "captures failed\n",
         n, 100.0 * (double)whole / (double)n, atomic_load(&outside), atomic_load(&out_of_order),
         atomic_load(&failed));
  return n < wanted || whole * 100 < n * 99 || atomic_load(&outside) ||
         atomic_load(&out_of_order) || atomic_load(&failed);
}
