/* SPDX-License-Identifier: MIT
 *
 * The functions of sonde/stall.h: the agent's, or this program's own monitor if there is no agent.
 */
#include "sonde/stall.h"

#include "hook/agent_table.h"
#include "sensor/stall/self_monitor.h"

int sonde_heartbeat(void) {
  const agent_table_t *agent = agent_table();
  return agent ? agent->stall_heartbeat() : self_monitor_begin(0);
}

int sonde_stall_begin(uint32_t limit_ms) {
  const agent_table_t *agent = agent_table();
  return agent ? agent->stall_begin(limit_ms) : self_monitor_begin(limit_ms);
}

int sonde_stall_expect(uint32_t limit_ms) {
  const agent_table_t *agent = agent_table();
  return agent ? agent->stall_expect(limit_ms) : self_monitor_expect(limit_ms);
}

int sonde_stall_end(void) {
  const agent_table_t *agent = agent_table();
  return agent ? agent->stall_end() : self_monitor_end();
}

int sonde_stall_monitor(uint32_t threshold_ms, sonde_stall_call_t *call, void *context) {
  return agent_table() ? SONDE_EBUSY : self_monitor_run(threshold_ms, call, context);
}

int sonde_stall_monitor_stop(void) {
  self_monitor_stop();
  return 0;
}
