/* SPDX-License-Identifier: MIT
 *
 * The functions of sonde/audit.h: the agent's, or this copy's own if there is no agent.
 * sonde_audit_phase is a marker: sensor/malloc/public.c.
 */
#include "sonde/audit.h"

#include "hook/agent_table.h"
#include "sensor/audit/start.h"

int sonde_audit_start(const void *policy, size_t size, const char *path) {
  const agent_table_t *agent = agent_table();
  if (!policy) return SONDE_EINVAL;
  return (agent ? agent->audit_start : audit_begin)(policy, size, path);
}

int sonde_audit_stop(void) {
  const agent_table_t *agent = agent_table();
  return (agent ? agent->audit_stop : audit_end)();
}
