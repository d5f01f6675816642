/* SPDX-License-Identifier: MIT
 *
 * The lock that a blocked thread waits for, and its owner: from the system call that the thread is
 * in and from the lock's memory. No function of libpthread is called, because the blocked thread
 * may hold its locks.
 *
 *   ulock_wait, ulock_wait2  with UL_UNFAIR_LOCK: an os_unfair_lock, or a pthread mutex of macOS 12
 *                            and later. The word holds the Mach port of its owner. Its lowest bits,
 *                            which are 1 in each port, tell of waiters (libplatform,
 * src/os/lock.c). psynch_mutexwait         an older pthread mutex, which holds its owner's thread
 * id psynch_rw_rdlock, …      an rwlock, which holds the id of the thread that writes
 *
 * Numbers of calls are of XNU's bsd/kern/syscalls.master, operations of bsd/sys/ulock.h, places in
 * locks of libpthread's src/internal.h.
 */
#include <errno.h>

#include "base/bits.h"
#include "os/apple/thread.h"
#include "os/os.h"

enum {
  CALL_MUTEX_WAIT = 301,
  CALL_RW_READ = 306,
  CALL_RW_WRITE = 307,
  CALL_ULOCK_WAIT = 515,
  CALL_ULOCK_WAIT2 = 544,
};

#define UL_OPCODE_MASK 0xffu
#define UL_UNFAIR_LOCK 2u

#define MUTEX_WORD   24u /* the owner's port in a mutex that waits by ulock_wait */
#define MUTEX_OWNER  24u /* and its thread id in an older one */
#define RWLOCK_OWNER 24u
#define MUTEX_SIG    UINT64_C(0x4D555458)
#define SIG_MASK     UINT64_C(0xfffffffd)

static uint64_t read_word(uint64_t address, uint64_t bytes) {
  uint64_t word = 0;
  return os_read_memory(address, &word, bytes) == (ssize_t)bytes ? word : 0;
}

/* Both words that hold a port leave out its lowest bits. */
static os_wait_t unfair_lock(uint64_t word_at) {
  uint32_t port = (uint32_t)read_word(word_at, sizeof port);
  pid_t owner = port ? os_thread_of_port(port | 3) : 0;
  uint64_t mutex = word_at - MUTEX_WORD;
  bool is_mutex = mutex % 8 == 0 && (read_word(mutex, 8) & SIG_MASK) == MUTEX_SIG;
  return (os_wait_t){true, true, is_mutex ? mutex : word_at, owner > 0 ? owner : 0};
}

/* The id is 8 bytes, aligned in a lock that may not be. */
static os_wait_t older_lock(uint64_t lock, uint64_t owner_at) {
  uint64_t owner = read_word(ALIGN_UP(lock + owner_at, (uint64_t)8), 8);
  pid_t tid = (pid_t)(owner & INT32_MAX);
  return (os_wait_t){true, true, lock, owner != UINT64_MAX && os_thread_alive(tid) ? tid : 0};
}

int os_thread_wait(pid_t tid, os_wait_t *out) {
  os_call_t call;
  *out = (os_wait_t){0};
  int result = os_thread_call(tid, &call);
  if (result != 0) return result;
  out->in_call = call.number >= 0;
  switch (call.number) {
  case CALL_ULOCK_WAIT:
  case CALL_ULOCK_WAIT2:
    if ((call.arguments[0] & UL_OPCODE_MASK) == UL_UNFAIR_LOCK)
      *out = unfair_lock(call.arguments[1]);
    break;
  case CALL_MUTEX_WAIT: *out = older_lock(call.arguments[0], MUTEX_OWNER); break;
  case CALL_RW_READ:
  case CALL_RW_WRITE: *out = older_lock(call.arguments[0], RWLOCK_OWNER); break;
  default: break;
  }
  return 0;
}
