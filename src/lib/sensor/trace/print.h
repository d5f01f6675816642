/* SPDX-License-Identifier: MIT
 *
 * The call tree of a program that traces itself, as text: sonde_trace_print.
 */
#ifndef SONDE_SENSOR_TRACE_PRINT_H
#define SONDE_SENSOR_TRACE_PRINT_H

#include <stdint.h>

/* Which calls are shown. */
typedef struct print_filter {
  uint64_t least_ns; /* shorter calls are not */
  uint32_t depth;    /* deeper calls are not; 0: all are */
  uint32_t share;    /* nor functions with less than 1 / SHARE of the total time; 0: all are */
} print_filter_t;

/* Lines written to FD, or a negative SONDE_E…. */
int trace_print(int fd, const print_filter_t *filter);

/* The name of the scope with this ADDRESS (public.c); NULL: it is not a scope. */
const char *trace_scope_name(uint64_t address);

#endif
