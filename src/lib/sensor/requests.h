/* SPDX-License-Identifier: MIT
 *
 * Questions of the recorder's that come by signal: what a thread does now (sensor/stall/stall.h),
 * and the memory graph (sensor/leaks/leaks.h). The signal is the same; what is wanted stands in the
 * scratch.
 */
#ifndef SONDE_SENSOR_REQUESTS_H
#define SONDE_SENSOR_REQUESTS_H

#include <stdbool.h>

/* From now on they are answered. False when the program does not let us keep the handler. */
bool requests_start(void);

#endif
