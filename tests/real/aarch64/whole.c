/* SPDX-License-Identifier: MIT
 *
 * Traces the program it is linked into from before its other constructors until it has run its last
 * destructor, into the file TRACED.
 */
#include <stdlib.h>

#include <sonde/trace.h>

__attribute__((constructor(101))) static void begin(void) {
  if (sonde_trace_start(0) < 0) abort();
}

__attribute__((destructor(101))) static void end(void) {
  if (sonde_trace_stop() < 0 || sonde_trace_save(getenv("TRACED")) < 0) abort();
}
