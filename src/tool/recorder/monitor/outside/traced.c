/* SPDX-License-Identifier: MIT */
#include "recorder/monitor/outside/traced.h"

#include <errno.h>
#include <string.h>

#include "recorder/monitor/outside/attached.h"

static const char *reason_of(int error) {
  switch (error) {
  case EAGAIN: return "a thread transfers data; try again";
  case EPERM: return "a debugger or strace is attached to it, or Yama forbids it";
  case EOPNOTSUPP:
    return "on this CPU its waits would fail with EINTR; start it with 'sonde "
           "record --audit --coverage -- COMMAND'";
  default: return strerror(error);
  }
}

bool traced_begin(control_t *control, coverage_options_t *options, pid_t *tracer,
                  problem_t *problem) {
  options->joins = true;
  options->agent_start = control->agent_start;
  options->agent_size = control->agent_size;
  *tracer = coverage_start(control->recording, control->pid, options, NULL, 0);
  if (*tracer > 0) return true;
  *tracer = 0;
  problem_set(problem, "its system calls cannot be traced: %s", reason_of(errno));
  attached_end(control);
  return false;
}
