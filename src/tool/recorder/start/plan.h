/* SPDX-License-Identifier: MIT
 *
 * How a command is recorded. Most commands preload the agent. A static program cannot: it is
 * sampled from outside, as `sonde record -p` does, or its system calls are traced.
 */
#ifndef SONDE_RECORDER_START_PLAN_H
#define SONDE_RECORDER_START_PLAN_H

#include "recorder/monitor/outside/agentless.h"
#include "recorder/recorder.h"

/* Whose system calls are traced. */
typedef enum traced {
  TRACED_NONE,
  TRACED_COVERAGE, /* --coverage */
  TRACED_GO,       /* of a Go program, whose calls the audit cannot hook */
  TRACED_STATIC,   /* of a static program, which gets no agent */
} traced_t;

typedef struct plan {
  /* with the default sensors of this way to record */
  recorder_options_t options;
  bool has_agent;
  traced_t traced;
  /* without the agent: samples are taken from outside */
  bool is_observed;
} plan_t;

/* Plans the recording of COMMAND, which is searched in PATH as by execvp, with the OPTIONS that the
 * user gave. Prints a note if the recording differs from that of other programs. False if COMMAND
 * cannot be recorded so; REFUSAL is then the reason, to be printed after the command's name. */
bool plan_make(plan_t *plan, const char *command, const recorder_options_t *options, char *refusal,
               size_t size);

/* How a statically linked program is recorded that the command executes, with the user's OPTIONS.
 * The fields for other programs are missing. */
agentless_options_t plan_agentless(const recorder_options_t *options);

#endif
