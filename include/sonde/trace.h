/* SPDX-License-Identifier: MIT
 *
 * Traces the calls of this program, with their times, nested as they ran.
 *
 *   sonde_trace_start(0);
 *   … the part to trace …
 *   sonde_trace_stop();
 *   sonde_trace_print(2);                 the call tree, as text, to stderr
 *   sonde_trace_save("part.sonde");       for `sonde report part.sonde trace`
 *
 * Traced are
 *   - functions compiled with -finstrument-functions (gcc or clang), in a program linked with
 *     libsonde. While tracing is off, a call of such a function costs about 2 ns more, in a shared
 *     library 4 ns; while tracing is on, about two readings of the clock;
 *   - functions compiled with -fpatchable-function-entry=5 (gcc or clang) or -fxray-instrument
 *     (clang), in images loaded before sonde_trace_start. These functions cost nothing while
 *     tracing is off;
 *   - scopes that the source names with sonde_trace_scope;
 *   - imported functions, functions of unprepared images, and Objective-C messages, that
 *     sonde_trace_calls selects.
 *
 * All threads are traced. Any thread may call these functions. A signal handler may call only the
 * scope functions. None of them allocates with malloc or changes errno. A forked child is not
 * traced until it calls sonde_trace_start. If tracing was on at the fork, the child must not stop,
 * save or print the trace. In a program that `sonde record` runs, `sonde record --trace` traces
 * instead.
 */
#ifndef SONDE_TRACE_H
#define SONDE_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "sonde/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Starts tracing, into memory that keeps the newest LIMIT_BYTES (0: 64 MB; at least 1 MB). The
 * first call sets the limit. Calls traced earlier are kept.
 * Returns 0, also if tracing is on; SONDE_EBUSY if the program is recorded; SONDE_ENOMEM. */
SONDE_API int sonde_trace_start(size_t limit_bytes);

/* Limits what is recorded, from the first sonde_trace_start on: no calls that take less than
 * LEAST_NS, and only the DEPTH outermost levels of calls; 0: no limit. The time of calls that are
 * left out counts as their callers' own. Such calls take no space: a trace then covers more of the
 * run, and its file is smaller. A call that is too deep costs about half as much, a short one no
 * more than without a limit.
 * Returns 0; SONDE_EBUSY if tracing was started before, or the program is recorded. */
SONDE_API int sonde_trace_filter(uint64_t least_ns, uint32_t depth);

/* Adds imported functions, functions and Objective-C messages that match PATTERN: globs separated
 * by commas, as in `sonde record --trace` (docs/tracing.md). Each is
 *   FUNCTION            an imported function; without wildcards also a function of the program
 *   LIBRARY:FUNCTION    a function that is imported from the library with this file name
 *   IMAGE!FUNCTION      a function of this image, whoever calls it; !FUNCTION is one of the program
 *   -[Class selector:]  an Objective-C method; +[Class selector] is one of a class
 *
 * A call of an import or a method then goes through a trampoline. That costs 1 ns while tracing is
 * off, and about 20 ns while it is on. Their hooks stay for good. A function of an image is patched
 * now, if the image is loaded, does not contain libsonde, and the process has one thread.
 * sonde_trace_stop restores its bytes. sonde_trace_start patches it again, if the process has one
 * thread then. Functions that cannot be patched are left alone. On Apple's systems none is patched.
 *
 * One pattern can be set in a program. If this function is called before sonde_trace_start, the
 * limit of sonde_trace_start is 64 MB. Returns 0; SONDE_EINVAL if PATTERN is NULL, empty or longer
 * than 511 bytes; SONDE_EBUSY if a pattern is set, the program is recorded, or no function was
 * patched because other threads run; SONDE_EUNSUPPORTED; SONDE_ENOMEM. */
SONDE_API int sonde_trace_calls(const char *pattern);

/* Returns the number of functions that sonde_trace_calls has patched. Calls VISIT, if it is not
 * NULL, for each reason for which selected functions are not patched, with their number (above 0)
 * and CONTEXT. REASON is a static text, such as "shorter than a jump" (docs/tracing.md, "Any
 * function"). */
SONDE_API int sonde_trace_patched(void (*visit)(int functions, const char *reason, void *context),
                                  void *context);

/* Stops tracing, and restores the code of patched functions byte for byte. Calls that are open are
 * reported as not ended.
 * Returns 0; SONDE_EINVAL if tracing was never started. */
SONDE_API int sonde_trace_stop(void);

/* Writes the trace to the new file PATH.
 * Returns 0; SONDE_EINVAL if tracing was never started; SONDE_EIO, also if the file exists;
 * SONDE_ENOMEM. */
SONDE_API int sonde_trace_save(const char *path);

/* Writes the call tree to the file descriptor FD: a line per function below its caller, with total
 * time, time outside traced callees, calls, and mean, least and worst time; the slowest first.
 * Functions below a ten-thousandth of the total time are omitted.
 * Returns the number of lines; SONDE_EINVAL if tracing was never started; SONDE_EIO;
 * SONDE_ENOMEM. */
SONDE_API int sonde_trace_print(int fd);

/* As sonde_trace_print, of the calls that took at least LEAST_NS, and of the DEPTH outermost levels
 * (0: all, up to 64). The time of other calls counts as their callers' own. No function is omitted
 * for its share of the time. */
SONDE_API int sonde_trace_print_filtered(int fd, uint64_t least_ns, uint32_t depth);

/* Trace a scope like a call of a function NAME. NAME must stay valid and unchanged, such as a
 * string literal: its address identifies the scope. Begin and end must be in the same function. */
SONDE_API void sonde_trace_begin(const char *name);
SONDE_API void sonde_trace_end(const char *name);

/* Traces the rest of the enclosing block, in C and C++: sonde_trace_scope("parse header"); */
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
