/* SPDX-License-Identifier: MIT
 *
 * The table through which a program's own libsonde calls the agent: see hook/agent_table.h.
 */
#include "agent/agent.h"
#include "hook/agent_table.h"
#include "hook/hook.h"
#include "sensor/audit/start.h"
#include "sensor/malloc/api.h"
#include "sensor/stall/stall.h"

extern __attribute__((visibility("default"))) const agent_table_t libsonde_agent;

static void prepare(void) { agent_enter(); }

const agent_table_t libsonde_agent = {
    .version = AGENT_TABLE_VERSION,
    .size = sizeof(agent_table_t),
    .prepare = prepare,
    .hook_add = hook_add_local,
    .hook_remove = hook_remove_local,
    .hook_late = hook_late_local,
    .hook_refresh = hook_refresh_local,
    .hook_reach = hook_reach_local,
    .hook_filter_add = hook_filter_add_local,
    .malloc_mode = malloc_api_mode,
    .malloc_of = malloc_api_of,
    .malloc_each = malloc_api_each,
    .malloc_stack = sonde_stack_of_id,
    .malloc_pool = malloc_api_pool,
    .malloc_marker = malloc_api_marker,
    .audit_start = audit_begin,
    .audit_stop = audit_end,
    .stall_heartbeat = stall_heartbeat,
    .stall_begin = stall_begin,
    .stall_expect = stall_expect,
    .stall_end = stall_end,
};
