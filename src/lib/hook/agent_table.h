/* SPDX-License-Identifier: MIT
 *
 * The functions that a program's own libsonde calls in the preloaded agent.
 *
 * A recorded program that links libsonde contains this code twice, and only one copy may act: the
 * recording, the event loops and the import slots belong to the agent. The agent exports one
 * table, `libsonde_agent`. The public functions of the other copy look the symbol up at their first
 * call, and call the agent through the table if it exists; otherwise they use their own copy. So
 * hooks of the program, of the tracer and of the audit are links of one chain. In the agent itself
 * the lookup returns the agent's own table.
 *
 * Threads: any. Two threads may both look the symbol up; both store the same pointer. A table with
 * another version or with fewer functions is ignored.
 */
#ifndef SONDE_HOOK_AGENT_TABLE_H
#define SONDE_HOOK_AGENT_TABLE_H

#include <sys/types.h>

#include "base/bits.h"
#include "sonde/hook.h"
#include "sonde/malloc.h"

#define AGENT_TABLE_NAME    "libsonde_agent"
#define AGENT_TABLE_VERSION 1u

struct caller;
struct hook_filter;

typedef struct agent_table {
  uint32_t version, size;
  /* Starts the agent; called once, before the other functions. A constructor of the program may run
   * before the agent's. */
  void (*prepare)(void);

  /* sonde/hook.h and hook/filter.h */
  int (*hook_add)(const sonde_hook_request_t *requests, size_t count, sonde_hook_t **hooks);
  int (*hook_remove)(sonde_hook_t *hook);
  int (*hook_late)(void);
  int (*hook_refresh)(void);
  int (*hook_reach)(const sonde_hook_t *hook, int (*visit)(const sonde_slot_t *slot, void *context),
                    void *context);
  int (*hook_filter_add)(const struct hook_filter *filter);

  /* sonde/malloc.h; the kind of a pool event is a pool_call_t */
  int (*malloc_mode)(sonde_malloc_mode_t mode);
  int (*malloc_of)(const void *address, sonde_block_t *block);
  int64_t (*malloc_each)(int (*visit)(const sonde_block_t *block, void *context), void *context);
  int (*malloc_stack)(uint32_t stack, uintptr_t *pcs, int max);
  int (*malloc_pool)(int kind, const void *address, size_t size, const struct caller *at);
  int (*malloc_marker)(const char *name, const struct caller *at);

  /* sonde/audit.h */
  int (*audit_start)(const void *policy, size_t size, const char *path);
  int (*audit_stop)(void);

  /* sonde/stall.h */
  int (*stall_heartbeat)(void);
  int (*stall_begin)(uint32_t limit_ms);
  int (*stall_expect)(uint32_t limit_ms);
  int (*stall_end)(void);
} agent_table_t;

/* NULL before the first lookup; &agent_table_absent if the process has no usable agent. */
extern HIDDEN const agent_table_t *agent_table_found;
extern HIDDEN const agent_table_t agent_table_absent;

NOINLINE const agent_table_t *agent_table_find(void);

/* The agent's table; NULL if this copy of the library acts itself. */
static ALWAYS_INLINE const agent_table_t *agent_table(void) {
  const agent_table_t *t = load_acquire(&agent_table_found);
  if (UNLIKELY(!t)) t = agent_table_find();
  return t == &agent_table_absent ? NULL : t;
}

#endif
