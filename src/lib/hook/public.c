/* SPDX-License-Identifier: MIT
 *
 * The functions of sonde/hook.h: the agent's, or this copy's own if there is no agent.
 */
#include "sonde/hook.h"

#include "base/bits.h"
#include "hook/agent_table.h"
#include "hook/hook.h"

int sonde_hook_add(const sonde_hook_request_t *requests, size_t count, sonde_hook_t **hooks) {
  const agent_table_t *agent = agent_table();
  return (agent ? agent->hook_add : hook_add_local)(requests, count, hooks);
}

int sonde_hook_remove(sonde_hook_t *hook) {
  const agent_table_t *agent = agent_table();
  return (agent ? agent->hook_remove : hook_remove_local)(hook);
}

int sonde_hook_late(void) {
  const agent_table_t *agent = agent_table();
  return (agent ? agent->hook_late : hook_late_local)();
}

int sonde_hook_refresh(void) {
  const agent_table_t *agent = agent_table();
  return (agent ? agent->hook_refresh : hook_refresh_local)();
}

int sonde_hook_reach(const sonde_hook_t *hook,
                     int (*visit)(const sonde_slot_t *slot, void *context), void *context) {
  const agent_table_t *agent = agent_table();
  return (agent ? agent->hook_reach : hook_reach_local)(hook, visit, context);
}

int hook_filter_add(const hook_filter_t *filter) {
  const agent_table_t *agent = agent_table();
  return (agent ? agent->hook_filter_add : hook_filter_add_local)(filter);
}

const char *sonde_slot_state_text(sonde_slot_state_t state) {
  static const char *const texts[] = {
      [SONDE_SLOT_HOOKED] = "hooked",
      [SONDE_SLOT_UNWANTED] = "excluded by the filter",
      [SONDE_SLOT_SHADOWED] = "used by a newer hook with another filter",
      [SONDE_SLOT_ELSEWHERE] = "bound to another definition of the name",
      [SONDE_SLOT_FOREIGN] = "changed by other code since",
      [SONDE_SLOT_PROTECTED] = "not writable: the page's protection could not be changed",
      [SONDE_SLOT_WITHIN] =
          "not interceptable: calls inside the defining library do not use the GOT",
      [SONDE_SLOT_UNREADABLE] = "not interceptable: the image has no usable dynamic section",
  };
  return (unsigned)state < ARRAY_COUNT(texts) ? texts[state] : "unknown state";
}
