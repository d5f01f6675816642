/* SPDX-License-Identifier: MIT
 *
 * The call tree of a program that traces itself, as text: sonde_trace_print.
 */
#ifndef SONDE_SENSOR_TRACE_PRINT_H
#define SONDE_SENSOR_TRACE_PRINT_H

#include <stdint.h>

/* Lines written to FD, or a negative SONDE_E…. */
int trace_print(int fd);

/* The name of the scope with this ADDRESS (public.c); NULL: it is not a scope. */
const char *trace_scope_name(uint64_t address);

#endif
