/* SPDX-License-Identifier: MIT
 *
 * Single methods of Objective-C, exchanged for functions of yours and put back.
 *
 * What is changed is the class itself, so every message that reaches the method reaches yours, from
 * wherever it is sent. Several may exchange the same method, one after the other, and put it back
 * in any order. The runtime of the program is used, GNU's (gobjc's libobjc); it must be loaded.
 */
#ifndef SONDE_OBJC_H
#define SONDE_OBJC_H

#include "sonde/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sonde_objc_exchange sonde_objc_exchange_t;

/* Exchanges METHOD, written as "-[Class selector:]", or "+[Class selector:]" for a class method,
 * for REPLACEMENT, a function of the same arguments: the object, the selector (SEL), and the
 * method's own. *ORIGINAL gets, before the first message reaches REPLACEMENT, the function to go on
 * with; read it anew at each call, it changes when an exchange behind this one is put back.
 * *EXCHANGE gets a handle.
 *
 * SONDE_EINVAL when METHOD is not so written or an argument is NULL; SONDE_ENOTFOUND when there is
 * no such class, or it does not have the method itself but inherits it (name the class that has
 * it); SONDE_EUNSUPPORTED without an Objective-C runtime; SONDE_EFULL when 1024 methods are
 * exchanged; SONDE_EBUSY inside a function of sonde/hook.h. Any thread; not in a signal handler,
 * nor in +load. */
SONDE_API int sonde_objc_exchange(const char *method, void *replacement, void **original,
                                  sonde_objc_exchange_t **exchange);

/* Puts the method back as it was found, or takes this exchange out of those that were made after
 * it. Calls that are under way go on in the replacement. SONDE_ENOTFOUND when it is no exchange,
 * any more; SONDE_EBUSY when somebody else has changed the method since: then nothing is done, and
 * the exchange stays. */
SONDE_API int sonde_objc_restore(sonde_objc_exchange_t *exchange);

#ifdef __cplusplus
}
#endif

#endif
