/* SPDX-License-Identifier: MIT
 *
 * Traces functions that images import from one another, in a program that was not rebuilt. Each
 * import slot that matches a pattern leads to a trampoline, which reports begin and end of each
 * call to the tracer.
 *
 * A pattern is a list of globs separated by commas: FUNCTION, or LIBRARY:FUNCTION, where LIBRARY is
 * the file name of the defining library without its folder; or a method, as "-[Class selector:]"
 * (sensor/trace/objc_lookups.h).
 *
 * IMAGE!FUNCTION selects the functions of an image itself, whoever calls them: they are patched
 * (sensor/trace/linux/functions.c). IMAGE is the file name of the program or of a library; "" is
 * the program. FUNCTION is a glob for the name of its symbol, or for "+0xOFFSET" if it has none, or
 * ">GLOB" for the last component of a nested C++ name (base/link_name.h). A FUNCTION alone without
 * wildcards also selects a function of the program with that name.
 *
 * If the recorder asks for it, functions that can block are traced besides (wait_names.h), so that
 * the time of the program's functions is told apart from waiting.
 *
 * Calls that use no import slot are not traced: usually those inside the defining library, and
 * those through pointers copied earlier, or taken from a slot that code reads (hook/filter.h).
 * Functions that return twice or never, or inspect their caller, are reported when they are called,
 * without a time (imports_verdict). Functions without a usual calling convention are not hooked.
 */
#ifndef SONDE_SENSOR_TRACE_IMPORTS_H
#define SONDE_SENSOR_TRACE_IMPORTS_H

#include <stdbool.h>
#include <stdint.h>

#include "hook/trampoline.h"
#include "image/list.h"

typedef enum imports_verdict {
  IMPORTS_TIMED,  /* record begin and end */
  IMPORTS_CALLED, /* record the call only */
  IMPORTS_NEVER,
} imports_verdict_t;

/* How to trace a function NAME. */
imports_verdict_t imports_verdict(const char *name);

/* True if a function NAME returns twice: setjmp, vfork, getcontext and their like. */
bool imports_returns_twice(const char *name);

/* True if the function NAME of the library PATH (NULL: any) matches the pattern LIST. */
bool imports_match(const char *list, const char *name, const char *path);

/* True if LIST selects functions of IMAGE to patch; the function NAME of IMAGE. System images are
 * selected only by a glob that does not begin with a wildcard. */
bool imports_select_image(const char *list, const image_entry_t *image);
bool imports_select_code(const char *list, const image_entry_t *image, const char *name);

/* Where the exported functions of an image begin that a list names without wildcards. A function
 * may have several names, of which a stack shows one. */
#define IMPORTS_NAMED_MAX 128u
typedef struct imports_named {
  uint32_t count; /* further ones are selected by the name that a stack shows */
  uint64_t starts[IMPORTS_NAMED_MAX];
} imports_named_t;
void imports_find_named(const char *list, const image_entry_t *image, imports_named_t *out);
bool imports_is_named(const imports_named_t *named, uint64_t start);

/* True if a glob of LIST may match a method. */
bool imports_may_name_methods(const char *list);

/* The calls of a trampoline that report begin and end of each call of its `function`. */
extern HIDDEN const trampoline_handlers_t imports_timed_calls;

/* Those of functions of which only the call is recorded (TRAMPOLINE_ENTRY_ONLY). */
extern HIDDEN const trampoline_handlers_t imports_called_calls;

/* Hooks imports that match the recording's pattern, now and in images loaded later, and counts them
 * in the control block. CAME is as in hook_filter_t; it is called if calls may be traced. Once.
 * Returns 0 or a negative SONDE_E…. */
int imports_start(void (*came)(void *context));

/* True if imports_start has hooked imports, so that CAME is called. */
bool imports_are_followed(void);

/* Undoes imports_start: no slot leads to a trampoline any more. Thunks that the program has copied
 * lead to the functions themselves. */
void imports_stop(void);

#endif
