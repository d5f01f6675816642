/* SPDX-License-Identifier: MIT
 *
 * The functions of sonde/malloc.h, sonde/log.h and sonde_audit_phase: the agent's, or this copy's
 * own if there is no agent.
 */
#include "arch/arch.h"
#include "hook/agent_table.h"
#include "record/standalone.h"
#include "sensor/malloc/api.h"
#include "sensor/malloc/standalone.h"
#include "sensor/malloc/summary.h"
#include "sonde/log.h"

#define LIMIT_LEAST (UINT64_C(1) << 20)

int sonde_malloc_log_start(const char *path, sonde_malloc_mode_t mode) {
  uint32_t bits;
  if (!malloc_api_mode_bits(mode, &bits)) return SONDE_EINVAL;
  if (agent_table()) return agent_table()->malloc_mode(mode);
  if ((bits & RECORD_MAPPINGS) && !malloc_hooks_see_mappings()) return SONDE_EUNSUPPORTED;
  return path ? malloc_standalone_start(path, bits) : SONDE_EINVAL;
}

int sonde_log_limit(uint64_t bytes) {
  if (bytes && bytes < LIMIT_LEAST) return SONDE_EINVAL;
  standalone_limit(bytes);
  return 0;
}

int sonde_log_remove_orphan(const char *path) {
  return path ? standalone_remove_orphan(path, agent_table()) : SONDE_EINVAL;
}

int sonde_summary_write(const char *path, size_t limit_bytes) {
  return agent_table() ? SONDE_EUNSUPPORTED : malloc_summary_write(path, limit_bytes);
}

int sonde_malloc_log_stop(void) {
  const agent_table_t *agent = agent_table();
  return agent ? agent->malloc_mode(SONDE_MALLOC_OFF) : malloc_standalone_stop();
}

int sonde_malloc_log_mode(sonde_malloc_mode_t mode) {
  const agent_table_t *agent = agent_table();
  return (agent ? agent->malloc_mode : malloc_api_mode)(mode);
}

int sonde_malloc_of(const void *address, sonde_block_t *block) {
  const agent_table_t *agent = agent_table();
  return (agent ? agent->malloc_of : malloc_api_of)(address, block);
}

int64_t sonde_malloc_each(int (*visit)(const sonde_block_t *block, void *context), void *context) {
  const agent_table_t *agent = agent_table();
  return (agent ? agent->malloc_each : malloc_api_each)(visit, context);
}

int sonde_malloc_stack(uint32_t stack, uintptr_t *pcs, int max) {
  const agent_table_t *agent = agent_table();
  return (agent ? agent->malloc_stack : sonde_stack_of_id)(stack, pcs, max);
}

static int pool_event(int call, const void *address, size_t size, const caller_t *at) {
  const agent_table_t *agent = agent_table();
  return (agent ? agent->malloc_pool : malloc_api_pool)(call, address, size, at);
}

#define TARGET __attribute__((used)) HIDDEN
#define CALLER uint64_t pc, uint64_t sp, uint64_t fp

TARGET int alloc_event_here(const void *address, size_t size, CALLER);
int alloc_event_here(const void *address, size_t size, CALLER) {
  return pool_event(POOL_ALLOCATED, address, size, &(caller_t){pc, sp, fp});
}
ENTRY_2(sonde_alloc_event, alloc_event_here);

TARGET int free_event_here(const void *address, CALLER);
int free_event_here(const void *address, CALLER) {
  return pool_event(POOL_FREED, address, 0, &(caller_t){pc, sp, fp});
}
ENTRY_1(sonde_free_event, free_event_here);

TARGET int mark_here(const char *name, CALLER);
int mark_here(const char *name, CALLER) {
  const agent_table_t *agent = agent_table();
  return (agent ? agent->malloc_marker : malloc_api_marker)(name, &(caller_t){pc, sp, fp});
}
ENTRY_1(sonde_mark, mark_here);
ENTRY_1(sonde_audit_phase, mark_here);
