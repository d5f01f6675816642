/* SPDX-License-Identifier: MIT
 *
 * What libsonde, linked into the recorded program, finds of the agent: see sensor/malloc/api.h.
 */
#include "agent/agent.h"
#include "sensor/malloc/api.h"

extern __attribute__((visibility("default"))) malloc_api_t libsonde_agent_log;

malloc_api_t libsonde_agent_log;

void log_show(void) { libsonde_agent_log = malloc_api_own; }
