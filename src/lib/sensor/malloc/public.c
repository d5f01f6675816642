/* SPDX-License-Identifier: MIT
 *
 * The functions of sonde/malloc.h, and sonde_audit_phase, each through the table that has the
 * recording.
 */
#include "arch/arch.h"
#include "sensor/malloc/api.h"
#include "sensor/malloc/standalone.h"

const malloc_api_t *malloc_api(void) {
  static const malloc_api_t *found;
  const malloc_api_t *c = load_acquire(&found);
  if (c) return c;
  static const char *const names[] = {MALLOC_API_NAME};
  uint64_t address = 0;
  os_symbols(0, names, &address, 1);
  c = (const malloc_api_t *)(uintptr_t)address;
  if (!c || c->version != MALLOC_API_VERSION || c->size < sizeof *c) c = &malloc_api_own;
  store_release(&found, c);
  return c;
}

int sonde_malloc_log_start(const char *path, sonde_malloc_mode_t mode) {
  uint32_t bits;
  if (!malloc_api_mode_bits(mode, &bits)) return SONDE_EINVAL;
  if (malloc_api() != &malloc_api_own) return malloc_api()->mode(mode);
  if ((bits & RECORD_REGIONS) && !malloc_hooks_see_mappings()) return SONDE_EUNSUPPORTED;
  return path ? malloc_standalone_start(path, bits) : SONDE_EINVAL;
}

int sonde_malloc_log_stop(void) {
  return malloc_api() == &malloc_api_own ? malloc_standalone_stop()
                                         : malloc_api()->mode(SONDE_MALLOC_OFF);
}

int sonde_malloc_log_mode(sonde_malloc_mode_t mode) { return malloc_api()->mode(mode); }

int sonde_malloc_of(const void *address, sonde_block_t *block) {
  return malloc_api()->of(address, block);
}

int64_t sonde_malloc_each(int (*visit)(const sonde_block_t *block, void *context), void *context) {
  return malloc_api()->each(visit, context);
}

int sonde_malloc_stack(uint32_t stack, uintptr_t *pcs, int max) {
  return malloc_api()->stack(stack, pcs, max);
}

#define TARGET __attribute__((used)) HIDDEN
#define CALLER uint64_t pc, uint64_t sp, uint64_t fp

TARGET int alloc_event_here(const void *address, size_t size, CALLER);
int alloc_event_here(const void *address, size_t size, CALLER) {
  return malloc_api()->pool(POOL_ALLOCATED, address, size, &(caller_t){pc, sp, fp});
}
ENTRY_2(sonde_alloc_event, alloc_event_here);

TARGET int free_event_here(const void *address, CALLER);
int free_event_here(const void *address, CALLER) {
  return malloc_api()->pool(POOL_FREED, address, 0, &(caller_t){pc, sp, fp});
}
ENTRY_1(sonde_free_event, free_event_here);

TARGET int mark_here(const char *name, CALLER);
int mark_here(const char *name, CALLER) {
  return malloc_api()->mark(name, &(caller_t){pc, sp, fp});
}
ENTRY_1(sonde_mark, mark_here);
ENTRY_1(sonde_audit_phase, mark_here);
