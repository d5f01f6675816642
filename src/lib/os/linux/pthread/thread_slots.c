/* SPDX-License-Identifier: MIT
 *
 * Thread slots without thread-local storage (os/thread_slot.h), for an agent that is attached to a
 * running program.
 *
 * An entry of the table belongs to a thread. Its key holds the thread pointer and the thread's id,
 * which the C library keeps near that pointer. So the lookup makes no system call. A thread that
 * gets the stack, and so the thread pointer, of an ended one has another id, and does not find the
 * old entry.
 *
 * Keys are claimed by compare-and-swap and never removed, so a search may end at the first empty
 * entry. Only its own thread reads or writes the values of an entry. An entry whose thread has
 * ended is used again. While its values are cleared its key is TAKEN, which no thread has: a signal
 * handler in between claims another entry.
 *
 * A thread with both the pointer and the id of an ended one would find that thread's values. Where
 * a value may meanwhile belong to another thread, its user must compare the id.
 *
 * A child of fork has another id, so it finds no entry: as there, it has no state. A vfork child
 * has its parent's thread pointer and id, and so its slots, as with thread-local storage.
 */
#if defined(SONDE_ATTACHED)
#include "os/thread_slot.h"

#include <string.h>

#include "arch/arch.h"
#include "base/bits.h"
#include "os/linux/loader.h"
#include "os/os.h"

#define TABLE_BITS 15
#define ENTRIES    (1u << TABLE_BITS)
#define TID_BITS   22 /* PID_MAX_LIMIT of linux/threads.h */
#define TAKEN      UINT64_C(1)
/* Ended threads searched for, when a thread needs an entry. */
#define TRIES_MAX 64u

typedef struct entry {
  uint64_t key; /* 0: never used */
  void *values[SLOT_COUNT];
} __attribute__((aligned(64))) entry_t;

static entry_t table[ENTRIES];
static int64_t tid_place; /* of the id, relative to the thread pointer; 0: unknown */

/* The structure at the thread pointer is larger than 64 bytes, so these bits differ for any two
 * threads. */
static ALWAYS_INLINE uint64_t own_key(void) {
  uint64_t pointer = arch_thread_pointer();
  uint32_t tid = *(const uint32_t *)(uintptr_t)(pointer + (uint64_t)tid_place);
  return pointer >> 6 << TID_BITS | tid;
}

static uint32_t start_of(uint64_t key) {
  return (uint32_t)((key >> TID_BITS) * UINT64_C(0x9e3779b97f4a7c15) >> (64 - TABLE_BITS));
}

static ALWAYS_INLINE entry_t *find(uint64_t key) {
  uint32_t at = start_of(key);
  for (uint32_t i = 0; i < ENTRIES; i++) {
    entry_t *entry = &table[(at + i) % ENTRIES];
    uint64_t have = load_relaxed(&entry->key);
    if (LIKELY(have == key)) return entry;
    if (!have) return NULL;
  }
  return NULL;
}

void *os_thread_slot(os_thread_slot_t which) {
  if (UNLIKELY(!tid_place)) return NULL;
  const entry_t *entry = find(own_key());
  return LIKELY(entry) ? entry->values[which] : NULL;
}

bool os_thread_slots_init(void) {
  uint64_t place = linux_tid_place();
  if (!place) return false;
  /* A handle points to a thread's structure, and on aarch64 the thread pointer to its end. */
  tid_place = (int64_t)(linux_loader()->own_handle() + place - arch_thread_pointer());
  return tid_place != 0;
}

/* A thread with the same thread pointer, or with an id that no thread has, has ended. */
static bool has_ended(uint64_t key, uint64_t own) {
  if (key >> TID_BITS == own >> TID_BITS) return true;
  return !os_thread_alive((pid_t)(key & ((1u << TID_BITS) - 1)));
}

/* Claims ENTRY, whose key is HAVE, for the thread of KEY. */
static bool claim(entry_t *entry, uint64_t have, uint64_t key) {
  if (!cas_acq_rel(&entry->key, &have, have ? TAKEN : key)) return false;
  if (!have) return true; /* the values of a new entry are zeros */
  memset(entry->values, 0, sizeof entry->values);
  store_release(&entry->key, key);
  return true;
}

bool os_thread_slots_claim(void) {
  if (!tid_place) return false;
  uint64_t key = own_key();
  if ((key & ((1u << TID_BITS) - 1)) != (uint32_t)os_tid()) return false;
  if (find(key)) return true;
  uint32_t at = start_of(key), tries = 0;
  for (uint32_t i = 0; i < ENTRIES; i++) {
    entry_t *entry = &table[(at + i) % ENTRIES];
    uint64_t have = load_acquire(&entry->key);
    if (have == key) return true; /* claimed by a signal handler of this thread */
    if (have == TAKEN) continue;
    if (have && (tries++ >= TRIES_MAX || !has_ended(have, key))) continue;
    if (claim(entry, have, key)) return true;
    i--; /* another thread was first: look again */
  }
  return false;
}

/* The first value of a thread claims its entry. */
void os_set_thread_slot(os_thread_slot_t which, void *value) {
  if (!tid_place) return;
  entry_t *entry = find(own_key());
  if (!entry && value && os_thread_slots_claim()) entry = find(own_key());
  if (entry) entry->values[which] = value;
}
#else
/* Threads have thread-local storage. */
typedef int no_thread_slots;
#endif
