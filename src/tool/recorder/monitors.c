/* SPDX-License-Identifier: MIT */
#include "recorder/monitors.h"

void monitors_start(monitors_t *monitors, recording_t *recording, bool stalls,
                    const monitor_options_t *options) {
  monitors->stall = stalls ? stall_monitor_start(recording, &options->stalls) : NULL;
  monitors->wall =
      options->wall_interval_ns ? wall_monitor_start(recording, options->wall_interval_ns) : NULL;
  monitors->cpu_time = cpu_time_monitor_start(recording);
  monitors->usage = usage_monitor_start(recording);
  monitors->code_names = code_names_start(recording);
  monitors->note = options->stalls.note;
}

void monitors_end_time(monitors_t *monitors) {
  usage_monitor_stop(monitors->usage);
  monitors->usage = NULL;
  cpu_time_monitor_stop(monitors->cpu_time);
  monitors->cpu_time = NULL;
}

void monitors_stop(const monitors_t *monitors, int status) {
  wall_monitor_stop(monitors->wall);
  stall_monitor_stop(monitors->stall, status);
  code_names_stop(monitors->code_names, monitors->note);
}
