/* SPDX-License-Identifier: MIT
 *
 * mmap, munmap, mremap, brk and sbrk, if the program calls them by name; and mprotect and madvise,
 * which are not recorded, but notify the audit that memory may be unreadable.
 */
#include <errno.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/types.h>

#include "agent/agent.h"
#include "sensor/audit/memory.h"
#include "sensor/malloc/mapping.h"

#define EXPORT __attribute__((visibility("default"), noinline))

/* The caller of the function that uses this macro. That function has a frame because of the macro
 * and saved its caller's frame pointer there. */
#define CALLER_HERE                                                                                \
  ((caller_t){(uint64_t)(uintptr_t)__builtin_extract_return_addr(__builtin_return_address(0)),     \
              (uint64_t)(uintptr_t)__builtin_dwarf_cfa(),                                          \
              *(const uint64_t *)__builtin_frame_address(0)})

static struct {
  void *(*mmap)(void *, size_t, int, int, int, off_t);
  int (*munmap)(void *, size_t);
  void *(*mremap)(void *, size_t, size_t, int, ...);
  int (*mprotect)(void *, size_t, int);
  int (*pkey_mprotect)(void *, size_t, int, int);
  int (*madvise)(void *, size_t, int);
  int (*brk)(void *);
  void *(*sbrk)(intptr_t);
  int *(*errno_location)(void);
} real;

void region_find_real(void) {
  static const char *const names[] = {"mmap",     "munmap",        "mremap",
                                      "mprotect", "pkey_mprotect", "madvise",
                                      "brk",      "sbrk",          "__errno_location"};
  _Static_assert(sizeof real == sizeof(uint64_t) * ARRAY_COUNT(names), "one name a function");
  agent_real(names, (uint64_t *)&real, ARRAY_COUNT(names));
}

static void *missing(void) {
  if (real.errno_location) *real.errno_location() = ENOSYS;
  return MAP_FAILED;
}

static void *mapped(void *at, size_t size, int protection, int flags, int fd, off_t offset,
                    caller_t caller) {
  agent_enter();
  if (!real.mmap) return missing();
  if (flags & MAP_FIXED) audit_memory_changes((uintptr_t)at, size);
  void *map = real.mmap(at, size, protection, flags, fd, offset);
  if (map == MAP_FAILED) return map;
  const region_t r = {.call = MAPPING_CREATED,
                      .address = (uintptr_t)map,
                      .size = size,
                      .protection = (uint32_t)protection,
                      .flags = (uint32_t)flags,
                      .offset = (uint64_t)offset,
                      .fd = flags & MAP_ANONYMOUS ? -1 : fd};
  mapping_record(&r, 0, caller);
  return map;
}

EXPORT void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
  return mapped(at, size, protection, flags, fd, offset, CALLER_HERE);
}

#ifndef mmap64
EXPORT void *mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
  return mapped(at, size, protection, flags, fd, offset, CALLER_HERE);
}
#endif

EXPORT int munmap(void *at, size_t size) {
  agent_enter();
  caller_t caller = CALLER_HERE;
  if (!real.munmap) return missing() ? -1 : 0;
  audit_memory_changes((uintptr_t)at, size);
  uint64_t time = mapping_before();
  int status = real.munmap(at, size);
  const region_t r = {.call = MAPPING_REMOVED, .address = (uintptr_t)at, .size = size, .fd = -1};
  if (status == 0 && time) mapping_record(&r, time, caller);
  return status;
}

EXPORT void *mremap(void *old, size_t old_size, size_t size, int flags, ...) {
  agent_enter();
  caller_t caller = CALLER_HERE;
  va_list arguments;
  va_start(arguments, flags);
  void *wanted = flags & 2 /* MREMAP_FIXED */ ? va_arg(arguments, void *) : NULL;
  va_end(arguments);
  if (!real.mremap) return missing();
  audit_memory_changes((uintptr_t)old, old_size);
  audit_memory_changes((uintptr_t)wanted, wanted ? size : 0);
  uint64_t time = mapping_before();
  void *map = real.mremap(old, old_size, size, flags, wanted);
  const region_t r = {.call = MAPPING_MOVED,
                      .address = (uintptr_t)map,
                      .size = size,
                      .old_address = (uintptr_t)old,
                      .old_size = flags & 4 /* MREMAP_DONTUNMAP */ ? 0 : old_size,
                      .fd = -1};
  if (map != MAP_FAILED && time) mapping_record(&r, time, caller);
  return map;
}

EXPORT int mprotect(void *at, size_t size, int protection) {
  agent_enter();
  if (!real.mprotect) return missing() ? -1 : 0;
  audit_memory_changes((uintptr_t)at, size);
  return real.mprotect(at, size, protection);
}

EXPORT int pkey_mprotect(void *at, size_t size, int protection, int key);
int pkey_mprotect(void *at, size_t size, int protection, int key) {
  agent_enter();
  if (!real.pkey_mprotect) return missing() ? -1 : 0;
  audit_memory_changes((uintptr_t)at, size);
  return real.pkey_mprotect(at, size, protection, key);
}

#define GUARD_INSTALL 102 /* MADV_GUARD_INSTALL of Linux 6.13 */

EXPORT int madvise(void *at, size_t size, int advice) {
  agent_enter();
  if (!real.madvise) return missing() ? -1 : 0;
  if (advice == GUARD_INSTALL) audit_memory_changes((uintptr_t)at, size);
  return real.madvise(at, size, advice);
}

static void moved_break(uint64_t from, uint64_t to, uint64_t time, caller_t caller) {
  const region_t r = {.call = to > from ? MAPPING_CREATED : MAPPING_REMOVED,
                      .address = to > from ? from : to,
                      .size = to > from ? to - from : from - to,
                      .flags = MAP_PRIVATE | MAP_ANONYMOUS,
                      .protection = PROT_READ | PROT_WRITE,
                      .fd = -1};
  if (to != from) mapping_record(&r, to > from ? 0 : time, caller);
}

EXPORT int brk(void *end) {
  agent_enter();
  caller_t caller = CALLER_HERE;
  if (!real.brk || !real.sbrk) return missing() ? -1 : 0;
  uint64_t from = (uintptr_t)real.sbrk(0), time = mapping_before();
  int status = real.brk(end);
  if (status == 0 && time) moved_break(from, (uintptr_t)end, time, caller);
  return status;
}

EXPORT void *sbrk(intptr_t by) {
  agent_enter();
  caller_t caller = CALLER_HERE;
  if (!real.sbrk) return missing();
  uint64_t time = by ? mapping_before() : 0;
  void *from = real.sbrk(by);
  if (from != MAP_FAILED && time)
    moved_break((uintptr_t)from, (uintptr_t)from + (uintptr_t)by, time, caller);
  return from;
}
