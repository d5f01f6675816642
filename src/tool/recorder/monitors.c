/* SPDX-License-Identifier: MIT */
#include "recorder/monitors.h"

void monitors_start(const monitors_t *how, recording_t *recording, bool stalls, watching_t *out) {
  out->stall = stalls ? stall_monitor_start(recording, &how->stalls) : NULL;
  out->wall = how->wall_ns ? wall_monitor_start(recording, how->wall_ns) : NULL;
}

void monitors_stop(const watching_t *watching, int status) {
  wall_monitor_stop(watching->wall);
  stall_monitor_stop(watching->stall, status);
}
