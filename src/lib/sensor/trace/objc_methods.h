/* SPDX-License-Identifier: MIT
 *
 * Methods of Objective-C: a method's name, "-[Class selector:]" or "+[…" of a class method, where
 * Class is the one that has it, on GNU's runtime and on Apple's alike; and GNU's functions that
 * look methods up, which the compiler has the program call for each message.
 */
#ifndef SONDE_SENSOR_TRACE_OBJC_METHODS_H
#define SONDE_SENSOR_TRACE_OBJC_METHODS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bits.h"

#define METHOD_NAME_MAX 1024u

/* Fills in NAME (METHOD_NAME_MAX bytes) for the method METHOD, which a message SELECTOR to an
 * object of CLASS reaches. False: no class has it, the message is forwarded; or it was made at run
 * time, and its code, which lies in no image, may be another's tomorrow (*MADE, which may be NULL).
 */
bool objc_methods_name(uint64_t method, uint64_t class, uint64_t selector, char *name, bool *made);

/* The code that CLASS answers SELECTOR with; 0: none, the message is forwarded. GNU's runtime sends
 * nothing; Apple's may send the class +resolveInstanceMethod:, as it would for the message. */
uint64_t objc_methods_code(uint64_t class, uint64_t selector);

uint64_t objc_methods_superclass(uint64_t class); /* what it inherits from */

/* A function that looks methods up is to be replaced. IS_SUPER: it is objc_msg_lookup_super. */
typedef uint64_t objc_methods_replace_t(uint64_t method, uint64_t class, uint64_t selector);

bool objc_methods_is_lookup(const char *name, bool *is_super);

/* Whether the runtime's own functions were found; to be asked before objc_methods_name. */
bool objc_methods_find_runtime(void);

/* What a replacement of such a function does: asks NEXT, and STAND_IN, which may be NULL, what to
 * give in its place. */
static ALWAYS_INLINE uint64_t objc_methods_lookup(const void *next, const uint64_t *receiver,
                                                  uint64_t selector, bool is_super,
                                                  objc_methods_replace_t *stand_in) {
  uint64_t method = ((uint64_t(*)(const uint64_t *, uint64_t))(uintptr_t)next)(receiver, selector);
  /* An object begins with a pointer to its class; struct objc_super of objc/message.h has the
   * receiver and the class at which the search begins. */
  if (is_super) return receiver[0] && stand_in ? stand_in(method, receiver[1], selector) : method;
  return receiver && stand_in ? stand_in(method, *receiver, selector) : method;
}

#endif
