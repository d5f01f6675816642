/* SPDX-License-Identifier: MIT
 *
 * The main run loop of a program on Apple's systems, for the program's own monitor.
 */
#ifndef SONDE_SENSOR_STALL_APPLE_RUN_LOOP_H
#define SONDE_SENSOR_STALL_APPLE_RUN_LOOP_H

/* Starts and stops reporting the iterations of the main run loop to the monitor
 * (sensor/stall/self_monitor.h), if CoreFoundation is loaded. Called by the monitor's thread. */
void run_loop_watch(void);
void run_loop_leave(void);

#endif
