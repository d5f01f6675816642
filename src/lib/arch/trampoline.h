/* SPDX-License-Identifier: MIT
 *
 * Constants shared by the trampoline's assembly (x86_64/trampoline.S, aarch64/trampoline.S) and by
 * hook/trampoline.c. hook/trampoline.h describes how a trampoline works.
 */
#ifndef SONDE_ARCH_TRAMPOLINE_H
#define SONDE_ARCH_TRAMPOLINE_H

/* The number of descriptors. Each has a thunk. */
#define TRAMPOLINE_COUNT       16384
#define TRAMPOLINE_THUNK_BYTES 16

/* Log2 of the size of a descriptor. */
#define TRAMPOLINE_SHIFT 5

/* Offsets in trampoline_t. */
#define TRAMPOLINE_TARGET 0
#define TRAMPOLINE_CALLS  8

/* x86_64: the size of the instruction before the target of a moved entry, which pops r11. */
#define TRAMPOLINE_POP_BYTES 2

/* Offsets in call_t. Its first two words are a frame record on both CPUs. */
#define CALL_CALLER_FP      0
#define CALL_RETURN_ADDRESS 8
#define CALL_TRAMPOLINE     16
#define CALL_SP             24
#define CALL_BYTES          64

/* The memory of all calls in progress, in one piece. */
#define CALLS_BYTES (64u << 20)

#ifndef __ASSEMBLER__
#include <stdint.h>

/* Places inside the function sonde_trampoline: its thunks; the entry for a jump with a trampoline_t
 * in r11 (x86_64) or x17 (aarch64); the address that a target returns to; the landing pad of
 * exceptions that pass; the entry of moved functions (hook/entry.h), which on x86_64 have pushed
 * the program's r11. The assembly stores their distances from this table. */
enum {
  TRAMPOLINE_THUNKS,
  TRAMPOLINE_BODY,
  TRAMPOLINE_RETURN,
  TRAMPOLINE_LANDING,
  TRAMPOLINE_MOVED,
  TRAMPOLINE_PLACES
};
extern const int64_t trampoline_offsets[TRAMPOLINE_PLACES] __attribute__((visibility("hidden")));

static inline uint64_t trampoline_address(int number) {
  return (uint64_t)(uintptr_t)trampoline_offsets + (uint64_t)trampoline_offsets[number];
}
#endif

#endif
