/* SPDX-License-Identifier: MIT
 *
 * Calls a function on another stack.
 *
 * The two uppermost words of that stack lead a tracer to the one that the thread has left: the
 * stack pointer there, and a mark above it. They are written before the thread changes to the new
 * stack, and the mark is removed after it has left it.
 */
#ifndef SONDE_ARCH_CALL_ON_H
#define SONDE_ARCH_CALL_ON_H

#define CALL_ON_MARK 0x736f6e64655f7370

#ifndef __ASSEMBLER__
/* Calls RUN(argument) with the stack pointer at TOP, a multiple of 16. Unwinders find the caller.
 */
extern __attribute__((visibility("hidden"))) void arch_call_on(void *top, void (*run)(void *),
                                                               void *argument);
#endif

#endif
