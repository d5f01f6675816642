/* SPDX-License-Identifier: MIT
 *
 * Preloaded into a command: lets the N-th allocation after its start fail, in all of its processes.
 * Programs that it starts do not get this library. FAULTS names a file of three numbers, which are
 * shared: N, the allocations so far, and the address of the caller of the failed one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t align, size_t size);

static _Atomic uint64_t *numbers;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("FAULTS");
  int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  unsetenv("LD_PRELOAD");
  if (fd < 0) return;
  void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (at != MAP_FAILED) numbers = at;
}

static bool fails(const void *caller) {
  if (!numbers || atomic_fetch_add(&numbers[1], 1) + 1 != numbers[0]) return false;
  numbers[2] = (uintptr_t)caller;
  errno = ENOMEM;
  return true;
}

#define FAILS() fails(__builtin_return_address(0))

/* kill(-1, …) would end every process of this machine. */
PUBLIC int kill(pid_t pid, int number) {
  if (pid == -1) _exit(97);
  return (int)syscall(SYS_kill, pid, number);
}

PUBLIC void *malloc(size_t size) { return FAILS() ? NULL : __libc_malloc(size); }
PUBLIC void *calloc(size_t count, size_t size) {
  return FAILS() ? NULL : __libc_calloc(count, size);
}
PUBLIC void *realloc(void *block, size_t size) {
  return FAILS() ? NULL : __libc_realloc(block, size);
}
PUBLIC void *reallocarray(void *block, size_t count, size_t size) {
  size_t all;
  if (__builtin_mul_overflow(count, size, &all) || FAILS()) return NULL;
  return __libc_realloc(block, all);
}
PUBLIC void *aligned_alloc(size_t align, size_t size) {
  return FAILS() ? NULL : __libc_memalign(align, size);
}
PUBLIC int posix_memalign(void **block, size_t align, size_t size) {
  void *made = FAILS() ? NULL : __libc_memalign(align, size);
  if (!made) return ENOMEM;
  *block = made;
  return 0;
}
