/* SPDX-License-Identifier: MIT
 *
 * Tracing of the functions that images import from one another, in a program that nobody rebuilt:
 * every import slot that matches a pattern leads to a trampoline, which tells the tracer of the
 * start and the end of each call.
 *
 * A pattern is a list of globs, separated by commas: FUNCTION, or LIBRARY:FUNCTION, where LIBRARY
 * is the name of the file that defines the function, without its folder; or a method, as
 * "-[Class selector:]" (sensor/trace/objc_lookups.h).
 *
 * Not traced are calls that pass no slot: within the library that defines the function, as a rule,
 * and through pointers that were copied before. Functions that return twice or never, or look at
 * who calls them, are told of when they are called, with no time (imports_verdict); those that
 * are no functions in the usual sense are left alone.
 */
#ifndef SONDE_SENSOR_TRACE_IMPORTS_H
#define SONDE_SENSOR_TRACE_IMPORTS_H

#include <stdbool.h>
#include <stdint.h>

#include "hook/trampoline.h"

typedef enum imports_verdict {
  IMPORTS_TIMED,  /* start and end */
  IMPORTS_CALLED, /* only that it was called */
  IMPORTS_NEVER,
} imports_verdict_t;

/* What is done with a function of this NAME. */
imports_verdict_t imports_verdict(const char *name);

/* Is the function NAME of the library PATH (NULL: of any) in the LIST of patterns? */
bool imports_match(const char *list, const char *name, const char *path);

/* May a glob of LIST name a method? */
bool imports_may_name_methods(const char *list);

/* What a trampoline calls that tells the tracer of the start and the end of each call of its
 * `function`. */
extern HIDDEN const trampoline_handlers_t imports_timed_calls;

/* Hooks what matches the recording's pattern, now and when images are loaded later; the recording
 * is told how much that is. CAME is called as hook_filter_t has it, while calls are to be traced at
 * all. Once. Returns 0, or a negative SONDE_E…. */
int imports_start(void (*came)(void *context));

/* Has that been done, and is CAME called? */
bool imports_are_followed(void);

#endif
