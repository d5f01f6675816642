/* SPDX-License-Identifier: MIT
 *
 * Calls from code that must preserve the program's vector registers, which hold arguments or
 * results. Such code is compiled with -mgeneral-regs-only; the functions that it calls here are
 * not.
 */
#ifndef SONDE_ARCH_KEEP_H
#define SONDE_ARCH_KEEP_H

#include <stdint.h>

/* Calls RUN(a, b, c, d) and restores all vector, mask and floating-point registers. Costs about
 * 100 ns and 3 KB of stack. */
extern __attribute__((visibility("hidden"))) void
arch_call_keeping(uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                  void (*run)(uint64_t, uint64_t, uint64_t, uint64_t));

/* Calls RUN(a), returns its result, and restores the vector registers that can hold arguments. RUN
 * must use only the lower 128 bits of vector registers. Costs about 3 ns. */
extern __attribute__((visibility("hidden"))) uint64_t arch_ask_keeping(uint64_t a,
                                                                       uint64_t (*run)(uint64_t));

#define ARCH_VECTOR_WORDS 16u

/* Copies the eight vector registers that hold arguments and results, 128 bits of each. Changes
 * none.
 */
extern __attribute__((visibility("hidden"))) void
arch_read_vectors(uint64_t out[ARCH_VECTOR_WORDS]);

#endif
