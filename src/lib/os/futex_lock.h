/* SPDX-License-Identifier: MIT
 *
 * The lock behind a futex, and the thread that holds it, from the memory of the lock. Linux only.
 *
 * Used by the program's own monitor and by the command, which reads another process. The functions
 * take no lock, allocate nothing and may be called by any thread.
 */
#ifndef SONDE_OS_FUTEX_LOCK_H
#define SONDE_OS_FUTEX_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The process whose memory has the lock. */
typedef struct futex_reader {
  /* copies SIZE bytes at ADDRESS to OUT; false if they are not readable */
  bool (*read)(void *context, uint64_t address, void *out, size_t size);
  /* converts a tid from that memory to the caller's number for the thread; 0: no thread of the
   * process */
  pid_t (*thread)(void *context, pid_t tid);
  void *context;
  /* its C library */
  bool is_musl;
} futex_reader_t;

typedef struct futex_lock {
  /* of the lock; of the futex if it is not recognized as a lock */
  uint64_t address;
  /* a mutex or a rwlock */
  bool is_lock;
  /* 0: unknown */
  pid_t owner;
} futex_lock_t;

/* Finds what a thread waits for that is in futex(2) with ARGUMENTS. Returns false if the call does
 * not wait. */
bool futex_lock_find(const futex_reader_t *reader, const uint64_t arguments[6], futex_lock_t *out);

#endif
