/* SPDX-License-Identifier: MIT
 *
 * Images that are loaded later, on Apple's systems: dyld calls back for each one after binding it
 * and before its constructors. It holds its own lock then, so the callback does not wait for
 * sonde's: the owner of that lock finds the `missed` flag and scans again.
 */
#include "base/bits.h"
#include "hook/internal.h"

static uint32_t is_in_force, missed;

static void image_came(void) {
  if (!load_acquire(&is_in_force)) return;
  if (!hooks_try_lock()) {
    store_release(&missed, 1);
    return;
  }
  hooks_refresh(hooks_state());
  hooks_unlock();
}

bool dlopen_in_force(void) { return load_relaxed(&is_in_force); }

void dlopen_start(hooks_t *h) {
  (void)h;
  store_release(&is_in_force, 1);
  os_loader_listen(image_came);
}

void dlopen_stop(hooks_t *h) {
  (void)h;
  store_release(&is_in_force, 0);
}

bool dlopen_take_missed(void) { return __atomic_exchange_n(&missed, 0, __ATOMIC_ACQ_REL) != 0; }
void dlopen_catch_up(hooks_t *h) { hooks_refresh(h); }
bool dlopen_take_retry(void) { return false; }
