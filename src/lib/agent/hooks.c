/* SPDX-License-Identifier: MIT
 *
 * What libsonde, linked into the recorded program, finds of the agent: see hook/engine.h. A
 * constructor of the program's may come to it before ours.
 */
#include "agent/agent.h"
#include "hook/engine.h"

extern __attribute__((visibility("default"))) const hook_engine_t libsonde_agent_hooks;

static void prepare(void) { agent_enter(); }

const hook_engine_t libsonde_agent_hooks = HOOK_OWN_ENGINE(prepare);
