/* SPDX-License-Identifier: MIT
 *
 * The CPU monitor of a program that watches itself, without a recorder: see sonde/cpu.h.
 *
 * One thread, which the program provides, reads the CPU time of all others. cpu/rules.h decides
 * which of them are in an episode. Those are sampled until the episode ends.
 */
#ifndef SONDE_SENSOR_CPU_MONITOR_H
#define SONDE_SENSOR_CPU_MONITOR_H

#include "sonde/cpu.h"

/* As sonde_cpu_monitor and sonde_cpu_monitor_stop. */
int cpu_self_monitor_run(uint32_t percent, uint32_t seconds, sonde_cpu_call_t *call, void *context);
void cpu_self_monitor_stop(void);

#endif
