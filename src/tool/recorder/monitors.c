/* SPDX-License-Identifier: MIT
 *
 * The start and the end of four threads would take a tenth of the CPU time of recording a program
 * that ends at once. Such a program needs none of them: at the end the main thread reads what the
 * threads would read.
 */
#include "recorder/monitors.h"

#include "base/bits.h"
#include "os/os.h"
#include "recorder/monitor/monitor_thread.h"

#define DELAY_NS UINT64_C(5000000)

void monitors_new(monitors_t *monitors, recording_t *recording, bool stalls,
                  const monitor_options_t *options) {
  monitors->recording = recording;
  monitors->stall = stalls ? stall_monitor_new(recording, &options->stalls) : NULL;
  monitors->wall =
      options->wall_interval_ns ? wall_monitor_new(recording, options->wall_interval_ns) : NULL;
  monitors->cpu_time = cpu_time_monitor_new(recording);
  monitors->usage = usage_monitor_new(recording);
  monitors->code_names = code_names_new(recording);
  monitors->note = options->stalls.note;
  bool from_outside = load_relaxed(&recording->control->from_outside);
  monitors->due_ns = os_monotonic_ns() + (from_outside ? 0 : DELAY_NS);
}

void monitors_begin(const monitors_t *monitors) {
  usage_monitor_begin(monitors->usage);
  cpu_time_monitor_begin(monitors->cpu_time);
}

void monitors_run_wall(const monitors_t *monitors) { wall_monitor_run(monitors->wall); }

void monitors_run(monitors_t *monitors) {
  monitors->due_ns = 0;
  stall_monitor_run(monitors->stall);
  cpu_time_monitor_run(monitors->cpu_time);
  usage_monitor_run(monitors->usage);
  code_names_run(monitors->code_names);
}

uint64_t monitors_run_when_due(monitors_t *monitors, uint64_t limit_ns) {
  if (!monitors->due_ns) return limit_ns;
  uint64_t now = os_monotonic_ns();
  uint64_t left_ns = now < monitors->due_ns ? monitors->due_ns - now : 0;
  if (!left_ns) monitors_run(monitors);
  return left_ns && left_ns < limit_ns ? left_ns : limit_ns;
}

static void end_time(monitors_t *monitors, bool executed) {
  monitors->due_ns = 0;
  usage_monitor_stop(monitors->usage, executed);
  monitors->usage = NULL;
  cpu_time_monitor_stop(monitors->cpu_time, executed);
  monitors->cpu_time = NULL;
}

void monitors_end_time(monitors_t *monitors) { end_time(monitors, false); }

void monitors_leave(monitors_t *monitors) {
  end_time(monitors, true);
  wall_monitor_stop(monitors->wall);
  stall_monitor_leave(monitors->stall);
  code_names_stop(monitors->code_names, NULL);
  *monitors = (monitors_t){0};
}

void monitors_stop(const monitors_t *monitors, int status) {
  wall_monitor_stop(monitors->wall);
  stall_monitor_stop(monitors->stall, status);
  code_names_stop(monitors->code_names, monitors->note);
  if (monitor_thread_problem() && monitors->recording)
    (void)recording_add_marker(monitors->recording, monitor_thread_problem());
}
