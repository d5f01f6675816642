/* SPDX-License-Identifier: MIT
 *
 * Decodes an x86_64 function: how far its frame register is above the stack pointer in its body.
 *
 * The unwind information shows where the CFA starts to count from the frame register. The
 * instruction before that place is mov %rsp,%rbp. From there the function is decoded to its end,
 * which must be the end of an instruction. The prologue pushes the registers that are saved at the
 * pc, and has one or more sub $n,%rsp. It ends at the first call, jump or pop, or at another push.
 * The distance is fixed if nothing after the prologue moves the stack pointer except push and pop.
 * A function that pushes no arguments has this distance at each of its calls.
 */
#include <string.h>

#include "unwind/infer/insn.h"
#include "unwind/cfi.h"
#include "unwind/infer/decode_x86_64.h"

#define CHUNK_BYTES        256
#define FUNCTION_BYTES_MAX (64u << 10)
#define ROWS_MAX           64

static bool is_one_byte(const x86_insn_t *i) { return i->map == X86_MAP_ONE_BYTE && !i->is_vector; }

static bool is_push(const x86_insn_t *i) { return is_one_byte(i) && (i->opcode & 0xf8) == 0x50; }

/* Returns what `sub $n,%rsp` and `add $-n,%rsp` allocate; 0 for others. */
static uint64_t allocated_by(const x86_insn_t *i) {
  if (!is_one_byte(i) || (i->opcode != 0x81 && i->opcode != 0x83) || !i->wide || i->mod != 3 ||
      i->rm != X86_SP)
    return 0;
  int64_t n = i->reg == 5 ? i->immediate : i->reg == 0 ? -i->immediate : 0;
  return n > 0 ? (uint64_t)n : 0;
}

/* push of a register, a constant, memory or the flags; enter. */
static bool pushes(const x86_insn_t *i) {
  if (i->map == X86_MAP_0F) return i->opcode == 0xa0 || i->opcode == 0xa8;
  return is_push(i) ||
         (is_one_byte(i) && (i->opcode == 0x68 || i->opcode == 0x6a || i->opcode == 0x9c ||
                             i->opcode == 0xc8 || (i->opcode == 0xff && (i->reg & 7) == 6)));
}

/* lea n(%rbp),%rsp; add $n,%rsp; pop %rbp */
static bool restores(const x86_insn_t *i) {
  if (!is_one_byte(i)) return false;
  if (i->opcode == 0x8d) return i->reg == X86_SP && i->base == X86_BP;
  if (i->opcode == 0x81 || i->opcode == 0x83)
    return i->mod == 3 && i->rm == X86_SP && i->reg == 0 && i->immediate > 0;
  return (i->opcode & 0xf8) == 0x58 && i->rm == X86_BP;
}

static bool moves_frame(const x86_insn_t *i) {
  return x86_written(i) & (1u << X86_SP | 1u << X86_BP);
}

typedef struct decoded {
  /* Of the pc. */
  cfi_row_t row;
  /* Registers that the prologue has to push yet. */
  int left;
  bool in_body;
  insn_fp_distance_t distance;
} decoded_t;

static bool is_saved(const cfi_row_t *row, int n) {
  return n != X86_64_RBP && row->rules[n].how == CFI_OFFSET;
}

/* True if a push at this place of the prologue saves a register. */
static bool saves(const decoded_t *d) {
  int64_t offset = -(int64_t)d->distance.bytes - 8 - d->row.cfa_offset;
  for (int n = 0; n < X86_64_RA; n++)
    if (is_saved(&d->row, n) && d->row.rules[n].offset == offset) return true;
  return false;
}

/* False: the distance is not fixed. */
static bool decode_insn(decoded_t *d, const x86_insn_t *i) {
  uint64_t bytes = 0;
  if (!d->in_body) {
    bytes = is_push(i) && saves(d) ? 8 : allocated_by(i);
    d->left -= is_push(i) && bytes;
    d->in_body = !bytes && !x86_is_plain(i);
    d->distance.bytes += bytes;
  }
  if (bytes) return true;
  d->distance.varies |= pushes(i);
  return !moves_frame(i) || restores(i);
}

/* Decodes the code from AT to END. */
static bool decode_range(const insn_code_t *code, decoded_t *d, uint64_t at, uint64_t end) {
  uint8_t p[CHUNK_BYTES + X86_INSN_BYTES];
  while (at < end) {
    unsigned have = end - at < sizeof p ? (unsigned)(end - at) : (unsigned)sizeof p, done = 0;
    if (!insn_read(code, at, p, have)) return false;
    while (done < have && (done < CHUNK_BYTES || at + have == end)) {
      x86_insn_t insn;
      if (!x86_decode(p + done, have - done, &insn) || !decode_insn(d, &insn)) return false;
      done += insn.length;
    }
    at += done;
  }
  return true;
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

bool insn_fp_distance(const insn_code_t *code, insn_range_t function, uint64_t pc,
                      insn_fp_distance_t *distance) {
  decoded_t d = {.left = 0};
  uint64_t start, slide;
  if (code->machine != MACHINE_X86_64 || function.end - function.start > FUNCTION_BYTES_MAX ||
      !find_takeover(code, function, &start) || !insn_find_row(code, pc, &slide, &d.row))
    return false;
  for (int n = 0; n < X86_64_RA; n++)
    d.left += is_saved(&d.row, n);
  if (!decode_range(code, &d, start, function.end) || d.left) return false;
  *distance = d.distance;
  return true;
}
