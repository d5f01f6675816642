/* SPDX-License-Identifier: MIT
 *
 * Thread slots as pthread keys: see os/thread_slot.h. The keys have no destructors, because a
 * thread may still free memory after they have run. As on Linux, another thread reuses the memory
 * later.
 */
#include "os/thread_slot.h"

#include <pthread.h>
#include <stdbool.h>

#include "base/bits.h"

static pthread_key_t keys[SLOT_COUNT];
static bool has_keys;

__attribute__((constructor)) static void make_keys(void) {
  for (int i = 0; i < SLOT_COUNT; i++)
    if (pthread_key_create(&keys[i], NULL) != 0) return;
  store_release(&has_keys, true);
}

void *os_thread_slot(os_thread_slot_t which) {
  return LIKELY(has_keys) ? pthread_getspecific(keys[which]) : NULL;
}

void os_set_thread_slot(os_thread_slot_t which, void *value) {
  if (has_keys) (void)pthread_setspecific(keys[which], value);
}
