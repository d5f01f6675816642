/* SPDX-License-Identifier: MIT
 *
 * Objective-C methods on GNU's and Apple's runtimes: their names, "-[Class selector:]" or "+[…" for
 * a class method, where Class is the class that implements it. Also GNU's look-up functions, which
 * the compiler calls for each message.
 */
#ifndef SONDE_SENSOR_TRACE_OBJC_METHODS_H
#define SONDE_SENSOR_TRACE_OBJC_METHODS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bits.h"

#define METHOD_NAME_MAX 1024u

/* Writes the name of METHOD, which a message SELECTOR to an object of CLASS reaches, to NAME
 * (METHOD_NAME_MAX bytes). False: no class implements it (the message is forwarded), or it was
 * created at run time and its code, which is in no image, may be reused (*MADE, which may be NULL).
 */
bool objc_methods_name(uint64_t method, uint64_t class, uint64_t selector, char *name, bool *made);

/* The code of CLASS's method SELECTOR; 0: none, the message is forwarded. GNU's runtime sends no
 * message; Apple's may send +resolveInstanceMethod: to the class, as for the message itself. */
uint64_t objc_methods_code(uint64_t class, uint64_t selector);

uint64_t objc_methods_superclass(uint64_t class);

/* Returns the address to call instead of METHOD. */
typedef uint64_t objc_methods_replace_t(uint64_t method, uint64_t class, uint64_t selector);

/* True if NAME is a look-up function; IS_SUPER: it is objc_msg_lookup_super. */
bool objc_methods_is_lookup(const char *name, bool *is_super);

/* Finds the runtime's functions; false if there is no runtime. Before objc_methods_name. */
bool objc_methods_find_runtime(void);

/* The body of such a replacement: calls NEXT, the original, then REPLACE, which may be NULL. */
static ALWAYS_INLINE uint64_t objc_methods_lookup(const void *next, const uint64_t *receiver,
                                                  uint64_t selector, bool is_super,
                                                  objc_methods_replace_t *replace) {
  uint64_t method = ((uint64_t(*)(const uint64_t *, uint64_t))(uintptr_t)next)(receiver, selector);
  /* An object begins with a pointer to its class; struct objc_super of objc/message.h has the
   * receiver and the class at which the search begins. */
  if (is_super) return receiver[0] && replace ? replace(method, receiver[1], selector) : method;
  return receiver && replace ? replace(method, *receiver, selector) : method;
}

#endif
