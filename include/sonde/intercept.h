/* SPDX-License-Identifier: MIT
 *
 * Interception: code of yours runs before and after each call of a function. The function itself is
 * called with every argument and returns every result as without interception; the code before and
 * after can read both.
 *
 *   static void before(sonde_call_t *call, void *context) {
 *     printf("read(%d)\n", (int)sonde_call_argument(call, 0));
 *   }
 *   static void after(sonde_call_t *call, sonde_call_end_t end, void *context) {
 *     if (end == SONDE_CALL_RETURNED) printf("= %ld\n", (long)sonde_call_result(call, 0));
 *   }
 *   …
 *   sonde_intercept_t *handle;
 *   sonde_intercept_request_t request = {.target = "read", .before = before, .after = after};
 *   int functions = sonde_intercept_add(&request, &handle);
 *
 * A target is one of these:
 *
 *   "read"
 *
 * An imported function, by the name that the linker knows. Calls through import slots are
 * intercepted, as with sonde_hook_add (sonde/hook.h), also those of libraries that are loaded
 * later.
 *
 *   "IMAGE!FUNCTION"
 *
 * Functions of an image that is loaded now, whoever calls them: their code is patched (Linux on
 * x86_64 and aarch64). Both parts are globs; IMAGE is the file name of the program or of a library,
 * "" the program. A function without a symbol has its offset as name: "+0x1a2b". An image that is
 * linked with libsonde.a is left out. See docs/tracing.md, "Any function".
 *
 *   "-[Class selector:]" or "+[Class selector:]"
 *
 * An Objective-C method, as in sonde/objc.h. Arguments 0 and 1 are the receiver and the selector.
 *
 * The same function may have several interceptions; the newest runs first. Exceptions, longjmp,
 * pthread_exit, tail calls and coroutines work through an intercepted call.
 *
 * Callbacks run on the thread that makes the call and on its stack, at any place where the function
 * is called: inside malloc, in a signal handler, in the loader. They may use all registers, and up
 * to 3 KB of stack are used before them. They must not throw, longjmp or end the thread, and must
 * not call functions of this header except the sonde_call_… functions. Calls that a callback makes
 * are not intercepted. errno is preserved if they preserve it.
 *
 * Cost: about 0.2 µs for a call with one callback and 0.4 µs with two, since all vector registers
 * are saved around each. A signal handler that interrupts the bookkeeping around a call makes its
 * own calls without interception.
 *
 * Functions that return twice (setjmp, vfork) cannot be targets with `after`. Those that read their
 * return address, or whose caller matters (dlopen, dlsym), must not be. With `before` alone they
 * work.
 */
#ifndef SONDE_INTERCEPT_H
#define SONDE_INTERCEPT_H

#include <stddef.h>
#include <stdint.h>

#include "sonde/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sonde_intercept sonde_intercept_t;

/* A call, during a callback. */
typedef struct sonde_call sonde_call_t;

/* How an intercepted call ended. */
typedef enum sonde_call_end {
  SONDE_CALL_RETURNED,
  SONDE_CALL_TAIL,   /* it tail-called another intercepted function, which returns in its place */
  SONDE_CALL_THROWN, /* left by an exception, pthread_exit or a cancellation */
  SONDE_CALL_LOST,   /* left by longjmp at an unknown earlier time; reported with a later call */
} sonde_call_end_t;

typedef struct sonde_intercept_request {
  /* As above; at most 511 bytes. */
  const char *target;
  /* Called before the function; NULL: not called. */
  void (*before)(sonde_call_t *call, void *context);
  /* Called when the call has ended; NULL: not called, and the function returns directly to its
   * caller. */
  void (*after)(sonde_call_t *call, sonde_call_end_t end, void *context);
  void *context;
} sonde_intercept_request_t;

/* Intercepts the functions that REQUEST names. *INTERCEPT receives the handle. Strings are copied.
 * Any thread, not in a signal handler or callback; takes locks of sonde and the loader. Returns the
 * number of functions intercepted now, at least 1, or
 *   SONDE_EINVAL       an argument is missing, or both callbacks are;
 *   SONDE_ENOTFOUND    no image has such a function or method;
 *   SONDE_EUNSUPPORTED the functions exist and cannot be patched, the CPU keeps a shadow stack, or
 *                      `after` is given and a function returns twice;
 *   SONDE_EBUSY        code would have to be patched, and other threads run;
 *   SONDE_EFULL        255 interceptions exist, or 16,384 targets were named;
 *   SONDE_ENOMEM. */
SONDE_API int sonde_intercept_add(const sonde_intercept_request_t *request,
                                  sonde_intercept_t **intercept);

/* Ends an interception. Slots, methods and code are as before, byte for byte; a function with a
 * newer interception is, once that has ended, too. Calls in progress end without `after`. Callbacks
 * may still run on other threads when this function returns. Same callers as above. Returns
 * SONDE_OK; SONDE_ENOTFOUND if INTERCEPT is none; SONDE_EBUSY if code other than sonde's has
 * changed the function since: then callbacks no longer run, but a jump stays. */
SONDE_API int sonde_intercept_remove(sonde_intercept_t *intercept);

/* ---- in callbacks -------------------------------------------------------------------------- */

/* The address of the function. For "IMAGE!FUNCTION" its first instruction, otherwise the address
 * that the caller used. */
SONDE_API uintptr_t sonde_call_function(const sonde_call_t *call);

/* The address at which the caller continues after the call, also if a newer interception runs
 * first. */
SONDE_API uintptr_t sonde_call_caller(const sonde_call_t *call);

/* The value of the caller's stack pointer when the call has ended, which is where arguments on the
 * stack begin; it identifies the call on its stack. */
SONDE_API uintptr_t sonde_call_stack_pointer(const sonde_call_t *call);

/* Argument NUMBER (from 0) among those that are integers or pointers. The first six (x86_64) or
 * eight (aarch64) are in registers, others on the stack; which ones are there, and results in
 * memory, are as the platform's calling convention says. Only in `before`; 0 in `after`. */
SONDE_API uintptr_t sonde_call_argument(const sonde_call_t *call, unsigned number);

/* Floating-point argument NUMBER, 0 to 7, as double or float; 0 for other numbers. Only in
 * `before`. */
SONDE_API double sonde_call_argument_double(const sonde_call_t *call, unsigned number);
SONDE_API float sonde_call_argument_float(const sonde_call_t *call, unsigned number);

/* Word NUMBER of the arguments on the stack. Only in `before`; the caller knows that it exists. */
SONDE_API uintptr_t sonde_call_stack_word(const sonde_call_t *call, unsigned number);

/* Result register NUMBER: 0 or 1 (rax, rdx; x0, x1). Only in `after` with SONDE_CALL_RETURNED; 0
 * otherwise. */
SONDE_API uintptr_t sonde_call_result(const sonde_call_t *call, unsigned number);

/* Floating-point result register NUMBER, 0 or 1 on x86_64, 0 to 3 on aarch64. As above. A long
 * double of x86_64 is in none of them. */
SONDE_API double sonde_call_result_double(const sonde_call_t *call, unsigned number);
SONDE_API float sonde_call_result_float(const sonde_call_t *call, unsigned number);

/* A word that belongs to this call and interception, from `before` to `after`; initially 0. */
SONDE_API void sonde_call_set_data(sonde_call_t *call, uintptr_t data);
SONDE_API uintptr_t sonde_call_data(const sonde_call_t *call);

#ifdef __cplusplus
}
#endif
#endif
