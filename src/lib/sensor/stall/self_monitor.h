/* SPDX-License-Identifier: MIT
 *
 * A program that watches the turns it declares by itself, without a recorder: sonde/stall.h.
 *
 * A thread stores the moment its turn began into a place of its own, and 0 when it is over; one
 * thread, which the program has given for it, looks at all places and decides by the rules that the
 * recorder's monitor has as well (stall_rules.h).
 */
#ifndef SONDE_SENSOR_STALL_SELF_MONITOR_H
#define SONDE_SENSOR_STALL_SELF_MONITOR_H

#include "sonde/stall.h"

/* All return SONDE_EUNSUPPORTED while nobody watches. */
int self_monitor_begin(uint32_t limit_ms);
int self_monitor_expect(uint32_t limit_ms);
int self_monitor_end(void);

/* The same of the calling thread's event loop; without effect on a thread that declares its turns.
 */
void self_monitor_loop_begin(void);
void self_monitor_loop_end(void);

int self_monitor_run(uint32_t threshold_ms, sonde_stall_call_t *call, void *context);
void self_monitor_stop(void);

#endif
