/* SPDX-License-Identifier: MIT
 *
 * The agent's thread: starts, runs and ends in the program under the tracer's eyes.
 */
#ifndef SONDE_ATTACH_RUNNER_H
#define SONDE_ATTACH_RUNNER_H

#include "attach/session.h"

/* clone(2) of that thread. */
#define RUNNER_CLONE_FLAGS                                                                         \
  (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS)

/* Clones a thread that runs the agent, and waits until it has ended. False with PROBLEM if it
 * faulted, hung or could not be made. Only the tracer calls this. */
bool runner_run(attach_t *attach, unsigned limit_ms, problem_t *problem);

/* Writes the stub and the system calls with which the thread begins: access, names. */
bool runner_prepare(attach_t *attach);

#endif
