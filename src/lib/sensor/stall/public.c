/* SPDX-License-Identifier: MIT
 *
 * The functions of sonde/stall.h: the agent's, or this program's own monitor if there is no agent.
 */
#include "sonde/stall.h"

#include "hook/agent_table.h"
#include "sensor/stall/self_monitor.h"
#include "sensor/stall/stall_label.h"

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

static const struct {
  sonde_stall_cause_t cause;
  stall_label_t label;
} causes[] = {{SONDE_STALL_ON_CPU, STALL_ON_CPU},        {SONDE_STALL_LOCK, STALL_LOCK},
              {SONDE_STALL_DEADLOCK, STALL_DEADLOCK},    {SONDE_STALL_BLOCKED, STALL_BLOCKED},
              {SONDE_STALL_UNINTERRUPTIBLE, STALL_DISK}, {SONDE_STALL_PAGES, STALL_MAJOR_FAULTS},
              {SONDE_STALL_NO_CPU, STALL_STARVED},       {SONDE_STALL_SEVERAL, STALL_MIXED}};

sonde_stall_cause_t stall_cause_of_label(stall_label_t label) {
  for (size_t i = 0; i < sizeof causes / sizeof *causes; i++)
    if (causes[i].label == label) return causes[i].cause;
  return SONDE_STALL_UNKNOWN;
}

const char *sonde_stall_cause_text(sonde_stall_cause_t cause) {
  for (size_t i = 0; i < sizeof causes / sizeof *causes; i++)
    if (causes[i].cause == cause) return stall_label_text(causes[i].label);
  return stall_label_text(STALL_UNKNOWN);
}
