/* SPDX-License-Identifier: MIT
 *
 * What the trampoline's assembly (x86_64/trampoline.S, aarch64/trampoline.S) and the C behind it
 * (hook/trampoline.c) agree on. The story is told in hook/trampoline.h.
 */
#ifndef SONDE_ARCH_TRAMPOLINE_H
#define SONDE_ARCH_TRAMPOLINE_H

#define TRAMPOLINE_COUNT       8192 /* descriptors, and thunks of 16 bytes for them */
#define TRAMPOLINE_THUNK_BYTES 16
#define TRAMPOLINE_SHIFT       5 /* a descriptor has 32 bytes */

/* trampoline_t */
#define TRAMPOLINE_TARGET 0
#define TRAMPOLINE_CALLS  8

/* call_t: its first two words are a frame record, on both machines */
#define CALL_CALLER_FP      0
#define CALL_RETURN_ADDRESS 8
#define CALL_TARGET         16

#ifndef __ASSEMBLER__
#include <stdint.h>

/* Of the assembly: the thunks; where every call through a descriptor in r11 (x86_64) or x17
 * (aarch64) may go; where a function comes back to; where an exception that passes goes. They are
 * places inside sonde_trampoline. */
extern const uint8_t trampoline_thunks[] __attribute__((visibility("hidden")));
extern const uint8_t trampoline_body[] __attribute__((visibility("hidden")));
extern const uint8_t trampoline_return[] __attribute__((visibility("hidden")));
extern const uint8_t trampoline_landing[] __attribute__((visibility("hidden")));

/* Calls RUN(ARGUMENT) and puts every vector, floating-point and mask register back to what it was:
 * for code on a trampoline's path that is not compiled for general registers alone. Takes 100 to
 * 200 ns and, with AVX-512, 2.7 KB of stack. */
void arch_keep_vectors(void (*run)(void *argument), void *argument)
    __attribute__((visibility("hidden")));
#endif

#endif
