/* SPDX-License-Identifier: MIT
 *
 * The monitor of a program that watches its own declared iterations, without a recorder: see
 * sonde/stall.h.
 *
 * Each thread stores the start of its iteration into its own entry, and 0 at the end. One thread,
 * which the program provides, polls all entries and decides by the same rules as the recorder's
 * monitor (stall/rules.h). All functions but self_monitor_run may be called by any thread and in
 * signal handlers.
 */
#ifndef SONDE_SENSOR_STALL_SELF_MONITOR_H
#define SONDE_SENSOR_STALL_SELF_MONITOR_H

#include "sensor/stall/stall_label.h"
#include "sonde/stall.h"

/* As sonde_stall_begin, _expect and _end. Return SONDE_EUNSUPPORTED while no monitor runs. */
int self_monitor_begin(uint32_t limit_ms);
int self_monitor_expect(uint32_t limit_ms);
int self_monitor_end(void);

/* An iteration of the calling thread's event loop begins, ends. Without effect in a thread that
 * declares its iterations. */
void self_monitor_loop_begin(void);
void self_monitor_loop_end(void);

/* As sonde_stall_monitor and sonde_stall_monitor_stop. */
int self_monitor_run(uint32_t threshold_ms, sonde_stall_call_t *call, void *context);
void self_monitor_stop(void);

sonde_stall_cause_t stall_cause_of_label(stall_label_t label);

#endif
