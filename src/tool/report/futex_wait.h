/* SPDX-License-Identifier: MIT
 *
 * What a thread in the system call futex waits for: the function of the C library that the program
 * called is on its stack.
 */
#ifndef SONDE_REPORT_FUTEX_WAIT_H
#define SONDE_REPORT_FUTEX_WAIT_H

#include "analysis/futex_calls.h"
#include "report/report.h"

/* By the outermost function of the C library on STACK that waits; NULL: there is none. */
const futex_wait_t *futex_wait_of_stack(const report_t *report, uint32_t stack);

/* What the program called where STACK waits in the system call CALL: "pthread_cond_wait", "usleep".
 * CALL if the program or a thread of a library made the system call itself, or if it is unknown. */
const char *wait_called(const report_t *report, uint32_t stack, const char *call);

/* Whether STACK shows what was called: it was read, and its innermost frame
 * is in an image or has a name. */
bool wait_is_shown(const report_t *report, uint32_t stack);

#endif
