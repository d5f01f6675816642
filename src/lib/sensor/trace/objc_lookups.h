/* SPDX-License-Identifier: MIT
 *
 * Objective-C messages. On the GNU runtime the compiler has the runtime look up the method that a
 * message reaches, objc_msg_lookup or objc_msg_lookup_super, and calls what it is given. That is a
 * trampoline for the method (hook/trampoline.h) while calls are traced, so that the end of a
 * message is seen as well, whatever its arguments and results are. On Apple's (apple/messages.c)
 * objc_msgSend and its kin go on in the method themselves; the trampoline stands before them.
 *
 * A method is told by the class that has it and its selector, as "-[Class selector:]", or "+[…" of
 * a class method; a pattern (sensor/trace/imports.h) names it so. A method that stands under
 * several selectors has the name under which it was met first. Not told are messages to nil,
 * methods made at run time (their code lies in no image, and may be another's tomorrow), and calls
 * of a method's address that was got in other ways.
 *
 * A program keeps such an address for as long as it likes: trampolines are never given back, and go
 * straight on while calls are not traced.
 */
#ifndef SONDE_SENSOR_TRACE_OBJC_LOOKUPS_H
#define SONDE_SENSOR_TRACE_OBJC_LOOKUPS_H

#include "hook/filter.h"
#include "record/shm.h"

/* Is NAME a function that looks methods up, and may PATTERN name a method? */
bool objc_lookups_may_match(const char *pattern, const char *name);

/* The replacement for such a function; as hook_filter_t has it. */
void *objc_lookups_replace(const hook_candidate_t *candidate, void ***original);

#endif
