/* SPDX-License-Identifier: MIT
 *
 * Apple's own malloc log, switched on and saved. run.py reads what is saved with `sonde import`,
 * and compares it with what is done here.
 */
#include <mach/mach.h>
#include <mach/vm_map.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "sonde/apple_log.h"

static void *volatile kept[64];

__attribute__((noinline)) static void allocate_logged(void) {
  for (int i = 0; i < 40; i++)
    kept[i] = malloc(1000 + (size_t)i);
  kept[41] = realloc(malloc(3001), 3003); /* before a block gets the address of a freed one */
  for (int i = 0; i < 30; i++)
    free(kept[i]);
}

__attribute__((noinline)) static void *in_a_logged_thread(void *argument) {
  kept[42] = malloc(5005);
  return argument;
}

__attribute__((noinline)) static void map_logged(void) {
  vm_address_t address = 0;
  vm_allocate(mach_task_self(), &address, 0x70000,
              VM_FLAGS_ANYWHERE | VM_MAKE_TAG(VM_MEMORY_MALLOC_TINY));
  vm_deallocate(mach_task_self(), address, 0x30000);
}

/* 128 stacks: at each level one of two calls. */
__attribute__((noinline)) static void allocate_on_every_way(int levels, size_t way) {
  if (levels == 0) {
    kept[44] = malloc(20000 + way);
  } else {
    allocate_on_every_way(levels - 1, 2 * way);
    allocate_on_every_way(levels - 1, 2 * way + 1);
  }
  __asm__ volatile("");
}

__attribute__((noinline)) static void do_logged(void) {
  pthread_t thread;
  void *result;
  allocate_logged();
  allocate_on_every_way(7, 0);
  map_logged();
  pthread_create(&thread, NULL, in_a_logged_thread, NULL);
  pthread_join(thread, &result);
}

void check_apple_log(const char *folder, bool is_private) {
  char path[1024];
  if (!is_private) {
    check(sonde_apple_log_start(SONDE_APPLE_LOG_ALL) == SONDE_EUNSUPPORTED &&
              sonde_apple_log_stop() == SONDE_EUNSUPPORTED &&
              sonde_apple_log_path(path, sizeof path) == SONDE_EUNSUPPORTED &&
              sonde_apple_log_save(folder) == SONDE_EUNSUPPORTED,
          "Apple's log needs private symbols");
    return;
  }
  check(sonde_apple_log_save(folder) == SONDE_ENOTFOUND, "there is no log of Apple's yet");
  check(sonde_apple_log_start((sonde_apple_log_mode_t)4) == SONDE_EINVAL, "it has three modes");
  check(sonde_apple_log_start(SONDE_APPLE_LOG_ALL) == 0, "Apple's log begins");
  check(sonde_apple_log_start(SONDE_APPLE_LOG_ALL) == SONDE_EBUSY, "it begins once");
  do_logged();
  int length = sonde_apple_log_path(path, sizeof path);
  check(length > 0 && strlen(path) == (size_t)length && strstr(path, "/stack-logs."), "its file");
  check(sonde_apple_log_path(path, 10) == SONDE_ENOTFOUND, "which needs space");
  check(sonde_apple_log_stop() == 0, "Apple's log ends");
  kept[43] = malloc(7007);
  check(sonde_apple_log_save(NULL) == 0, "it is saved beside its file, with all its stacks");
  check(sonde_apple_log_save(folder) == SONDE_EIO, "but replaces no file");
  check(sonde_apple_log_save("/nonexistent") == SONDE_EIO, "and needs a folder");
}
