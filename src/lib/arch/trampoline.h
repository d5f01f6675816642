/* SPDX-License-Identifier: MIT
 *
 * What the trampoline's assembly (x86_64/trampoline.S, aarch64/trampoline.S) and the C behind it
 * (hook/trampoline.c) agree on. The story is told in hook/trampoline.h.
 */
#ifndef SONDE_ARCH_TRAMPOLINE_H
#define SONDE_ARCH_TRAMPOLINE_H

#define TRAMPOLINE_COUNT       16384 /* descriptors, and thunks of 16 bytes for them */
#define TRAMPOLINE_THUNK_BYTES 16
#define TRAMPOLINE_SHIFT       5 /* a descriptor has 32 bytes */

/* trampoline_t */
#define TRAMPOLINE_TARGET 0
#define TRAMPOLINE_CALLS  8

/* call_t: its first two words are a frame record, on both machines */
#define CALL_CALLER_FP      0
#define CALL_RETURN_ADDRESS 8
#define CALL_TRAMPOLINE     16

#ifndef __ASSEMBLER__
#include <stdint.h>

/* Places inside the function sonde_trampoline: its thunks; where a jump with a trampoline_t in r11
 * (x86_64) or x17 (aarch64) may go; where a target comes back to; where an exception that passes
 * goes. The assembly gives their distances from the table. */
enum { TRAMPOLINE_THUNKS, TRAMPOLINE_BODY, TRAMPOLINE_RETURN, TRAMPOLINE_LANDING };
extern const int64_t trampoline_offsets[4] __attribute__((visibility("hidden")));

static inline uint64_t trampoline_address(int number) {
  return (uint64_t)(uintptr_t)trampoline_offsets + (uint64_t)trampoline_offsets[number];
}
#endif

#endif
