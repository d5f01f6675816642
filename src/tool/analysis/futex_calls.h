/* SPDX-License-Identifier: MIT
 *
 * The functions of C libraries that wait in the system call futex, and what each waits for.
 */
#ifndef SONDE_ANALYSIS_FUTEX_CALLS_H
#define SONDE_ANALYSIS_FUTEX_CALLS_H

typedef struct futex_wait {
  /* how the function's name begins on the stack, without leading underscores; "::…": how it ends */
  const char *symbol;
  /* the public name of the function that the program called; NULL: one of several */
  const char *function;
  /* what it waits for: "a lock" */
  const char *kind;
} futex_wait_t;

/* By the name of a FUNCTION on the stack; NULL: it is none of them. */
const futex_wait_t *futex_wait_of_function(const char *function);

#endif
