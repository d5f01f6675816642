/* SPDX-License-Identifier: MIT */
#include "base/room.h"

#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/message.h"

/* Apple's systems do not enforce RLIMIT_AS. */
bool room_is_limited(void) {
#if defined(__APPLE__)
  return false;
#else
  struct rlimit limit;
  return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
#endif
}

void room_need(uint64_t bytes) {
  if (!room_is_limited()) return;
  void *room = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) message_out_of_memory();
  munmap(room, bytes);
}

#define STACK_BYTES (1u << 20)
#define PAGE_BYTES  4096

static __attribute__((noinline)) void grow_stack(size_t bytes) {
  volatile char *stack = __builtin_alloca(bytes);
  for (size_t at = bytes; at >= PAGE_BYTES; at -= PAGE_BYTES)
    stack[at - PAGE_BYTES] = 0;
}

void room_need_stack(void) {
  struct rlimit limit;
  size_t bytes = STACK_BYTES;
  if (!room_is_limited()) return;
  if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur / 2 < bytes)
    bytes = (size_t)limit.rlim_cur / 2;
  room_need(bytes);
  grow_stack(bytes);
}

/* For what is allocated besides. */
#define REST ((uint64_t)4 << 20)

void room_need_file(int fd) {
  struct stat status;
  if (room_is_limited() && fstat(fd, &status) == 0) room_need((uint64_t)status.st_size + REST);
}
