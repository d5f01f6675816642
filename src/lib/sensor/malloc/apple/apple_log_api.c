/* SPDX-License-Identifier: MIT */
#include "sensor/malloc/apple/apple_log_api.h"

#include "base/bits.h"
#include "os/os.h"

#if defined(SONDE_APPLE_PRIVATE)

/* In the order of the members. */
static const char *const names[] = {
    "turn_on_stack_logging",
    "turn_off_stack_logging",
    "__mach_stack_logging_start_reading",
    "__mach_stack_logging_stop_reading",
    "__mach_stack_logging_enumerate_records",
    "__mach_stack_logging_copy_uniquing_table",
    "__mach_stack_logging_uniquing_table_read_stack",
    "__mach_stack_logging_uniquing_table_release",
    "__mach_stack_logging_shared_memory_address",
};
/* Those of the framework. The last one is libmalloc's on every system. */
static const char *const framework_names[] = {
    "msl_turn_on_stack_logging",
    "msl_turn_off_stack_logging",
    "msl_start_reading",
    "msl_stop_reading",
    "msl_disk_stack_logs_enumerate_from_task",
    "msl_uniquing_table_copy_from_task",
    "msl_uniquing_table_read_stack",
    "msl_uniquing_table_release",
    "__mach_stack_logging_shared_memory_address",
};
#define FUNCTIONS 8u
_Static_assert(ARRAY_COUNT(names) == FUNCTIONS + 1 && ARRAY_COUNT(framework_names) == FUNCTIONS + 1,
               "one name for each member");

static void load_framework(void) {
  static const char *const name[] = {"malloc_register_stack_logger"};
  uint64_t at = 0;
  os_symbols(0, name, &at, 1);
  if (at) (void)((int (*)(void))(uintptr_t)at)();
}

bool apple_log_api(apple_log_api_t *out) {
  uint64_t at[FUNCTIONS + 1] = {0}, other[FUNCTIONS + 1] = {0};
  load_framework();
  os_symbols(0, names, at, FUNCTIONS + 1);
  os_symbols(0, framework_names, other, FUNCTIONS + 1);
  for (unsigned i = 0; i < FUNCTIONS; i++) {
    if (!at[i]) at[i] = other[i];
    if (!at[i]) return false;
  }
  out->turn_on = (int (*)(int))(uintptr_t)at[0];
  out->turn_off = (void (*)(void))(uintptr_t)at[1];
  out->start_reading = (int (*)(uint32_t, uint64_t, int *))(uintptr_t)at[2];
  out->stop_reading = (int (*)(uint32_t))(uintptr_t)at[3];
  out->enumerate = (int (*)(uint32_t, uint64_t, apple_log_visit_t *, void *))(uintptr_t)at[4];
  out->copy_table = (void *(*)(uint32_t))(uintptr_t)at[5];
  out->read_stack = (int (*)(void *, uint64_t, uint64_t *, uint32_t *, uint32_t))(uintptr_t)at[6];
  out->release_table = (void (*)(void *))(uintptr_t)at[7];
  out->shared_memory = (const uint64_t *)(uintptr_t)at[8];
  return true;
}

#else

bool apple_log_api(apple_log_api_t *out) {
  (void)out;
  return false;
}

#endif
