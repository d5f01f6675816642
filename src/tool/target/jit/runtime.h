/* SPDX-License-Identifier: MIT
 *
 * Virtual machines that write perf maps, and the switches that make them do it.
 */
#ifndef SONDE_TARGET_JIT_RUNTIME_H
#define SONDE_TARGET_JIT_RUNTIME_H

#include <stdbool.h>

typedef struct jit_runtime {
  /* of the executable; a name that begins so and continues with a digit is meant, too */
  const char *name;
  /* what a user types to get a perf map */
  const char *command;
  /* the environment variable with further options of the virtual machine, and those that it needs;
   * NULL: there is none */
  const char *variable, *options;
  /* the variable has one value: options are not added to it */
  bool is_value;
} jit_runtime_t;

/* The virtual machine whose executable is PATH; NULL: none that is known. */
const jit_runtime_t *jit_runtime_of(const char *path);

/* Adds the options of all of them to the environment. False: out of memory. */
bool jit_runtimes_set(void);

#endif
