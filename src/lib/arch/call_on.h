/* SPDX-License-Identifier: MIT
 *
 * Calls a function on another stack.
 */
#ifndef SONDE_ARCH_CALL_ON_H
#define SONDE_ARCH_CALL_ON_H

/* Calls RUN(argument) with the stack pointer at TOP, a multiple of 16. Unwinders find the caller.
 */
extern __attribute__((visibility("hidden"))) void arch_call_on(void *top, void (*run)(void *),
                                                               void *argument);

#endif
