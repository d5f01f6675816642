/* SPDX-License-Identifier: MIT
 *
 * The malloc log of the program's own. What is in the file is for another machine to say: these
 * blocks have sizes that nothing else here has.
 */
#include <mach/mach.h>
#include <mach/vm_map.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "sonde/malloc.h"

static void *volatile kept[64];

__attribute__((noinline)) static void allocate_blocks(void) {
  for (int i = 0; i < 40; i++)
    kept[i] = malloc(1000 + (size_t)i);
  for (int i = 0; i < 30; i++)
    free(kept[i]);
  kept[40] = calloc(7, 1111);
  kept[41] = realloc(malloc(3001), 3003);
}

__attribute__((noinline)) static void *in_a_thread(void *argument) {
  volatile int local[4] = {0};
  kept[42] = malloc(5005);
  local[1] = local[0];
  return argument;
}

static void check_child(void) {
  pid_t child = fork();
  if (child == 0) {
    void *block = malloc(9009);
    _exit(block && sonde_malloc_log_stop() == SONDE_ENOTFOUND ? 0 : 1);
  }
  int status = -1;
  check(child > 0 && waitpid(child, &status, 0) == child && status == 0,
        "a child of fork has no log");
}

__attribute__((noinline)) static void check_blocks(const char *path) {
  pthread_t thread;
  void *result;
  check(sonde_malloc_log_start(path, SONDE_MALLOC_BLOCKS) == SONDE_OK, "a malloc log begins");
  allocate_blocks();
  pthread_create(&thread, NULL, in_a_thread, NULL);
  pthread_join(thread, &result);
  check_child();
  check(sonde_mark("all was allocated") == SONDE_OK, "a moment is named");
  check(sonde_malloc_log_stop() == SONDE_OK, "the log ends");
  void *after = malloc(7007);
  free(after);
}

__attribute__((noinline)) static void check_live(const char *path) {
  sonde_block_t block = {0};
  uintptr_t pcs[32];
  check(sonde_malloc_log_start(path, SONDE_MALLOC_LIVE) == SONDE_OK, "a log of what is live");
  char *own = malloc(6006);
  check(sonde_malloc_of(own + 10, &block) == SONDE_OK && block.size == 6006 &&
            block.address == (uintptr_t)own,
        "whose block it is");
  int count = sonde_malloc_stack(block.stack, pcs, 32);
  static const char *const chain[] = {"check_live", "check_log", NULL};
  check(count > 2 && has_chain(pcs, count, chain), "the stack that allocated it");
  free(own);
  check(sonde_malloc_of(own, &block) == SONDE_ENOTFOUND, "it is gone");
  check(sonde_malloc_log_stop() == SONDE_OK, "that log ends");
}

__attribute__((noinline)) static void map_regions(void) {
  vm_address_t address = 0;
  vm_allocate(mach_task_self(), &address, 0x70000,
              VM_FLAGS_ANYWHERE | VM_MAKE_TAG(VM_MEMORY_MALLOC_TINY));
  void *map = mmap(NULL, 0x50000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
  munmap(map, 0x50000);
  (void)mmap(NULL, 0x20000, PROT_READ, MAP_PRIVATE | MAP_ANON, VM_MAKE_TAG(240), 0);
  vm_deallocate(mach_task_self(), address, 0x30000);
}

/* Only a private symbol tells of regions. */
static void check_regions(const char *path, bool is_private) {
  int status = sonde_malloc_log_start(path, SONDE_MALLOC_MAPPINGS);
  check(status == (is_private ? SONDE_OK : SONDE_EUNSUPPORTED), "a log of regions");
  if (status != SONDE_OK) return;
  map_regions();
  check(sonde_malloc_log_stop() == SONDE_OK, "and its end");
}

void check_log(const char *folder, bool is_private) {
  static char path[3][1024];
  static const char *const names[] = {"blocks", "live", "regions"};
  for (int i = 0; i < 3; i++) {
    snprintf(path[i], sizeof path[i], "%s/%s.sonde", folder, names[i]);
    unlink(path[i]);
  }
  check_blocks(path[0]);
  check_live(path[1]);
  check_regions(path[2], is_private);
}
