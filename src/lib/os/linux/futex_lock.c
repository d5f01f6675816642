/* SPDX-License-Identifier: MIT
 *
 * A futex is recognized as a pthread mutex if its memory is plausible. glibc's struct (__lock,
 * __count, __owner, __nusers, __kind; sysdeps/nptl/bits/struct_mutex.h): the lock is contended, the
 * owner is a thread of this process, and users and kind have values that glibc uses. musl: the lock
 * word has the owner's tid, except in mutexes of the normal type, whose owner is unknown. Any other
 * futex is reported without an owner.
 */
#include "os/futex_lock.h"

#include <sys/syscall.h>

#include "os/linux/calls/futex.h"
#include "os/linux/loader.h"
#include "os/os.h"

static pid_t thread_of(const futex_reader_t *r, pid_t tid) {
  return tid > 0 ? r->thread(r->context, tid) : 0;
}

/* Kinds: normal, recursive, error checking, adaptive; with flags for robust (16), priority
 * inheritance (32), protection (64), shared (128), elision (256 and 512). */
static bool is_glibc_kind(int32_t kind) { return (kind & 3) <= 3 && (kind & ~0x3f3) == 0; }

static bool glibc_mutex(const futex_reader_t *r, uint64_t address, pid_t *owner) {
  int32_t words[5]; /* lock, count, owner, users, kind */
  if (!r->read(r->context, address, words, sizeof words)) return false;
  pid_t holder = thread_of(r, words[2]);
  if (words[0] == 0 || holder == 0 || words[3] < 1 || words[3] > (1 << 22) ||
      !is_glibc_kind(words[4]))
    return false;
  bool tid_in_lock = (words[4] & (16 | 32)) != 0;
  if (tid_in_lock ? (words[0] & FUTEX_TID_MASK) != words[2] : words[0] != 1 && words[0] != 2)
    return false;
  *owner = holder;
  return true;
}

/* glibc's pthread_rwlock_t (sysdeps/nptl/bits/struct_rwlock.h): its readers wait at the third word,
 * its writers there or at the fourth. Bits of the first word: 1 it is the writers' turn, 2 a writer
 * has it or waits for the readers to leave, from 8 on the count of readers. */
enum { RW_STATE, RW_WRITERS, RW_PHASE_FUTEX, RW_WRITERS_FUTEX, RW_PAD, RW_WRITER = 6, RW_SHARED };
#define RW_THREADS_MAX 65536

static bool glibc_rwlock_at(const futex_reader_t *r, uint64_t address, pid_t *owner) {
  int32_t words[8];
  if (!r->read(r->context, address, words, sizeof words)) return false;
  int32_t readers = words[RW_STATE] >> 3;
  if (readers < 0 || readers > RW_THREADS_MAX || words[RW_WRITERS] < 0 ||
      words[RW_WRITERS] > RW_THREADS_MAX || words[RW_PHASE_FUTEX] & ~3 ||
      words[RW_WRITERS_FUTEX] & ~3 || words[RW_PAD] || words[RW_PAD + 1] || words[RW_SHARED] & ~1)
    return false;
  *owner = thread_of(r, words[RW_WRITER]);
  if (words[RW_WRITER]) return *owner != 0 && (words[RW_STATE] & 3) == 3;
  return (words[RW_STATE] & 3) == 2 && readers > 0; /* readers have it; who they are is unknown */
}

/* ADDRESS is that of the futex, and becomes that of the lock. */
static bool glibc_rwlock(const futex_reader_t *r, uint64_t *address, pid_t *owner) {
  static const int words[] = {RW_PHASE_FUTEX, RW_WRITERS_FUTEX};
  for (int i = 0; i < 2; i++) {
    uint64_t lock = *address - 4 * (uint64_t)words[i];
    if (!glibc_rwlock_at(r, lock, owner)) continue;
    *address = lock;
    return true;
  }
  *owner = 0;
  return false;
}

static bool musl_mutex(const futex_reader_t *r, uint64_t address, pid_t *owner) {
  int32_t words[3]; /* type, lock, waiters */
  if (!r->read(r->context, address - 4, words, sizeof words)) return false;
  if ((words[0] & ~0x8f) != 0 || words[2] < 1) return false;
  if ((words[0] & 3) == 0) return (words[1] & 0x7fffffff) == 16; /* EBUSY: locked, owner unknown */
  *owner = thread_of(r, words[1] & 0x3fffffff);
  return *owner != 0;
}

/* Priority inheritance: the kernel has the owner's tid in the futex. */
static void inherited(const futex_reader_t *r, futex_lock_t *out) {
  uint32_t word;
  out->is_lock = true;
  if (r->read(r->context, out->address, &word, sizeof word))
    out->owner = thread_of(r, (pid_t)(word & FUTEX_TID_MASK));
}

bool futex_lock_find(const futex_reader_t *r, const uint64_t arguments[6], futex_lock_t *out) {
  int operation = (int)arguments[1] & FUTEX_CMD_MASK;
  bool plain = operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET;
  bool inherits = operation == FUTEX_LOCK_PI || operation == FUTEX_LOCK_PI2;
  *out = (futex_lock_t){.address = arguments[0]};
  if (inherits)
    inherited(r, out);
  else if (plain)
    out->is_lock = r->is_musl ? musl_mutex(r, out->address, &out->owner)
                              : glibc_mutex(r, out->address, &out->owner) ||
                                    glibc_rwlock(r, &out->address, &out->owner);
  return plain || inherits;
}

/* ---- this process --------------------------------------------------------------------------- */

static bool read_own(void *context, uint64_t address, void *out, size_t size) {
  (void)context;
  return os_read_memory(address, out, size) == (ssize_t)size;
}

static pid_t own_thread(void *context, pid_t tid) {
  (void)context;
  return os_thread_alive(tid) ? tid : 0;
}

static bool is_musl_here(void) {
  const loader_t *loader = linux_loader();
#if defined(__GLIBC__)
  return loader && loader->kind == LOADER_MUSL;
#else
  return !loader || loader->kind == LOADER_MUSL || loader->kind == LOADER_NONE;
#endif
}

int os_thread_wait(pid_t tid, os_wait_t *out) {
  os_blocked_t at;
  futex_lock_t lock;
  *out = (os_wait_t){0};
  int r = os_thread_blocked(-1, tid, &at);
  if (r != 0) return r;
  out->in_call = at.call >= 0;
  const futex_reader_t reader = {read_own, own_thread, NULL, is_musl_here()};
  if (at.call != SYS_futex || !futex_lock_find(&reader, at.arguments, &lock) || !lock.is_lock)
    return 0;
  *out = (os_wait_t){true, true, lock.address, lock.owner};
  return 0;
}
