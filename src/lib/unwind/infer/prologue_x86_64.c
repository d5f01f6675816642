/* SPDX-License-Identifier: MIT
 *
 * Analyzes x86_64 prologues: how far the frame register is above the stack pointer in a function's
 * body.
 *
 * The unwind information shows where the CFA starts to count from the frame register. The
 * instruction before that place is mov %rsp,%rbp. From there the prologue is decoded: pushes, one
 * or more sub $n,%rsp, and instructions that do not touch the stack pointer. It ends at the first
 * call or jump. The distance is fixed only under two conditions: as many registers are saved at the
 * pc as the prologue pushed, and nothing in the rest of the function moves the stack pointer except
 * push and pop. The rest is searched at every byte. So bytes that only look like such an
 * instruction cause a failure, never a wrong result. A function that pushes no arguments has this
 * distance at each of its calls: its rest is decoded to find that out.
 */
#include <string.h>

#include "unwind/infer/insn.h"
#include "unwind/cfi.h"
#include "unwind/infer/decode_x86_64.h"

#define PROLOGUE_BYTES     192
#define FUNCTION_BYTES_MAX (64u << 10)
#define ROWS_MAX           64

typedef struct insn {
  /* Of a two-byte opcode: the second byte. */
  uint8_t opcode;
  bool two_byte;
  bool has_modrm;
  /* With the bits of REX. */
  uint8_t mod, reg, rm;
  unsigned length;
  int64_t immediate;
} insn_t;

/* Returns the size of the immediate of a one-byte opcode that prologues contain; -1 for other
 * opcodes. */
static int immediate_size(uint8_t opcode, bool wide) {
  switch (opcode) {
  case 0x6b:
  case 0x80:
  case 0x83:
  case 0xc0:
  case 0xc1:
  case 0xc6: return 1;
  case 0x69:
  case 0x81:
  case 0xc7: return 4;
  default: break;
  }
  if (opcode >= 0xb8 && opcode <= 0xbf) return wide ? 8 : 4;
  if (opcode >= 0x50 && opcode <= 0x5f) return 0;
  if (opcode == 0x90 || opcode == 0x99 || opcode == 0x98) return 0;
  if ((opcode < 0x40 && (opcode & 7) < 4) || (opcode >= 0x84 && opcode <= 0x8b) || opcode == 0x8d ||
      opcode == 0x63)
    return 0;
  return -1;
}

static bool has_modrm(uint8_t opcode) {
  return !((opcode >= 0x50 && opcode <= 0x5f) || (opcode >= 0xb8 && opcode <= 0xbf) ||
           opcode == 0x90 || opcode == 0x98 || opcode == 0x99);
}

/* Moves, conversions, logic of SSE, cmov, setcc, movzx: ModRM and nothing after it. */
static bool is_plain_two_byte(uint8_t opcode) {
  return (opcode >= 0x10 && opcode <= 0x17) || (opcode >= 0x1e && opcode <= 0x1f) ||
         (opcode >= 0x28 && opcode <= 0x2f) || (opcode >= 0x40 && opcode <= 0x6f) ||
         opcode == 0x7e || opcode == 0x7f || (opcode >= 0x90 && opcode <= 0x9f) || opcode == 0xaf ||
         (opcode >= 0xb6 && opcode <= 0xb7) || (opcode >= 0xbe && opcode <= 0xbf) ||
         (opcode >= 0xd0);
}

static bool decode_modrm(insn_t *insn, const uint8_t *p, unsigned *at, uint8_t rex) {
  uint8_t modrm = p[(*at)++];
  insn->has_modrm = true;
  insn->mod = modrm >> 6;
  insn->reg = (uint8_t)((modrm >> 3 & 7) | (rex & 4) << 1);
  insn->rm = (uint8_t)((modrm & 7) | (rex & 1) << 3);
  if (insn->mod == 3) return true;
  uint8_t sib = 0;
  if ((modrm & 7) == 4) sib = p[(*at)++];
  if (insn->mod == 1) *at += 1;
  if (insn->mod == 2 || (insn->mod == 0 && (modrm & 7) == 5)) *at += 4;
  if (insn->mod == 0 && (modrm & 7) == 4 && (sib & 7) == 5) *at += 4;
  return true;
}

static int64_t immediate_of(const uint8_t *p, int size) {
  int32_t wide;
  if (size == 1) return (int8_t)p[0];
  if (size < 4) return 0;
  memcpy(&wide, p, 4);
  return wide;
}

/* Decodes the instruction at P, which has at least 20 readable bytes. Returns false if it is
 * unknown. */
static bool decode(const uint8_t *p, insn_t *insn) {
  unsigned at = 0;
  uint8_t rex = 0;
  memset(insn, 0, sizeof *insn);
  while (p[at] == 0x66 || p[at] == 0xf2 || p[at] == 0xf3 || p[at] == 0x64)
    if (++at > 4) return false;
  if ((p[at] & 0xf0) == 0x40) rex = p[at++];
  if (p[at] == 0x0f) {
    insn->two_byte = true;
    insn->opcode = p[at + 1];
    at += 2;
    bool shuffles = (insn->opcode >= 0x70 && insn->opcode <= 0x73) || insn->opcode == 0xc6;
    if (!is_plain_two_byte(insn->opcode) && !shuffles) return false;
    decode_modrm(insn, p, &at, rex);
    /* Their immediate. */
    at += shuffles;
    insn->length = at;
    return true;
  }
  insn->opcode = p[at++];
  int size = immediate_size(insn->opcode, rex & 8);
  if (size < 0) return false;
  if (has_modrm(insn->opcode))
    decode_modrm(insn, p, &at, rex);
  else
    insn->rm = (uint8_t)((insn->opcode & 7) | (rex & 1) << 3);
  insn->immediate = immediate_of(p + at, size);
  insn->length = at + (unsigned)size;
  return true;
}

enum { RSP = 4, RBP = 5 };

static bool is_push(const insn_t *i) { return !i->two_byte && (i->opcode & 0xf8) == 0x50; }
static bool is_pop(const insn_t *i) { return !i->two_byte && (i->opcode & 0xf8) == 0x58; }

/* sub $n,%rsp, or add $-n,%rsp */
static bool lowers_stack(const insn_t *i, uint64_t *bytes) {
  if (i->two_byte || (i->opcode != 0x81 && i->opcode != 0x83) || i->mod != 3 || i->rm != RSP)
    return false;
  int64_t n = (i->reg & 7) == 5 ? i->immediate : (i->reg & 7) == 0 ? -i->immediate : -1;
  if (n <= 0) return false;
  *bytes += (uint64_t)n;
  return true;
}

/* True if the instruction could write to the stack pointer or the frame register. */
static bool touches(const insn_t *i) {
  if (i->two_byte || !i->has_modrm) return false;
  bool reg_is = i->reg == RSP || i->reg == RBP, rm_is = i->rm == RSP || i->rm == RBP;
  bool loads = i->opcode == 0x8d || i->opcode == 0x63 || i->opcode == 0x69 || i->opcode == 0x6b ||
               (i->opcode & 2);
  bool by_immediate = i->opcode == 0x80 || i->opcode == 0x81 || i->opcode == 0x83 ||
                      i->opcode == 0xc0 || i->opcode == 0xc1 || i->opcode == 0xc6 ||
                      i->opcode == 0xc7;
  bool compares = i->opcode == 0x84 || i->opcode == 0x85 || (i->opcode >= 0x38 && i->opcode < 0x3c);
  if (compares) return false;
  if (by_immediate) return i->mod == 3 && rm_is;
  return (i->mod == 3 && rm_is) || (loads && reg_is);
}

/* Decodes the prologue in P, from after the mov: the bytes it allocates, the number of registers it
 * pushes, and where it ends. */
static bool read_prologue(const uint8_t *p, uint64_t size, uint64_t *bytes, int *pushes,
                          uint64_t *end) {
  uint64_t at = 0;
  *bytes = 0;
  *pushes = 0;
  while (at + 20 <= size) {
    insn_t i;
    if (!decode(p + at, &i)) break;
    if (is_pop(&i)) return false;
    if (is_push(&i)) {
      *bytes += 8;
      ++*pushes;
    } else if (!lowers_stack(&i, bytes) && touches(&i))
      return false;
    at += i.length;
  }
  *end = at;
  return true;
}

/* True if P could be the start of an instruction that moves the stack pointer, except by push, pop,
 * call and leave. lea n(%rbp),%rsp restores it in epilogues and does not count. */
static bool may_move_stack(const uint8_t *p) {
  /* All of them have REX.W. */
  if ((p[0] & 0xf8) != 0x48) return false;
  uint8_t mod = p[2] >> 6, reg = p[2] >> 3 & 7, rm = p[2] & 7;
  bool to_rm = mod == 3 && rm == RSP && !(p[0] & 1), to_reg = reg == RSP && !(p[0] & 4);
  switch (p[1]) {
  case 0x29:
  case 0x89:
  case 0x21:
  case 0x01:
  case 0x87: return to_rm;
  case 0x2b:
  case 0x8b:
  case 0x23:
  case 0x03: return to_reg;
  case 0x8d: return to_reg && !(mod != 0 && rm == RBP);
  case 0x81:
  case 0x83: return to_rm && (reg == 5 || reg == 4); /* sub, and */
  default: return false;
  }
}

static bool is_frame_mov(const uint8_t *p) {
  return p[0] == 0x48 && ((p[1] == 0x89 && p[2] == 0xe5) || (p[1] == 0x8b && p[2] == 0xec));
}

/* Finds the start of the first row whose CFA counts from the frame register. */
static bool find_takeover(const insn_code_t *code, insn_range_t function, uint64_t *address) {
  uint64_t pc = function.start;
  for (int i = 0; i < ROWS_MAX && pc < function.end; i++) {
    cfi_row_t row;
    uint64_t slide;
    if (!insn_find_row(code, pc, &slide, &row)) return false;
    if (!row.cfa_is_expression && row.cfa_register == X86_64_RBP) {
      uint8_t before[3];
      *address = pc;
      return pc - function.start >= 3 && insn_read(code, pc - 3, before, 3) && is_frame_mov(before);
    }
    if (row.row_end + slide <= pc) return false;
    pc = row.row_end + slide;
  }
  return false;
}

/* Counts the registers that the row at PC has saved, without the frame register and the return
 * address. */
static int saved_registers(const insn_code_t *code, uint64_t pc) {
  cfi_row_t row;
  uint64_t slide;
  int count = 0;
  if (!insn_find_row(code, pc, &slide, &row)) return -1;
  for (int n = 0; n < X86_64_RA; n++)
    count += n != X86_64_RBP && row.rules[n].how == CFI_OFFSET;
  return count;
}

typedef struct prologue {
  /* After the mov that sets the frame register. */
  uint64_t start;
  /* From there on: the bytes of the function, and of its prologue. */
  uint64_t size, length;
  /* What it allocates, with the registers that it pushes. */
  uint64_t bytes;
  int pushes;
} prologue_t;

static bool find_prologue(const insn_code_t *code, insn_range_t function, prologue_t *prologue) {
  uint8_t p[PROLOGUE_BYTES + 24];
  if (code->machine != MACHINE_X86_64 || function.end - function.start > FUNCTION_BYTES_MAX ||
      !find_takeover(code, function, &prologue->start))
    return false;
  prologue->size = function.end - prologue->start;
  memset(p, 0xcc, sizeof p);
  size_t have = prologue->size < PROLOGUE_BYTES ? (size_t)prologue->size : PROLOGUE_BYTES;
  return insn_read(code, prologue->start, p, have) &&
         read_prologue(p, have + 20, &prologue->bytes, &prologue->pushes, &prologue->length);
}

bool insn_fp_distance(const insn_code_t *code, insn_range_t function, uint64_t pc,
                      uint64_t *bytes) {
  uint8_t p[PROLOGUE_BYTES + 24];
  prologue_t prologue;
  if (!find_prologue(code, function, &prologue) || prologue.pushes != saved_registers(code, pc))
    return false;
  *bytes = prologue.bytes;
  for (uint64_t at = prologue.length; at < prologue.size; at += PROLOGUE_BYTES) {
    uint64_t rest = prologue.size - at;
    size_t have = rest < PROLOGUE_BYTES + 4 ? (size_t)rest : PROLOGUE_BYTES + 4;
    memset(p, 0, sizeof p);
    if (!insn_read(code, prologue.start + at, p, have)) return false;
    for (size_t i = 0; i < have && i < PROLOGUE_BYTES; i++)
      if (may_move_stack(p + i) || is_frame_mov(p + i)) return false;
  }
  return true;
}

/* push of a register, a constant, memory or the flags; enter. */
static bool pushes(const x86_insn_t *i) {
  if (i->map == X86_MAP_0F) return i->opcode == 0xa0 || i->opcode == 0xa8;
  if (i->map != X86_MAP_ONE_BYTE || i->is_vector) return false;
  return (i->opcode & 0xf8) == 0x50 || i->opcode == 0x68 || i->opcode == 0x6a ||
         i->opcode == 0x9c || i->opcode == 0xc8 || (i->opcode == 0xff && (i->reg & 7) == 6);
}

bool insn_never_pushes(const insn_code_t *code, insn_range_t function) {
  uint8_t p[PROLOGUE_BYTES + X86_INSN_BYTES];
  prologue_t prologue;
  if (!find_prologue(code, function, &prologue)) return false;
  for (uint64_t at = prologue.length; at < prologue.size;) {
    uint64_t rest = prologue.size - at;
    unsigned have = rest < sizeof p ? (unsigned)rest : (unsigned)sizeof p, done = 0;
    if (!insn_read(code, prologue.start + at, p, have)) return false;
    while (done < have && (done < PROLOGUE_BYTES || have == rest)) {
      x86_insn_t insn;
      if (!x86_decode(p + done, have - done, &insn) || pushes(&insn)) return false;
      done += insn.length;
    }
    at += done;
  }
  return true;
}
