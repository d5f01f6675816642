/* SPDX-License-Identifier: MIT
 *
 * The thread id of a pthread_t. Each C library stores the id inside the structure that the handle
 * points to. Its offset has not changed for many versions but is not guaranteed. So each known
 * offset is tested first: the calling thread's own handle must show its own id there.
 */
#include <errno.h>

#include "base/bits.h"
#include "os/linux/loader.h"
#include "os/os.h"

/* glibc: struct pthread, a header of 704 or 192 bytes and a list node before it; musl: struct
 * pthread, after self, dtv, prev, next, sysinfo and canary (x86_64), or less dtv and canary. */
#if defined(__x86_64__)
static const uint16_t places[] = {720, 48};
#else
static const uint16_t places[] = {208, 32};
#endif

static bool read_id(uint64_t handle, uint16_t place, int32_t *id) {
  return os_read_memory(handle + place, id, sizeof *id) == (ssize_t)sizeof *id;
}

uint16_t linux_tid_place(void) {
  const loader_t *loader = linux_loader();
  if (loader == NULL || loader->own_handle == NULL) return 0;
  uint64_t own = loader->own_handle();
  int32_t id;
  for (size_t i = 0; i < ARRAY_COUNT(places); i++)
    if (read_id(own, places[i], &id) && id == os_tid()) return places[i];
  return 0;
}

#if defined(SONDE_ATTACHED)
bool linux_attached_tid(void) {
  const loader_t *loader = linux_loader();
  if (loader == NULL || loader->own_handle == NULL) return false;
  if (loader->kind != LOADER_GLIBC && loader->kind != LOADER_MUSL) return false;
  uint16_t place = places[loader->kind == LOADER_MUSL];
  *(int32_t *)(uintptr_t)(loader->own_handle() + place) = os_tid();
  return true;
}
#endif

pid_t os_thread_of_handle(uint64_t handle) {
  uint16_t place = linux_tid_place();
  int32_t id;
  if (place == 0) return -ENOSYS;
  return read_id(handle, place, &id) && id > 0 ? id : -ESRCH;
}

pid_t os_thread_of_port(uint32_t port) {
  (void)port;
  return -ENOSYS;
}

pid_t os_thread_of_object(uint64_t object) {
  (void)object;
  return -ENOSYS;
}

/* Swift's runtime for Linux keeps it in a variable that it does not export. */
uint64_t os_swift_task(void) { return 0; }
