/* SPDX-License-Identifier: MIT
 *
 * The main run loop of a program on Apple's systems, for its stall monitor.
 */
#ifndef SONDE_SENSOR_STALL_APPLE_RUN_LOOP_H
#define SONDE_SENSOR_STALL_APPLE_RUN_LOOP_H

/* From now on the turns of the main run loop are told to the monitor (sensor/stall/self_monitor.h),
 * if CoreFoundation is loaded. By the thread that watches; and no longer. */
void run_loop_watch(void);
void run_loop_leave(void);

#endif
