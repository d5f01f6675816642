/* SPDX-License-Identifier: MIT
 *
 * An audit that the program starts and stops itself, in a recording of its own or in the one that
 * exists. Called by one thread at a time.
 */
#ifndef SONDE_SENSOR_AUDIT_START_H
#define SONDE_SENSOR_AUDIT_START_H

#include <stddef.h>

/* As sonde_audit_start and sonde_audit_stop. */
int audit_begin(const void *policy, size_t size, const char *path);
int audit_end(void);

#endif
