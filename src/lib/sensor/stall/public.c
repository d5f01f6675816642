/* SPDX-License-Identifier: MIT
 *
 * sonde/stall.h: the program's libsonde hands on to the agent, which has the recording, or to the
 * monitor of its own. Where the agent's table stands is looked up at the first call.
 */
#include "sonde/stall.h"

#include "sensor/stall/stall.h"
#include "sensor/stall/self_monitor.h"

#define NOBODY ((const stall_declared_t *)1)

#define TEXT_(name) #name
#define TEXT(name)  TEXT_(name)

static const stall_declared_t *the_agent; /* NULL: not looked for so far */

static NOINLINE const stall_declared_t *find_agent(void) {
  static const char *const name[] = {TEXT(STALL_DECLARED_SYMBOL)};
  uint64_t address = 0;
  os_symbols(0, name, &address, 1);
  const stall_declared_t *found = address ? (const stall_declared_t *)(uintptr_t)address : NOBODY;
  store_release(&the_agent, found);
  return found;
}

static ALWAYS_INLINE const stall_declared_t *agent(void) {
  const stall_declared_t *a = load_acquire(&the_agent);
  if (UNLIKELY(!a)) a = find_agent();
  return a == NOBODY ? NULL : a;
}

int sonde_heartbeat(void) {
  const stall_declared_t *a = agent();
  return a ? a->heartbeat() : self_monitor_begin(0);
}

int sonde_stall_begin(uint32_t limit_ms) {
  const stall_declared_t *a = agent();
  return a ? a->begin(limit_ms) : self_monitor_begin(limit_ms);
}

int sonde_stall_expect(uint32_t limit_ms) {
  const stall_declared_t *a = agent();
  return a ? a->expect(limit_ms) : self_monitor_expect(limit_ms);
}

int sonde_stall_end(void) {
  const stall_declared_t *a = agent();
  return a ? a->end() : self_monitor_end();
}

int sonde_stall_monitor(uint32_t threshold_ms, sonde_stall_call_t *call, void *context) {
  return agent() ? SONDE_EBUSY : self_monitor_run(threshold_ms, call, context);
}

int sonde_stall_monitor_stop(void) {
  self_monitor_stop();
  return 0;
}
