/* SPDX-License-Identifier: MIT
 *
 * The coverage of an audit in a process that already ran (sonde record -p --audit --coverage).
 * While system calls are traced, the agent can be neither loaded nor removed.
 */
#ifndef SONDE_RECORDER_MONITOR_OUTSIDE_TRACED_H
#define SONDE_RECORDER_MONITOR_OUTSIDE_TRACED_H

#include "recorder/control.h"
#include "recorder/monitor/coverage.h"
#include "target/target.h"

/* Starts the tracer for the process of CONTROL, which has the agent; OPTIONS has the policy and
 * must stay valid. Sets *TRACER for coverage_leave. False with PROBLEM; then the agent has been
 * removed. */
bool traced_begin(control_t *control, coverage_options_t *options, pid_t *tracer,
                  problem_t *problem);

#endif
