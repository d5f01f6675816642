/* SPDX-License-Identifier: MIT
 *
 * What a thread in the system call futex waits for: the function of the C library that the program
 * called is on its stack.
 */
#ifndef SONDE_REPORT_FUTEX_WAIT_H
#define SONDE_REPORT_FUTEX_WAIT_H

#include "report/report.h"

typedef struct futex_wait {
  /* how the function's name begins on the stack, without leading underscores */
  const char *symbol;
  /* the public name of the function that the program called; NULL: one of several */
  const char *function;
  /* what it waits for: "a lock" */
  const char *kind;
} futex_wait_t;

/* By the outermost function of the C library on STACK that waits; NULL: there is none. */
const futex_wait_t *futex_wait_of_stack(const report_t *report, uint32_t stack);

/* What the program called where STACK waits in the system call CALL: "pthread_cond_wait", "usleep".
 * CALL if the stack does not show it. */
const char *wait_called(const report_t *report, uint32_t stack, const char *call);

/* The same by the name of one FUNCTION. */
const futex_wait_t *futex_wait_of_function(const char *function);

#endif
