/* SPDX-License-Identifier: MIT
 *
 * A recorded process that executes a statically linked program, as env or a shell does: it loses
 * the agent, and is recorded from outside from there on. The agent announces the program
 * (agent/next.c). The process then stops at its first instruction (start/hold.h), while the
 * monitors are replaced. Where the system refuses that, they are replaced some milliseconds later.
 *
 * Such a program passes on its environment, so the agent can start in a program that it executes.
 * Then the monitors are replaced again.
 *
 * All functions are for the recorder's main thread.
 */
#ifndef SONDE_RECORDER_MONITOR_OUTSIDE_AGENTLESS_H
#define SONDE_RECORDER_MONITOR_OUTSIDE_AGENTLESS_H

#include "recorder/monitor/outside/observed.h"
#include "recorder/monitors.h"
#include "recorder/start/hold.h"

typedef struct agentless_options {
  /* RECORD_… bits of sensors that need no agent, and their monitors */
  uint32_t mode;
  monitor_options_t monitors;
  /* the user named no sensor */
  bool is_default;
  /* false: no sensor works without the agent, so nothing is recorded */
  bool records;
  /* of the monitors of programs with the agent */
  const monitor_options_t *with_agent;
  /* in the environment of every process that is to get the agent */
  const char *settings;
} agentless_options_t;

typedef enum agentless_state {
  AGENTLESS_NOT,       /* the agent is in the program */
  AGENTLESS_ANNOUNCED, /* the process is about to execute a program without it */
  AGENTLESS_RECORDED,  /* the program is recorded from outside */
} agentless_state_t;

typedef struct agentless {
  const agentless_options_t *options;
  recording_t *recording;
  monitors_t *monitors;
  bool is_child; /* of the recorder */
  agentless_state_t state;
  hold_t hold;
  observed_t observed;
  /* when it is looked at next, of CLOCK_MONOTONIC */
  uint64_t due_ns;
  /* until when the announced program is awaited; then, the agent in a later program; 0: it is not
   */
  uint64_t patience_ns;
  /* the announced program is executed already */
  bool is_known;
} agentless_t;

/* Of the process of RECORDING with MONITORS, none of which may be there yet. The arguments must
 * stay valid. */
void agentless_open(agentless_t *a, const agentless_options_t *options, recording_t *recording,
                    monitors_t *monitors, bool is_child);

/* The process is about to execute a statically linked program. IS_KNOWN: it has executed it. */
void agentless_announce(agentless_t *a, bool is_known);

/* Its call of exec failed. */
void agentless_stay(agentless_t *a);

/* Looks at the process if that is due. Returns whether it has begun to record a program. */
bool agentless_poll(agentless_t *a);

/* The time until that is due, at most LIMIT_NS. */
uint64_t agentless_time_left_ns(const agentless_t *a, uint64_t limit_ns);

/* Prints that PROGRAM is recorded from outside; ALL: with the default sensors. */
void agentless_note(const char *program, bool all);

void agentless_close(agentless_t *a);

#endif
