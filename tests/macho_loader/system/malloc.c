/* SPDX-License-Identifier: MIT
 *
 * libSystem's allocator and memory calls as far as they report to who listens: the memory is the
 * host's, the reports are as in Apple's libmalloc and libsyscall (malloc.c, mach_vm.c). Mach-O code
 * compiled for macOS, since stacks lead through it.
 */
#include <mach/mach.h>
#include <mach/vm_map.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

typedef void logger_t(uint32_t type, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t result,
                      uint32_t skip);
logger_t *malloc_logger;
logger_t *__syscall_logger;

/* For stack_logging.c. NULL: nobody listens. */
void mac_set_loggers(logger_t *of_blocks, logger_t *of_regions);
void mac_set_loggers(logger_t *of_blocks, logger_t *of_regions) {
  malloc_logger = of_blocks;
  __syscall_logger = of_regions;
}

void mac_host_zone_lock(void);
void mac_host_zone_unlock(void);
uint64_t mac_host_held_size(void);
const volatile uint32_t *mac_host_own_stops(void);
void *mac_host_realloc(void *old, size_t size);
void mac_host_free(void *block);
void *mac_host_calloc(size_t count, size_t size);
kern_return_t mac_host_vm_allocate(vm_map_t task, vm_address_t *address, vm_size_t size, int flags);
kern_return_t mac_host_vm_deallocate(vm_map_t task, vm_address_t address, vm_size_t size);
void *mac_host_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
int mac_host_munmap(void *at, size_t size);

#define ZONE   0x7a6f6e65u
#define EXPORT __attribute__((noinline, visibility("default")))

static uint64_t held_size = 1; /* not known yet */

/* With the lock held: until its thread has been suspended three times. */
static void stay_inside(void) {
  const volatile uint32_t *stops = mac_host_own_stops();
  uint32_t before = *stops;
  while (*stops - before < 3) {
  }
}

/* All of it under one lock, as in one zone of Apple's; who listens is called without it. */
static void *allocate(void *old, size_t count, size_t size) {
  mac_host_zone_lock();
  if (held_size == 1) held_size = mac_host_held_size();
  void *block = count ? mac_host_calloc(count, size) : mac_host_realloc(old, size);
  if (held_size && size == held_size) stay_inside();
  mac_host_zone_unlock();
  return block;
}

EXPORT void *malloc(size_t size) {
  void *block = allocate(NULL, 0, size);
  if (malloc_logger) malloc_logger(2 | 8, ZONE, size, 0, (uintptr_t)block, 0);
  return block;
}

EXPORT void *calloc(size_t count, size_t size) {
  void *block = count ? allocate(NULL, count, size) : allocate(NULL, 1, 0);
  if (malloc_logger) malloc_logger(2 | 8 | 64, ZONE, count * size, 0, (uintptr_t)block, 0);
  return block;
}

EXPORT void *realloc(void *old, size_t size) {
  void *block = allocate(old, 0, size);
  if (malloc_logger) malloc_logger(2 | 4 | 8, ZONE, (uintptr_t)old, size, (uintptr_t)block, 0);
  return block;
}

EXPORT void free(void *block) {
  if (malloc_logger) malloc_logger(4 | 8, ZONE, (uintptr_t)block, 0, 0, 0);
  mac_host_zone_lock();
  mac_host_free(block);
  mac_host_zone_unlock();
}

/* The tag, in the bits of the log's types. An anonymous mapping has it in place of a descriptor; -1
 * is none, and is logged as tag 255. */
static uint32_t tag_of(int flags) { return (uint32_t)flags & VM_FLAGS_ALIAS_MASK; }

EXPORT kern_return_t vm_allocate(vm_map_t task, vm_address_t *address, vm_size_t size, int flags) {
  kern_return_t result = mac_host_vm_allocate(task, address, size, flags);
  if (__syscall_logger) __syscall_logger(16 | tag_of(flags), task, size, 0, *address, 0);
  return result;
}

EXPORT kern_return_t vm_deallocate(vm_map_t task, vm_address_t address, vm_size_t size) {
  if (__syscall_logger) __syscall_logger(32, task, address, size, 0, 0);
  return mac_host_vm_deallocate(task, address, size);
}

EXPORT void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
  void *map = mac_host_mmap(at, size, protection, flags, flags & MAP_ANON ? -1 : fd, offset);
  uint32_t type = 16 | (flags & MAP_ANON ? tag_of(fd) : 128u);
  if (__syscall_logger) __syscall_logger(type, mach_task_self(), size, 0, (uintptr_t)map, 0);
  return map;
}

EXPORT int munmap(void *at, size_t size) {
  if (__syscall_logger) __syscall_logger(32, mach_task_self(), (uintptr_t)at, size, 0, 0);
  return mac_host_munmap(at, size);
}
