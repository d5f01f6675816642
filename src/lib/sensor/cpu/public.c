/* SPDX-License-Identifier: MIT
 *
 * The functions of sonde/cpu.h.
 */
#include "sensor/cpu/monitor.h"

int sonde_cpu_monitor(uint32_t percent, uint32_t seconds, sonde_cpu_call_t *call, void *context) {
  return cpu_self_monitor_run(percent, seconds, call, context);
}

int sonde_cpu_monitor_stop(void) {
  cpu_self_monitor_stop();
  return 0;
}
