/* SPDX-License-Identifier: MIT
 *
 * Decodes x86_64 instructions (Intel SDM volume 2, chapter 2 and appendix A): their length, their
 * operands, and which general registers they write. VEX and EVEX forms are decoded too.
 */
#ifndef SONDE_UNWIND_INFER_DECODE_X86_64_H
#define SONDE_UNWIND_INFER_DECODE_X86_64_H

#include <stdbool.h>
#include <stdint.h>

/* The longest instruction. */
#define X86_INSN_BYTES 15

/* General registers as instructions number them. */
enum { X86_AX, X86_CX, X86_DX, X86_BX, X86_SP, X86_BP, X86_SI, X86_DI, X86_R11 = 11 };
#define X86_NO_REGISTER 16

typedef enum x86_map { X86_MAP_ONE_BYTE, X86_MAP_0F, X86_MAP_0F38, X86_MAP_0F3A } x86_map_t;

typedef struct x86_insn {
  x86_map_t map;
  uint8_t opcode;
  /* VEX or EVEX. */
  bool is_vector;
  /* The last of the prefixes 66, f2 and f3; 0 if there is none. */
  uint8_t prefix;
  /* REX was present; REX.W. */
  bool has_rex, wide;
  /* With ModRM: the operands. Otherwise `rm` is the register in the opcode. */
  bool has_modrm;
  uint8_t mod, reg, rm;
  /* Of a vector form: its further register operand. */
  uint8_t vvvv;
  /* Of a memory operand; X86_NO_REGISTER if there is none. A base of X86_NO_REGISTER is the next
   * instruction's address or 0. */
  uint8_t base, index;
  int32_t displacement;
  /* Where the displacement is in the instruction; 0: there is none. */
  uint8_t displacement_at;
  /* The immediate, or the distance of a jump. */
  int64_t immediate;
  unsigned length;
} x86_insn_t;

/* Decodes the instruction at P, which has SIZE readable bytes. Returns false if it is unknown or
 * longer. */
bool x86_decode(const uint8_t *p, unsigned size, x86_insn_t *insn);

/* Returns the general registers that INSN may write, as bits; of push, pop, call, ret, enter and
 * leave without the stack pointer. */
uint32_t x86_written(const x86_insn_t *insn);

/* False for push, pop, jumps, calls, returns, leave, and all that goes elsewhere or changes the
 * stack pointer or the frame register. */
bool x86_is_plain(const x86_insn_t *insn);

#endif
