/* SPDX-License-Identifier: MIT */
#include "recorder/start/plan.h"

#include <limits.h>
#include <stdio.h>

#include "base/message.h"
#include "recorder/defaults.h"
#include "recorder/monitor/outside/agentless.h"
#include "recorder/preload_check.h"
#include "recorder/start/hooks.h"

/* The sensors that need the agent. */
#define AGENT_MODES (RECORD_ANY_BLOCKS | RECORD_MAPPINGS | RECORD_CALLS | RECORD_AUDIT)

/* An audit that can hook none of COMMAND's calls, or few, traces its system calls instead. */
static traced_t find_traced(const char *command, bool is_static, const recorder_options_t *o) {
  if (o->coverage) return TRACED_COVERAGE;
  if (o->mode != RECORD_AUDIT || o->follow) return TRACED_NONE;
  if (is_static) return TRACED_STATIC;
  return preload_check_is_go(command) ? TRACED_GO : TRACED_NONE;
}

static void note_traced(const char *command, const plan_t *plan) {
  static const char cost[] = "each is traced, which stops its thread twice, as under strace";
  if (plan->traced == TRACED_STATIC)
    message_note("%s is statically linked, so its system calls are recorded: %s", command, cost);
  else if (plan->traced == TRACED_GO)
    message_note("%s is a Go program, which makes system calls itself: %s", command, cost);
  else if (!plan->traced && plan->options.mode & RECORD_AUDIT && preload_check_is_go(command))
    message_note("%s is a Go program, which makes system calls itself: the audit sees only calls "
                 "of C code; --audit alone, or --coverage, records the others",
                 command);
}

/* --trace without a pattern records nothing of most programs. */
static void note_unprepared(const char *command, const recorder_options_t *o) {
  char path[PATH_MAX];
  if (o->mode & RECORD_CALLS && !o->trace_given && preload_find(command, path, sizeof path))
    hooks_note(command, path);
}

/* The option of a sensor that needs the agent; NULL: there is none. */
static const char *agent_option(const recorder_options_t *o) {
  if (o->coverage) return "--coverage";
  if (o->leaks) return "--leaks";
  if (o->mode & (RECORD_ANY_BLOCKS | RECORD_MAPPINGS)) return "--malloc";
  if (o->mode & RECORD_CALLS) return "--trace";
  return o->mode & RECORD_AUDIT ? "--audit" : NULL;
}

/* False with REFUSAL: a sensor needs the agent. */
static bool plan_outside(plan_t *plan, const char *command, char *refusal, size_t size) {
  recorder_options_t *o = &plan->options;
  plan->is_observed = true;
  if (o->is_default) {
    o->mode = RECORD_SAMPLES | RECORD_STALLS;
    o->wall_hz = DEFAULT_SAMPLE_HZ;
  }
  const char *option = agent_option(o);
  if (option) {
    const char *remedy = preload_check_is_go(command) ? "" : "link it dynamically, or ";
    snprintf(
        refusal, size,
        "is statically linked, and %s needs a library in it; %sleave out %s: --sample, --wall, "
        "--stall, --cpu, or --audit without other sensors, need none",
        option, remedy, option);
    return false;
  }
  agentless_note(command, o->is_default);
  return true;
}

agentless_options_t plan_agentless(const recorder_options_t *o) {
  const uint32_t modes = RECORD_SAMPLES | RECORD_STALLS;
  agentless_options_t out = {.mode = o->is_default ? modes : o->mode & modes,
                             .is_default = o->is_default};
  long wall_hz = o->is_default ? DEFAULT_SAMPLE_HZ : o->wall_hz;
  out.monitors.stalls.threshold_ns = (uint64_t)o->stall_ms * 1000000;
  out.monitors.wall_interval_ns = wall_hz ? (uint64_t)(1000000000 / wall_hz) : 0;
  out.records = out.mode || wall_hz || o->cpu;
  return out;
}

bool plan_make(plan_t *plan, const char *command, const recorder_options_t *options, char *refusal,
               size_t size) {
  bool is_static = preload_check_is_static(command);
  *plan = (plan_t){.options = *options, .traced = find_traced(command, is_static, options)};
  plan->has_agent = !is_static;
  if (plan->has_agent && !preload_check(command, refusal, size)) return false;
  if (is_static && plan->traced != TRACED_STATIC) return plan_outside(plan, command, refusal, size);
  note_traced(command, plan);
  note_unprepared(command, options);
  return true;
}
