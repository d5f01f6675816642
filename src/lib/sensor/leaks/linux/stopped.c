/* SPDX-License-Identifier: MIT
 *
 * The copy of a program whose threads the command has stopped (tool/attach/copy.c). The command has
 * read all registers; the vector registers lie in the exchange, where the requester will write the
 * blocks, so they are moved before the copy is made.
 *
 * A stopped thread may be at any instruction and hold any lock, the agent's included. So this makes
 * only system calls.
 */
#include <string.h>

#include "os/os.h"
#include "sensor/leaks/leaks.h"
#include "sonde/status.h"

/* The end of what the command has written behind the exchange's head; 0: nothing. */
static uint64_t vectors_end(const leaks_exchange_t *x) {
  uint64_t end = 0;
  for (uint32_t i = 0; i < x->thread_count; i++) {
    const leaks_thread_t *t = &x->threads[i];
    if (t->vectors && t->vectors + t->vectors_size > end) end = t->vectors + t->vectors_size;
  }
  return end;
}

/* The offsets become addresses. Returns the new memory, of *SIZE bytes. */
static uint8_t *move_vectors(leaks_exchange_t *x, uint64_t *size) {
  uint64_t end = vectors_end(x);
  *size = end > sizeof *x && end <= x->size ? end - sizeof *x : 0;
  uint8_t *moved = *size ? os_map(*size) : NULL;
  if (!moved) return NULL;
  memcpy(moved, x + 1, *size);
  for (uint32_t i = 0; i < x->thread_count; i++) {
    leaks_thread_t *t = &x->threads[i];
    if (t->vectors) t->vectors = (uint64_t)(uintptr_t)moved + t->vectors - sizeof *x;
  }
  return moved;
}

static int copy(shm_control_t *c, leaks_exchange_t *x) {
  uint64_t size;
  if (leaks_is_forbidden()) return SONDE_EPERM;
  if (x->thread_count > LEAKS_THREADS) return SONDE_EFULL;
  uint8_t *vectors = move_vectors(x, &size);
  if (size && !vectors) return SONDE_ENOMEM;
  int status = leaks_make_copy(x, c, false);
  if (vectors) os_unmap(vectors, size);
  return status;
}

int leaks_copy_stopped(shm_control_t *c) {
  leaks_exchange_t *x = leaks_open_exchange(c, c->leaks_fd);
  int status = 0;
  if (!x) return SONDE_ENOMEM;
  x->reallocating = leaks_count_reallocating();
  if (!x->reallocating || x->tries == LEAKS_TRIES) {
    status = copy(c, x);
    if (status < 0) x->error = status;
    leaks_enter_state(x, status < 0 ? LEAKS_FAILED : LEAKS_COPIED);
  }
  os_unmap(x, x->size);
  return status;
}
