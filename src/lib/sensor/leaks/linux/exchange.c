/* SPDX-License-Identifier: MIT
 *
 * The program's side of the exchange (record/leaks.h), for both ways of stopping the threads.
 */
#include "os/os.h"
#include "record/writer.h"
#include "sensor/leaks/leaks.h"
#include "sonde/status.h"

#define LEAST_BYTES (UINT64_C(64) << 20)
/* Time for the recorder to copy the live blocks. */
#define KEEPING_NS UINT64_C(2000000000)

leaks_exchange_t *leaks_open_exchange(const shm_control_t *c, int number) {
  int fd = writer_open_of_recorder(c, number);
  leaks_exchange_t *x = NULL;
  if (fd < 0) return NULL;
  leaks_exchange_t *head = os_map_shared(fd, 0, sizeof *head);
  uint64_t size = head && head->magic == LEAKS_MAGIC ? head->size : 0;
  for (; !x && size >= LEAST_BYTES; size /= 2) {
    x = os_map_shared(fd, 0, size);
    if (x) x->size = size;
  }
  if (head) os_unmap(head, sizeof *head);
  os_close(fd);
  return x;
}

void leaks_enter_state(leaks_exchange_t *x, uint32_t state) {
  store_release(&x->state, state);
  (void)os_futex_wake_shared(&x->state, INT32_MAX);
}

uint32_t leaks_count_reallocating(void) {
  uint32_t count = 0;
  for (writer_t *w = load_acquire(&writer_global->writers); w; w = w->next)
    if (load_relaxed(&w->realloc_old) && os_thread_alive(load_relaxed(&w->tid))) count++;
  return count;
}

static int wait_until_kept(leaks_exchange_t *x) {
  uint64_t deadline = os_monotonic_ns() + KEEPING_NS;
  while (load_acquire(&x->state) == LEAKS_STOPPED) {
    uint64_t now = os_monotonic_ns();
    if (now >= deadline) return SONDE_ETIMEDOUT;
    (void)os_futex_wait_shared(&x->state, LEAKS_STOPPED, deadline - now);
  }
  return 0;
}

static uint64_t ticks(const shm_control_t *c) {
  uint64_t now = c->clock != RECORD_CLOCK_MONOTONIC ? arch_cycles() : os_monotonic_ns();
  return now >> c->clock_shift;
}

int leaks_make_copy(leaks_exchange_t *x, const shm_control_t *c, bool beside) {
  x->time = ticks(c);
  leaks_enter_state(x, LEAKS_STOPPED);
  uint64_t start = os_monotonic_ns();
  pid_t copy = os_process_copy(beside);
  if (copy == 0) leaks_copy(x);
  x->copying_ns = os_monotonic_ns() - start;
  if (copy < 0) return LEAKS_ERRNO + copy;
  x->copy_pid = (uint32_t)copy;
  return load_relaxed(&c->mode) & RECORD_LIVE ? wait_until_kept(x) : 0;
}
