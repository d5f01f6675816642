/* SPDX-License-Identifier: MIT
 *
 * The functions of sonde/malloc.h, and sonde_audit_phase, each through the table that has the
 * recording.
 */
#include "arch/arch.h"
#include "sensor/malloc/api.h"
#include "sensor/malloc/start.h"

const log_calls_t *log_calls(void) {
  static const log_calls_t *found;
  const log_calls_t *c = load_acquire(&found);
  if (c) return c;
  static const char *const names[] = {LOG_CALLS_NAME};
  uint64_t address = 0;
  os_symbols(0, names, &address, 1);
  c = (const log_calls_t *)(uintptr_t)address;
  if (!c || c->version != LOG_CALLS_VERSION || c->size < sizeof *c) c = &log_own_calls;
  store_release(&found, c);
  return c;
}

int sonde_malloc_log_start(const char *path, sonde_malloc_mode_t mode) {
  uint32_t bits;
  if (!log_mode_bits(mode, &bits)) return SONDE_EINVAL;
  if (log_calls() != &log_own_calls) return log_calls()->mode(mode);
  if ((bits & RECORD_REGIONS) && !log_has_regions()) return SONDE_EUNSUPPORTED;
  return path ? log_start(path, bits) : SONDE_EINVAL;
}

int sonde_malloc_log_stop(void) {
  return log_calls() == &log_own_calls ? log_stop() : log_calls()->mode(SONDE_MALLOC_OFF);
}

int sonde_malloc_log_mode(sonde_malloc_mode_t mode) { return log_calls()->mode(mode); }

int sonde_malloc_of(const void *address, sonde_block_t *block) {
  return log_calls()->of(address, block);
}

int64_t sonde_malloc_each(int (*visit)(const sonde_block_t *block, void *context), void *context) {
  return log_calls()->each(visit, context);
}

int sonde_malloc_stack(uint32_t stack, uintptr_t *pcs, int max) {
  return log_calls()->stack(stack, pcs, max);
}

#define TARGET __attribute__((used)) HIDDEN
#define CALLER uint64_t pc, uint64_t sp, uint64_t fp

TARGET int alloc_event_here(const void *address, size_t size, CALLER);
int alloc_event_here(const void *address, size_t size, CALLER) {
  return log_calls()->pool(POOL_GIVEN, address, size, &(caller_t){pc, sp, fp});
}
ENTRY_2(sonde_alloc_event, alloc_event_here);

TARGET int free_event_here(const void *address, CALLER);
int free_event_here(const void *address, CALLER) {
  return log_calls()->pool(POOL_TAKEN, address, 0, &(caller_t){pc, sp, fp});
}
ENTRY_1(sonde_free_event, free_event_here);

TARGET int mark_here(const char *name, CALLER);
int mark_here(const char *name, CALLER) { return log_calls()->mark(name, &(caller_t){pc, sp, fp}); }
ENTRY_1(sonde_mark, mark_here);
ENTRY_1(sonde_audit_phase, mark_here);
