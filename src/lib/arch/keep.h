/* SPDX-License-Identifier: MIT
 *
 * For code that runs where the program's vector registers hold arguments or results, and is itself
 * compiled for general registers alone (-mgeneral-regs-only): the way to what is not.
 */
#ifndef SONDE_ARCH_KEEP_H
#define SONDE_ARCH_KEEP_H

#include <stdint.h>

/* Calls RUN(a, b, c, d) and brings back all vector, mask and floating-point registers. Some 100 ns,
 * and 3 KB of stack. */
extern __attribute__((visibility("hidden"))) void
arch_call_keeping(uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                  void (*run)(uint64_t, uint64_t, uint64_t, uint64_t));

/* Calls RUN(a), which is known to touch no register of vectors beyond 128 bits, returns what it
 * says, and brings back the vector registers that can hold arguments. Some 3 ns. */
extern __attribute__((visibility("hidden"))) uint64_t arch_ask_keeping(uint64_t a,
                                                                       uint64_t (*run)(uint64_t));

#endif
