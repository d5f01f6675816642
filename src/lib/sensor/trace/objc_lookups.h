/* SPDX-License-Identifier: MIT
 *
 * Tracing of Objective-C messages. With GNU's runtime the compiler calls objc_msg_lookup or
 * objc_msg_lookup_super to look up the method of a message, and then calls the result. While calls
 * are traced the result is a trampoline for the method (hook/trampoline.h), so the end of the call
 * is seen too, whatever its arguments and results are. With Apple's runtime (apple/objc_lookups.c)
 * objc_msgSend and similar functions jump to the method; the trampoline wraps them.
 *
 * A method is recorded by its class and selector, as "-[Class selector:]", or "+[…" for a class
 * method; patterns (sensor/trace/imports.h) use the same form. A method with several selectors
 * keeps the name under which it was first called. Not recorded are messages to nil, methods created
 * at run time (their code is in no image, and may be reused), and calls of method addresses
 * obtained in other ways.
 *
 * A program may keep such an address forever. So trampolines are never freed; while calls are not
 * traced they jump to the method.
 */
#ifndef SONDE_SENSOR_TRACE_OBJC_LOOKUPS_H
#define SONDE_SENSOR_TRACE_OBJC_LOOKUPS_H

#include "hook/filter.h"
#include "record/shm.h"

/* True if NAME is a function that looks up methods, and PATTERN may match a method. */
bool objc_lookups_may_match(const char *pattern, const char *name);

/* The replacement of such a function, as in hook_filter_t. */
void *objc_lookups_replace(const hook_candidate_t *candidate, void ***original);

#endif
