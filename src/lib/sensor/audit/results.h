/* SPDX-License-Identifier: MIT
 *
 * What functions of the C library return: which result means that they failed. Audited calls of
 * other functions have no result.
 */
#ifndef SONDE_SENSOR_AUDIT_RESULTS_H
#define SONDE_SENSOR_AUDIT_RESULTS_H

#include <stdint.h>

typedef enum audit_result {
  AUDIT_NO_RESULT,
  AUDIT_INT_RESULT,     /* an int; -1: failed, with errno */
  AUDIT_POINTER_RESULT, /* a pointer; NULL: failed, with errno */
} audit_result_t;

/* Of the function NAME. */
audit_result_t audit_result_of(const char *name);

#endif
