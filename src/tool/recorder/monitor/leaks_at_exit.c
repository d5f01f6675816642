/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "recorder/monitor/leaks_at_exit.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "os/os.h"

/* Address space of the exchange; memory is used as it is written. */
#define EXCHANGE_BYTES (UINT64_C(4) << 30)
#define REAP_MS        1000

static bool map(leaks_at_exit_t *l, uint64_t size) {
  if (l->exchange) munmap(l->exchange, l->size);
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, l->fd, 0);
  l->exchange = memory == MAP_FAILED ? NULL : memory;
  l->size = size;
  return l->exchange != NULL;
}

/* Waits until the program is stopped; another state than these ends it. */
static void *keep_live(void *context) {
  leaks_at_exit_t *l = context;
  uint32_t *state = &l->exchange->state, now, stopped = LEAKS_STOPPED;
  while ((now = load_acquire(state)) == LEAKS_REQUESTED || now == LEAKS_ACCEPTED)
    (void)os_futex_wait_shared(state, now, UINT64_MAX >> 2);
  if (now != LEAKS_STOPPED) return NULL;
  if (load_relaxed(&l->recording->control->mode) & RECORD_LIVE) {
    int fd = recording_copy_live(l->recording);
    l->kept = fd > 0 ? fd : 0;
  }
  if (cas_acq_rel(state, &stopped, (uint32_t)LEAKS_RECORDED))
    (void)os_futex_wake_shared(state, INT32_MAX);
  return NULL;
}

bool leaks_at_exit_begin(leaks_at_exit_t *l, recording_t *recording) {
  l->fd = memfd_create("sonde-leaks", MFD_CLOEXEC);
  if (l->fd < 0 || ftruncate(l->fd, (off_t)EXCHANGE_BYTES) < 0 || !map(l, sizeof *l->exchange)) {
    if (l->fd >= 0) close(l->fd);
    l->fd = 0;
    return false;
  }
  leaks_exchange_t *x = l->exchange;
  x->magic = LEAKS_MAGIC;
  x->size = EXCHANGE_BYTES;
  x->recorder_pid = (uint32_t)getpid();
  store_release(&x->state, (uint32_t)LEAKS_REQUESTED);
  l->recording = recording;
  recording->control->exit_leaks_fd = l->fd;
  return true;
}

void leaks_at_exit_watch(leaks_at_exit_t *l) {
  if (l->exchange) (void)monitor_thread_start(&l->thread, keep_live, l);
}

/* A state that the program has not left any more ends the search. */
static void end_search(leaks_at_exit_t *l) {
  uint32_t state = load_acquire(&l->exchange->state);
  while (state < LEAKS_COPIED &&
         !cas_acq_rel(&l->exchange->state, &state, (uint32_t)LEAKS_FAILED)) {
  }
  (void)os_futex_wake_shared(&l->exchange->state, INT32_MAX);
}

void leaks_at_exit_keep(leaks_at_exit_t *l) {
  if (!l->exchange) return;
  end_search(l);
  monitor_thread_join(&l->thread);
  if (l->kept) {
    (void)recording_snapshot_of_copy(l->recording, l->kept, l->exchange->time);
    close(l->kept);
  }
  l->kept = 0;
}

/* The program may have changed the size: it is checked again. */
leaks_exchange_t *leaks_at_exit_open(leaks_at_exit_t *l, uint64_t *size, int32_t *error) {
  if (!l->exchange) return NULL;
  *error = l->exchange->error;
  uint64_t bytes = l->exchange->size;
  if (load_acquire(&l->exchange->state) != LEAKS_COPIED || bytes < sizeof *l->exchange ||
      bytes > EXCHANGE_BYTES || !map(l, bytes))
    return NULL;
  *size = bytes;
  return l->exchange;
}

/* A copy of the command is a child of the recorder (clone(2), CLONE_PARENT). */
static void reap(pid_t copy) {
  const struct timespec moment = {.tv_nsec = 1000000};
  for (int ms = 0; copy > 0 && ms < REAP_MS && !waitpid(copy, NULL, (int)__WALL | WNOHANG); ms++)
    nanosleep(&moment, NULL);
}

void leaks_at_exit_end(leaks_at_exit_t *l) {
  leaks_at_exit_keep(l);
  if (l->exchange) {
    uint32_t copied = LEAKS_COPIED;
    if (cas_acq_rel(&l->exchange->state, &copied, (uint32_t)LEAKS_FAILED))
      (void)os_futex_wake_shared(&l->exchange->state, INT32_MAX);
    reap((pid_t)l->exchange->copy_pid);
    munmap(l->exchange, l->size);
  }
  if (l->fd > 0) close(l->fd);
  *l = (leaks_at_exit_t){0};
}
