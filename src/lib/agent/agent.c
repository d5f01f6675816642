/* SPDX-License-Identifier: MIT
 *
 * Start and end of the agent.
 *
 * The first call comes while the process has one thread: from ld.so, from a constructor, at the
 * latest from the agent's own. If two threads ever meet here, the second waits for the first. No
 * signal handler is installed before the program runs, so none can interrupt the first.
 */
#include "agent/agent.h"

#include "agent/seccomp.h"
#include "arch/arch.h"
#include "os/linux/internal.h"
#include "os/os.h"
#include "record/definitions.h"
#include "record/writer.h"
#include "sensor/sensor.h"
#include "capture/stack.h"
#include "capture/python/python.h"
#include "capture/python/python_codes.h"

HIDDEN bool agent_ready, agent_calls_back;
static uint32_t starting;

void agent_real(const char *const *names, uint64_t *addresses, int count) {
  os_symbols((uint64_t)(uintptr_t)&agent_ready, names, addresses, count);
}

bool agent_in_recorded_process(void) { return writer_is_of_process(writer_control()); }

static void start_recording(void) {
  static char settings[4096], preload[4096];
  if (!environment_take(settings, preload, sizeof settings)) return;
  if (arch_on_valgrind()) return; /* see emulator.c */
  if (seccomp_is_unknown()) return;
  if (!frame_table_init() || !stack_table_init()) return;
  definitions_start();
  static char own[256];
  if (!follow_settings(settings, own, sizeof own) || writer_start(own) != 0) return;
  if (writer_control()->follows_async) stack_follow_async();
  seccomp_attached();
  writer_process();
  thread_started();
  capture_python_start(writer_control()->python_lines,
                       (uint64_t)(uintptr_t)python_codes_count_death);
  sensor_start();
  if (emulator_is_this()) emulator_report("qemu");
  writer_control()->own_malloc = malloc_is_hidden();
}

NOINLINE void agent_start(void) {
  static int32_t owner;
  os_before_start();
  int32_t self = os_tid();
  uint32_t none = 0;
  if (!cas_acq_rel(&starting, &none, 1u)) {
    /* The same thread again: one of the allocator's functions calls another. */
    if (load_acquire(&owner) == self) agent_calls_back = true;
    while (!load_acquire(&agent_ready) && load_acquire(&owner) != self)
      arch_relax();
    return;
  }
  store_release(&owner, self);
  linux_loader_still(true);
  os_loader_init();
  os_symbols_begin();
  malloc_find_real();
  exec_find_real();
  thread_find_real();
  thread_name_find_real();
  jump_find_real();
  region_find_real();
  signals_find_real();
  dlopen_find_real();
  dlclose_find_real();
  operators_find_real();
  wait_find_real();
  if (!arch_on_valgrind()) malloc_try(); /* valgrind counts only the program's calls */
  start_recording();
  os_symbols_end();
  linux_loader_still(false);
  store_release(&agent_ready, true);
}

/* Import slots are written now, when all images are relocated; not at the first malloc. */
__attribute__((constructor)) static void at_start(void) {
  agent_enter();
  if (!agent_in_recorded_process()) return;
  linux_loader_still(true);
  sensor_hook();
  linux_loader_still(false);
  follow_forks();
}

/* A living recorder collects the open chunks, also events after this. */
void agent_finish(void) {
  if (writer_has_recorder(writer_control())) return;
  writer_finish();
  writer_finish_header();
}

__attribute__((destructor)) static void at_end(void) {
  if (!agent_in_recorded_process()) return;
  threads_end();
  sensor_stop();
  agent_finish();
}
