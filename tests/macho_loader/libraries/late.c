/* SPDX-License-Identifier: MIT
 *
 * Loaded while the program runs.
 */
#include <unistd.h>

int late_constructor_pid;

__attribute__((constructor)) static void begin(void) { late_constructor_pid = getpid(); }

int late_call(void);
int late_call(void) { return getpid(); }
