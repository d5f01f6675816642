/* SPDX-License-Identifier: MIT
 *
 * Replaces single Objective-C methods and restores them.
 *
 * The class itself is changed, so every message to the method reaches the replacement, from any
 * sender. Several replacements of one method may be installed one after the other and restored in
 * any order. The program's Objective-C runtime must be loaded: GNU's libobjc, or Apple's.
 */
#ifndef SONDE_OBJC_H
#define SONDE_OBJC_H

#include "sonde/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sonde_objc_exchange sonde_objc_exchange_t;

/* Replaces METHOD by REPLACEMENT. METHOD is written "-[Class selector:]", or "+[Class selector:]"
 * for a class method. REPLACEMENT takes the object, the selector (SEL), and the method's arguments.
 * Before the first message reaches REPLACEMENT, *ORIGINAL receives the function to call next. Read
 * *ORIGINAL at each call, because it changes when an older replacement is restored. *EXCHANGE
 * receives a handle.
 *
 * Returns SONDE_OK; SONDE_EINVAL if METHOD is malformed or an argument is NULL; SONDE_ENOTFOUND if
 * the class does not exist or only inherits the method (name the class that implements it);
 * SONDE_EUNSUPPORTED without an Objective-C runtime; SONDE_EFULL if 1024 methods are replaced;
 * SONDE_EBUSY inside a function of sonde/hook.h. May be called by any thread, but not in a signal
 * handler or in +load. */
SONDE_API int sonde_objc_exchange(const char *method, void *replacement, void **original,
                                  sonde_objc_exchange_t **exchange);

/* Restores the method, or removes this replacement from the chain of newer ones. Calls in progress
 * continue in the replacement. Returns SONDE_OK; SONDE_ENOTFOUND if EXCHANGE is not installed;
 * SONDE_EBUSY if other code has changed the method since the exchange; the replacement then stays
 * installed. */
SONDE_API int sonde_objc_restore(sonde_objc_exchange_t *exchange);

#ifdef __cplusplus
}
#endif

#endif
