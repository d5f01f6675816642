/* SPDX-License-Identifier: MIT
 *
 * The registers that unwinding knows, in DWARF numbering, for the architecture of the *target*. For
 * a core file that may differ from this machine's.
 *
 * Numbers: x86_64 psABI figure 3.36 (rax 0 … rsp 7, r8–r15, return address 16); aarch64 DWARF ABI
 * table 4.1 (x0–x30, sp 31, pc 32, RA_SIGN_STATE 34).
 */
#ifndef SONDE_UNWIND_MACHINE_H
#define SONDE_UNWIND_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#define REGS_COUNT 35

typedef enum machine { MACHINE_X86_64, MACHINE_AARCH64 } machine_t;

#if defined(__x86_64__)
#define MACHINE_HERE MACHINE_X86_64
#else
#define MACHINE_HERE MACHINE_AARCH64
#endif

#define X86_64_RBP            6
#define X86_64_RSP            7
#define X86_64_RA             16
#define AARCH64_FP            29
#define AARCH64_LR            30
#define AARCH64_SP            31
#define AARCH64_PC            32
#define AARCH64_RA_SIGN_STATE 34

typedef struct regs {
  uint64_t pc;
  uint64_t r[REGS_COUNT];
  /* Bit n: r[n] holds the register's value in this frame. */
  uint64_t known;
  /* Bit n: no inner frame saved register n, which calls need not preserve; r[n] is its value in the
   * innermost frame. Such a register is not in `known`. */
  uint64_t left;
} regs_t;

static inline int machine_sp(machine_t m) { return m == MACHINE_X86_64 ? X86_64_RSP : AARCH64_SP; }
static inline int machine_fp(machine_t m) { return m == MACHINE_X86_64 ? X86_64_RBP : AARCH64_FP; }
static inline int machine_ra(machine_t m) { return m == MACHINE_X86_64 ? X86_64_RA : AARCH64_LR; }

static inline bool regs_has(const regs_t *regs, int n) {
  return n >= 0 && n < REGS_COUNT && (regs->known >> n & 1);
}
static inline void regs_set(regs_t *regs, int n, uint64_t value) {
  regs->r[n] = value;
  regs->known |= (uint64_t)1 << n;
}
/* True if the register is known or left by an inner frame. */
static inline bool regs_may_have(const regs_t *regs, int n) {
  return n >= 0 && n < REGS_COUNT && ((regs->known | regs->left) >> n & 1);
}
static inline void regs_leave(regs_t *regs, int n, uint64_t value) {
  regs->r[n] = value;
  regs->left |= (uint64_t)1 << n;
}
static inline void regs_forget(regs_t *regs, int n) { regs->known &= ~((uint64_t)1 << n); }

/* Returns a pointer without its signature, which is above all user addresses: they end at bit 47
 * or, with 52-bit addresses, have zeros in bits 55:52 (Arm ARM, "Pointer authentication"). */
static inline uint64_t machine_strip_signature(machine_t machine, uint64_t pointer) {
  return machine == MACHINE_AARCH64 ? pointer & 0x000fffffffffffffull : pointer;
}

/* Returns a frame pointer without the tag of Swift's async frames: bits 63:60 are 1 in a frame
 * pointer that such a frame saved, and 0 otherwise. */
static inline __attribute__((always_inline)) uint64_t machine_untag_fp(uint64_t fp) {
  return __builtin_expect(fp >> 60 == 1, 0) ? fp & ~(UINT64_C(15) << 60) : fp;
}

#endif
