/* SPDX-License-Identifier: MIT
 *
 * x86_decode: prefixes, opcode, ModRM, SIB, displacement, immediate, in this order. x86_written
 * follows the opcode maps; it returns rather too many registers than too few.
 */
#include "unwind/infer/decode_x86_64.h"

#include <string.h>

#define BIT(n) (1u << (n))

typedef struct decoder {
  const uint8_t *p;
  unsigned at, size;
  bool failed;
  /* Bit 3 of reg, index and base. */
  uint8_t r, x, b;
} decoder_t;

static uint8_t take(decoder_t *d) {
  if (d->at >= d->size) {
    d->failed = true;
    return 0;
  }
  return d->p[d->at++];
}

static int64_t take_signed(decoder_t *d, unsigned bytes) {
  uint64_t value = 0;
  for (unsigned i = 0; i < bytes; i++)
    value |= (uint64_t)take(d) << 8 * i;
  unsigned shift = 64 - 8 * bytes;
  return bytes ? (int64_t)(value << shift) >> shift : 0;
}

/* ---- prefixes and opcode -------------------------------------------------------------------- */

static bool is_prefix(uint8_t byte) {
  switch (byte) {
  case 0x26:
  case 0x2e:
  case 0x36:
  case 0x3e:
  case 0x64:
  case 0x65:
  case 0x66:
  case 0x67:
  case 0xf0:
  case 0xf2:
  case 0xf3: return true;
  default: return false;
  }
}

static void take_vex(decoder_t *d, x86_insn_t *insn, uint8_t first) {
  static const uint8_t prefixes[4] = {0, 0x66, 0xf3, 0xf2};
  uint8_t byte = take(d), map = 1;
  insn->is_vector = true;
  d->r = (uint8_t)(~byte >> 4 & 8);
  if (first != 0xc5) {
    d->x = (uint8_t)(~byte >> 3 & 8);
    d->b = (uint8_t)(~byte >> 2 & 8);
    map = byte & (first == 0x62 ? 7 : 31);
    byte = take(d);
    insn->wide = byte >> 7;
  }
  insn->vvvv = ~byte >> 3 & 15;
  insn->prefix = prefixes[byte & 3];
  if (first == 0x62) take(d);
  /* Maps 5 and 6 hold arithmetic of half precision. */
  if (map == 5 || map == 6) map -= 4;
  d->failed |= map < 1 || map > 3;
  insn->map = (x86_map_t)map;
  insn->opcode = take(d);
}

static void take_opcode(decoder_t *d, x86_insn_t *insn) {
  uint8_t byte = take(d);
  for (; is_prefix(byte); byte = take(d))
    if (byte == 0x66 || byte == 0xf2 || byte == 0xf3) insn->prefix = byte;
  if (byte == 0xc4 || byte == 0xc5 || byte == 0x62) {
    take_vex(d, insn, byte);
    return;
  }
  if ((byte & 0xf0) == 0x40) {
    insn->has_rex = true;
    insn->wide = byte & 8;
    d->r = (uint8_t)(byte << 1 & 8);
    d->x = (uint8_t)(byte << 2 & 8);
    d->b = (uint8_t)(byte << 3 & 8);
    byte = take(d);
  }
  if (byte == 0x0f) {
    byte = take(d);
    insn->map = byte == 0x38 ? X86_MAP_0F38 : byte == 0x3a ? X86_MAP_0F3A : X86_MAP_0F;
    if (insn->map != X86_MAP_0F) byte = take(d);
  }
  insn->opcode = byte;
}

/* ---- operands ------------------------------------------------------------------------------- */

static bool one_byte_has_modrm(uint8_t opcode) {
  if (opcode < 0x40) return (opcode & 7) < 4;
  return opcode == 0x63 || opcode == 0x69 || opcode == 0x6b || (opcode & 0xf0) == 0x80 ||
         opcode == 0xc0 || opcode == 0xc1 || opcode == 0xc6 || opcode == 0xc7 ||
         (opcode >= 0xd0 && opcode <= 0xd3) || (opcode >= 0xd8 && opcode <= 0xdf) ||
         opcode == 0xf6 || opcode == 0xf7 || opcode >= 0xfe;
}

static bool has_modrm(const x86_insn_t *insn) {
  uint8_t opcode = insn->opcode;
  if (insn->map == X86_MAP_ONE_BYTE) return one_byte_has_modrm(opcode);
  if (insn->map != X86_MAP_0F) return true;
  return !((opcode >= 0x05 && opcode <= 0x0b) || opcode == 0x0e ||
           (opcode >= 0x30 && opcode <= 0x37) || opcode == 0x77 || (opcode & 0xf0) == 0x80 ||
           (opcode >= 0xa0 && opcode <= 0xa2) || (opcode >= 0xa8 && opcode <= 0xaa) ||
           (opcode >= 0xc8 && opcode <= 0xcf)) ||
         (insn->is_vector && opcode != 0x77);
}

static void take_modrm(decoder_t *d, x86_insn_t *insn) {
  uint8_t modrm = take(d), low = modrm & 7;
  insn->has_modrm = true;
  insn->mod = modrm >> 6;
  insn->reg = (uint8_t)((modrm >> 3 & 7) | d->r);
  insn->rm = (uint8_t)(low | d->b);
  if (insn->mod == 3) return;
  insn->base = insn->rm;
  if (low == 4) {
    uint8_t sib = take(d), index = (uint8_t)((sib >> 3 & 7) | d->x);
    low = sib & 7;
    insn->base = (uint8_t)(low | d->b);
    if (index != X86_SP) insn->index = index;
  }
  bool without_base = insn->mod == 0 && low == 5;
  if (without_base) insn->base = X86_NO_REGISTER;
  unsigned bytes = insn->mod == 1 ? 1 : insn->mod == 2 || without_base ? 4 : 0;
  insn->displacement_at = (uint8_t)(bytes ? d->at : 0);
  insn->displacement = (int32_t)take_signed(d, bytes);
}

/* Size of the immediate of a one-byte opcode; -1 if the opcode does not exist. */
static int one_byte_immediate(const x86_insn_t *insn) {
  uint8_t opcode = insn->opcode;
  int full = insn->prefix == 0x66 && !insn->wide ? 2 : 4;
  if (opcode < 0x40) {
    uint8_t low = opcode & 7;
    return low < 4 ? 0 : low == 4 ? 1 : low == 5 ? full : -1;
  }
  if ((opcode >= 0x70 && opcode <= 0x7f) || (opcode >= 0xb0 && opcode <= 0xb7) ||
      (opcode >= 0xe0 && opcode <= 0xe7))
    return 1;
  if (opcode >= 0xb8 && opcode <= 0xbf) return insn->wide ? 8 : full;
  if (opcode >= 0xa0 && opcode <= 0xa3) return 8;
  switch (opcode) {
  case 0x6a:
  case 0x6b:
  case 0x80:
  case 0x83:
  case 0xa8:
  case 0xc0:
  case 0xc1:
  case 0xc6:
  case 0xcd:
  case 0xeb: return 1;
  case 0xc2:
  case 0xca: return 2;
  case 0xc8: return 3;
  case 0x68:
  case 0x69:
  case 0x81:
  case 0xa9:
  case 0xc7: return full;
  case 0xe8:
  case 0xe9: return 4;
  case 0xf6: return (insn->reg & 7) < 2;
  case 0xf7: return (insn->reg & 7) < 2 ? full : 0;
  case 0x60:
  case 0x61:
  case 0x82:
  case 0x9a:
  case 0xce:
  case 0xd4:
  case 0xd5:
  case 0xd6:
  case 0xea: return -1;
  default: return 0;
  }
}

static int immediate_size(const x86_insn_t *insn) {
  uint8_t opcode = insn->opcode;
  switch (insn->map) {
  case X86_MAP_ONE_BYTE: return one_byte_immediate(insn);
  case X86_MAP_0F38: return 0;
  case X86_MAP_0F3A: return 1;
  default: break;
  }
  if ((opcode & 0xf0) == 0x80 && !insn->is_vector) return 4;
  return (opcode >= 0x70 && opcode <= 0x73) || opcode == 0x0f || opcode == 0xa4 || opcode == 0xac ||
         opcode == 0xba || opcode == 0xc2 || (opcode >= 0xc4 && opcode <= 0xc6);
}

bool x86_decode(const uint8_t *p, unsigned size, x86_insn_t *insn) {
  decoder_t d = {.p = p, .size = size < X86_INSN_BYTES ? size : X86_INSN_BYTES};
  memset(insn, 0, sizeof *insn);
  insn->base = insn->index = X86_NO_REGISTER;
  take_opcode(&d, insn);
  if (has_modrm(insn))
    take_modrm(&d, insn);
  else
    insn->rm = (uint8_t)((insn->opcode & 7) | d.b);
  /* The instructions of AMD's XOP share this opcode. */
  if (insn->map == X86_MAP_ONE_BYTE && insn->opcode == 0x8f && insn->reg) return false;
  int bytes = immediate_size(insn);
  if (bytes < 0 || d.failed) return false;
  insn->immediate = take_signed(&d, (unsigned)bytes);
  insn->length = d.at;
  return !d.failed;
}

/* ---- written registers ---------------------------------------------------------------------- */

static uint32_t written_rm(const x86_insn_t *insn) { return insn->mod == 3 ? BIT(insn->rm) : 0; }

/* The registers that hold REGISTERS, operands of 8 bits if IS_BYTE. Without REX, four of these are
 * ah to bh, which are in the first four registers. */
static uint32_t of_bytes(const x86_insn_t *insn, bool is_byte, uint32_t registers) {
  return is_byte && !insn->has_rex ? (registers & 15) | (registers >> 4 & 15) : registers;
}

static uint32_t one_byte_groups(const x86_insn_t *insn) {
  uint8_t operation = insn->reg & 7;
  uint32_t operand = of_bytes(insn, !(insn->opcode & 1), written_rm(insn));
  switch (insn->opcode) {
  case 0x80:
  case 0x81:
  case 0x83: return operation == 7 ? 0 : operand;
  case 0xf6:
  case 0xf7:
    if (operation < 2) return 0;
    if (operation > 3) return BIT(X86_AX) | BIT(X86_DX);
    return operand;
  case 0xff: return operation < 2 ? operand : 0;
  default: return operand;
  }
}

static uint32_t written_by_one_byte(const x86_insn_t *insn) {
  uint8_t opcode = insn->opcode;
  if (opcode < 0x40) {
    if (opcode >= 0x38) return 0;
    if ((opcode & 7) > 3) return BIT(X86_AX);
    uint32_t to = opcode & 2 ? BIT(insn->reg) : written_rm(insn);
    return of_bytes(insn, !(opcode & 1), to);
  }
  if (opcode >= 0x50 && opcode <= 0x57) return 0;
  if (opcode >= 0x90 && opcode <= 0x97) return BIT(X86_AX) | BIT(insn->rm);
  if (opcode >= 0x58 && opcode <= 0x5f) return BIT(insn->rm);
  if (opcode >= 0xb0 && opcode <= 0xbf) return of_bytes(insn, opcode < 0xb8, BIT(insn->rm));
  if ((opcode >= 0xa4 && opcode <= 0xa7) || (opcode >= 0xaa && opcode <= 0xaf) ||
      (opcode >= 0x6c && opcode <= 0x6f))
    return BIT(X86_AX) | BIT(X86_CX) | BIT(X86_SI) | BIT(X86_DI);
  switch (opcode) {
  case 0x84:
  case 0x85:
  case 0x8e: return 0;
  case 0x63:
  case 0x69:
  case 0x6b:
  case 0x8b:
  case 0x8d: return BIT(insn->reg);
  case 0x8a: return of_bytes(insn, true, BIT(insn->reg));
  case 0x8c: return written_rm(insn);
  case 0x86:
  case 0x87: return of_bytes(insn, opcode == 0x86, BIT(insn->reg) | written_rm(insn));
  case 0xe0:
  case 0xe1:
  case 0xe2: return BIT(X86_CX);
  default: break;
  }
  if (opcode >= 0xd8 && opcode <= 0xdf) return opcode == 0xdf ? BIT(X86_AX) : 0; /* x87 */
  if (insn->has_modrm) return one_byte_groups(insn);
  return opcode >= 0x98 ? BIT(X86_AX) | BIT(X86_DX) : 0;
}

static uint32_t written_by_0f(const x86_insn_t *insn) {
  uint8_t opcode = insn->opcode;
  switch (opcode) {
  case 0x02:
  case 0x03:
  case 0x2c:
  case 0x2d:
  case 0x50:
  case 0x78:
  case 0x79:
  case 0xaf:
  case 0xb6:
  case 0xb7:
  case 0xb8:
  case 0xbc:
  case 0xbd:
  case 0xbe:
  case 0xbf:
  case 0xc5:
  case 0xd7: return BIT(insn->reg);
  case 0x7e: return insn->prefix == 0xf3 ? 0 : written_rm(insn);
  case 0x01:
  case 0x31:
  case 0x32:
  case 0x33:
  case 0xa2: return BIT(X86_AX) | BIT(X86_CX) | BIT(X86_DX) | BIT(X86_BX);
  case 0x05: return BIT(X86_AX) | BIT(X86_CX) | BIT(X86_R11);
  case 0x00:
  case 0x20:
  case 0x21:
  case 0xa4:
  case 0xa5:
  case 0xab:
  case 0xac:
  case 0xad:
  case 0xb3:
  case 0xba:
  case 0xbb: return written_rm(insn);
  case 0xb0:
  case 0xb1:
  case 0xc0:
  case 0xc1: return of_bytes(insn, !(opcode & 1), BIT(X86_AX) | BIT(insn->reg) | written_rm(insn));
  case 0xc7: return BIT(X86_AX) | BIT(X86_DX) | written_rm(insn);
  default: break;
  }
  if (insn->is_vector) return opcode == 0x93 ? BIT(insn->reg) : 0; /* kmov */
  if ((opcode & 0xf0) == 0x40) return BIT(insn->reg);
  if ((opcode & 0xf0) == 0x90) return of_bytes(insn, true, written_rm(insn));
  return opcode >= 0xc8 && opcode <= 0xcf ? BIT(insn->rm) : 0; /* bswap */
}

uint32_t x86_written(const x86_insn_t *insn) {
  uint8_t opcode = insn->opcode;
  switch (insn->map) {
  case X86_MAP_ONE_BYTE: return written_by_one_byte(insn);
  case X86_MAP_0F: return written_by_0f(insn);
  case X86_MAP_0F38: return opcode >= 0xf0 ? BIT(insn->reg) | BIT(insn->vvvv) : 0;
  default: break;
  }
  if (opcode >= 0x60 && opcode <= 0x63) return BIT(X86_CX);
  if (opcode >= 0x14 && opcode <= 0x17) return written_rm(insn);
  return opcode == 0xf0 ? BIT(insn->reg) : 0;
}

bool x86_is_plain(const x86_insn_t *insn) {
  uint8_t opcode = insn->opcode;
  if (x86_written(insn) & (BIT(X86_SP) | BIT(X86_BP))) return false;
  if (insn->is_vector) return true;
  if (insn->map == X86_MAP_0F) return (opcode & 0xf0) != 0x80 && opcode != 0x05 && opcode != 0x0b;
  if (insn->map != X86_MAP_ONE_BYTE) return true;
  return (opcode & 0xf0) != 0x50 && (opcode & 0xf0) != 0x70 && opcode != 0x68 && opcode != 0x6a &&
         opcode != 0x8f && opcode != 0x9c && opcode != 0x9d && opcode != 0xc2 && opcode != 0xc3 &&
         (opcode < 0xc8 || opcode > 0xcf) && (opcode & 0xf0) != 0xe0 && opcode != 0xf4 &&
         (opcode != 0xff || (insn->reg & 7) < 2);
}
