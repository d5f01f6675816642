/* SPDX-License-Identifier: MIT
 *
 * Traces every call in a part of this program, with its times, nested as it ran.
 *
 * What is traced: functions compiled with -finstrument-functions (gcc or clang) in a program that
 * is linked with libsonde, and scopes that the source names with sonde_trace_scope. While tracing
 * is off such a function costs about 2 ns more than it did, from a shared library 4; while it is
 * on, about what it takes to read the clock twice. Functions with room for a tracer
 * (-fpatchable-function-entry=5 of both, -fxray-instrument of clang) are made to lead here while
 * tracing is on, in the images that are loaded when it is switched on, and cost nothing before.
 *
 *   sonde_trace_start(0);
 *   … the part …
 *   sonde_trace_stop();
 *   sonde_trace_print(2);                 the call tree, as text, on stderr
 *   sonde_trace_save("part.sonde");       for `sonde report part.sonde trace`
 *
 * start, stop, save and print may be called by any thread, several times; they are not for signal
 * handlers, and not for the child of a fork that was made while tracing was on. Nothing here
 * allocates with malloc or changes errno. A child of fork is not traced until it starts anew.
 *
 * sonde_trace_calls adds what nobody compiled for it: imported functions, Objective-C messages.
 *
 * A program that `sonde record` runs is traced by that command, not by these functions.
 */
#ifndef SONDE_TRACE_H
#define SONDE_TRACE_H

#include <stddef.h>

#include "sonde/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* From now on the calls of all threads are traced, into memory of which the newest LIMIT_BYTES (0:
 * 64 MB; at least 1 MB; the first call settles it) are kept. Calls of earlier parts stay. Returns
 * 0, also when it is on already; SONDE_ENOMEM. */
SONDE_API int sonde_trace_start(size_t limit_bytes);

/* Traces also what images call of one another, and Objective-C messages, as far as PATTERN names
 * them: globs with commas between, "FUNCTION", "LIBRARY:FUNCTION" by the library's file name,
 * "-[Class selector:]", "+[Class selector]"; as `sonde record --trace` has it (docs/hooks.md). Each
 * such call goes through a trampoline from now on, which costs a nanosecond while tracing is off
 * and some 20 while it is on. Not undone; once in a program, and when sonde_trace_start did not
 * come before, the limit is 64 MB. Returns 0; SONDE_EINVAL: too long, or empty; SONDE_EBUSY: there
 * is a pattern, or the program is recorded; SONDE_EUNSUPPORTED; SONDE_ENOMEM. */
SONDE_API int sonde_trace_calls(const char *pattern);

/* No longer. Calls that are open now count as not ended. Returns 0, or SONDE_EINVAL when tracing
 * was never started. */
SONDE_API int sonde_trace_stop(void);

/* Writes what was traced so far to the file PATH, which must not exist. Returns 0; SONDE_EINVAL
 * when tracing was never started; SONDE_EIO; SONDE_ENOMEM. */
SONDE_API int sonde_trace_save(const char *path);

/* Writes the call tree to the descriptor FD: a line a function under its caller, with calls, total
 * time, time less the calls inside, least, mean and worst, the slowest first; what takes less than
 * a ten-thousandth of the whole is left out. Returns the count of lines; SONDE_EINVAL when tracing
 * was never started; SONDE_EIO; SONDE_ENOMEM. */
SONDE_API int sonde_trace_print(int fd);

/* A scope as if it were a function called NAME, which must be a string that stays where it is, such
 * as a literal. Any thread, a signal handler too. Each begin has its end in the same function. */
SONDE_API void sonde_trace_begin(const char *name);
SONDE_API void sonde_trace_end(const char *name);

/* The rest of the block it stands in, in C and C++: sonde_trace_scope("parse header"); */
static inline __attribute__((always_inline, no_instrument_function)) void
sonde_trace_scope_end_(const char **name) {
  sonde_trace_end(*name);
}
#define SONDE_TRACE_JOIN_(a, b)  a##b
#define SONDE_TRACE_LOCAL_(line) SONDE_TRACE_JOIN_(sonde_trace_scope_, line)
#define sonde_trace_scope(name)                                                                    \
  __attribute__((cleanup(sonde_trace_scope_end_), unused)) const char *SONDE_TRACE_LOCAL_(         \
      __LINE__) = (sonde_trace_begin(name), (name))

#ifdef __cplusplus
}
#endif
#endif
