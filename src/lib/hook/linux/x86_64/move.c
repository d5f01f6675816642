/* SPDX-License-Identifier: MIT
 *
 * Moving of entries on x86_64. A jump has five bytes: `e9` and a distance.
 *
 * Functions of hand-written assembly may take arguments in any register, and one of them must not
 * be rbp, which points to the call_t while a target runs. So a function is refused that uses rbp in
 * any way before it saves it. The same applies to a function that reads its return address, as
 * setjmp does: it would find the trampoline's.
 */
#include "hook/move.h"

#include <string.h>

#include "arch/patch.h"
#include "arch/trampoline.h"
#include "base/bits.h"
#include "unwind/infer/decode_x86_64.h"

#define JUMP_BYTES    5u
#define CODE(address) ((const uint8_t *)(uintptr_t)(address))

static bool decode(uint64_t at, uint64_t end, x86_insn_t *insn) {
  uint64_t left = end - at;
  return at < end &&
         x86_decode(CODE(at), left < X86_INSN_BYTES ? (unsigned)left : X86_INSN_BYTES, insn);
}

/* ---- jumps ---------------------------------------------------------------------------------- */

typedef enum branch { BRANCH_NONE, BRANCH_JUMP, BRANCH_IF, BRANCH_LOOP, BRANCH_CALL } branch_t;

/* A branch whose target the instruction contains. */
static branch_t branch_of(const x86_insn_t *insn) {
  uint8_t opcode = insn->opcode;
  if (insn->is_vector) return BRANCH_NONE;
  if (insn->map == X86_MAP_0F) return (opcode & 0xf0) == 0x80 ? BRANCH_IF : BRANCH_NONE;
  if (insn->map != X86_MAP_ONE_BYTE) return BRANCH_NONE;
  if (opcode == 0xe9 || opcode == 0xeb) return BRANCH_JUMP;
  if ((opcode & 0xf0) == 0x70) return BRANCH_IF;
  if (opcode >= 0xe0 && opcode <= 0xe3) return BRANCH_LOOP;
  if (opcode == 0xc7 && insn->mod == 3 && (insn->reg & 7) == 7) return BRANCH_LOOP; /* xbegin */
  return opcode == 0xe8 ? BRANCH_CALL : BRANCH_NONE;
}

static uint64_t target_of(uint64_t at, const x86_insn_t *insn) {
  return at + insn->length + (uint64_t)insn->immediate;
}

bool move_scan(uint64_t start, uint64_t end, const move_map_t *map) {
  x86_insn_t insn;
  for (uint64_t at = start; at < end; at += insn.length) {
    if (!decode(at, end, &insn)) return false;
    branch_t branch = branch_of(&insn);
    if (branch == BRANCH_NONE) continue;
    uint64_t to = target_of(at, &insn);
    bool leaves = to < start || to >= end;
    /* A jump to another function's start is a tail call, and a call to any start is a call. */
    if (branch != BRANCH_CALL || (!leaves && to != start)) move_map_set(map, map->into, to);
    if (leaves && branch != BRANCH_CALL && branch != BRANCH_JUMP)
      move_map_set(map, map->by_branch, to);
  }
  return true;
}

/* ---- the convention ------------------------------------------------------------------------- */

/* Operations whose `reg` is part of the opcode. */
static bool is_group(const x86_insn_t *insn) {
  switch (insn->opcode) {
  case 0x80:
  case 0x81:
  case 0x83:
  case 0x8f:
  case 0xc0:
  case 0xc1:
  case 0xc6:
  case 0xc7:
  case 0xd0:
  case 0xd1:
  case 0xd2:
  case 0xd3:
  case 0xf6:
  case 0xf7:
  case 0xfe:
  case 0xff: return true;
  default: return false;
  }
}

static bool has_byte_operands(const x86_insn_t *insn) {
  uint8_t opcode = insn->opcode;
  if (insn->map == X86_MAP_0F) return (opcode & 0xf0) == 0x90 || opcode == 0xb0 || opcode == 0xc0;
  return (opcode < 0x40 && !(opcode & 1)) || opcode == 0x80 || opcode == 0x84 || opcode == 0x86 ||
         opcode == 0x88 || opcode == 0x8a || opcode == 0xc0 || opcode == 0xc6 || opcode == 0xd0 ||
         opcode == 0xd2 || opcode == 0xf6 || opcode == 0xfe;
}

/* True if the register fields of INSN, which has ModRM, are general registers. */
static bool has_general_operands(const x86_insn_t *insn) {
  uint8_t opcode = insn->opcode;
  switch (insn->map) {
  case X86_MAP_ONE_BYTE: return opcode < 0xd8 ? opcode != 0x8c && opcode != 0x8e : opcode > 0xdf;
  case X86_MAP_0F:
    return !insn->is_vector &&
           ((opcode & 0xf0) == 0x40 || (opcode & 0xf0) == 0x90 || opcode == 0xaf ||
            (opcode >= 0xa3 && opcode <= 0xa5) || (opcode >= 0xab && opcode <= 0xad) ||
            (opcode >= 0xb0 && opcode <= 0xc1) || opcode == 0x00 || opcode == 0x01);
  case X86_MAP_0F38: return opcode >= 0xf0;
  default: return opcode == 0xf0;
  }
}

static bool uses_in_modrm(const x86_insn_t *insn, uint8_t number) {
  if (insn->mod != 3 && (insn->base == number || insn->index == number)) return true;
  if (!has_general_operands(insn) || (has_byte_operands(insn) && !insn->has_rex)) return false;
  if (insn->mod == 3 && insn->rm == number) return true;
  bool reg_is_opcode = insn->map == X86_MAP_ONE_BYTE
                           ? is_group(insn)
                           : (insn->opcode & 0xf0) == 0x90 || insn->opcode == 0xba;
  if (!reg_is_opcode && insn->reg == number) return true;
  return insn->is_vector && insn->vvvv == number;
}

/* True if INSN names the register NUMBER, other than to push or pop it. */
static bool uses(const x86_insn_t *insn, uint8_t number) {
  uint8_t opcode = insn->opcode;
  if (insn->map == X86_MAP_0F && opcode >= 0x0d && opcode <= 0x1f) return false; /* NOPs, vectors */
  if (insn->has_modrm) return uses_in_modrm(insn, number);
  if (insn->map == X86_MAP_0F)
    return opcode >= 0xc8 && opcode <= 0xcf && insn->rm == number; /* bswap */
  if (insn->map != X86_MAP_ONE_BYTE) return false;
  if ((opcode >= 0x91 && opcode <= 0x97) || (opcode >= 0xb8 && opcode <= 0xbf))
    return insn->rm == number;
  return opcode >= 0xb0 && opcode <= 0xb7 && insn->has_rex && insn->rm == number;
}

static bool is_push(const x86_insn_t *insn) {
  return insn->map == X86_MAP_ONE_BYTE && insn->opcode >= 0x50 && insn->opcode <= 0x57;
}
static bool is_pop(const x86_insn_t *insn) {
  return insn->map == X86_MAP_ONE_BYTE && insn->opcode >= 0x58 && insn->opcode <= 0x5f;
}
static bool is_enter_or_leave(const x86_insn_t *insn) {
  return insn->map == X86_MAP_ONE_BYTE && (insn->opcode == 0xc8 || insn->opcode == 0xc9);
}

/* push %rbp; or mov %rbp to the stack. */
static bool saves_rbp(const x86_insn_t *insn) {
  if (is_push(insn)) return insn->rm == X86_BP;
  return insn->map == X86_MAP_ONE_BYTE && insn->opcode == 0x89 && insn->wide &&
         insn->reg == X86_BP && insn->mod != 3 && insn->base == X86_SP;
}

/* From the start to the first instruction that saves rbp, none uses it. */
static bool keeps_rbp(uint64_t at, uint64_t end) {
  x86_insn_t insn;
  for (; at < end && decode(at, end, &insn) && !saves_rbp(&insn); at += insn.length)
    if (uses(&insn, X86_BP) || is_enter_or_leave(&insn) || (is_pop(&insn) && insn.rm == X86_BP))
      return false;
  return true;
}

static bool writes_sp(const x86_insn_t *insn) {
  return is_push(insn) || (x86_written(insn) & 1u << X86_SP) ||
         (insn->map == X86_MAP_ONE_BYTE && (insn->opcode == 0x68 || insn->opcode == 0x6a));
}

static bool ends_block(const x86_insn_t *insn) {
  if (insn->is_vector || insn->map != X86_MAP_ONE_BYTE)
    return insn->map == X86_MAP_0F && insn->opcode == 0x0b;
  return insn->opcode == 0xc3 || insn->opcode == 0xc2 || insn->opcode == 0xe9 ||
         insn->opcode == 0xeb || (insn->opcode == 0xff && (insn->reg & 6) == 4);
}

/* Before the stack pointer changes, no instruction reads or takes away the return address. A
 * function that takes the address of its stack arguments has lea 8(%rsp). */
static bool leaves_return_address(uint64_t at, uint64_t end) {
  x86_insn_t insn;
  for (; at < end && decode(at, end, &insn) && !ends_block(&insn); at += insn.length) {
    bool is_there = insn.has_modrm && insn.mod != 3 && insn.base == X86_SP &&
                    insn.index == X86_NO_REGISTER && insn.displacement == 0;
    /* or $0, (%rsp) probes the stack. */
    if (is_pop(&insn) || (is_there && insn.opcode != 0x83)) return false;
    if (writes_sp(&insn) || branch_of(&insn) == BRANCH_CALL) return true;
  }
  return true;
}

/* ---- looking -------------------------------------------------------------------------------- */

/* An instruction that must stay where it is. */
static bool must_stay(uint64_t at, const x86_insn_t *insn) {
  const uint8_t *code = CODE(at);
  for (uint32_t i = 0; i < insn->length && (code[i] == 0x67 || code[i] == 0x66); i++)
    if (code[i] == 0x67) return true; /* 32-bit addresses, also relative to the pc */
  if (branch_of(insn) == BRANCH_LOOP) return true;
  if (insn->is_vector) return false;
  if (insn->map == X86_MAP_0F) return insn->opcode == 0x05 || insn->opcode == 0x34;
  if (insn->map != X86_MAP_ONE_BYTE) return false;
  /* breakpoints, traps, returns from interrupts, far calls */
  return insn->opcode == 0xcc || insn->opcode == 0xcd || insn->opcode == 0xcf ||
         insn->opcode == 0xf1 || (insn->opcode == 0xff && (insn->reg & 7) == 3);
}

static bool is_indirect_call(const x86_insn_t *insn) {
  return !insn->is_vector && insn->map == X86_MAP_ONE_BYTE && insn->opcode == 0xff &&
         (insn->reg & 7) == 2;
}

/* Between functions assemblers write NOPs, linkers write int3 or zeros. */
static bool is_padding(uint64_t at, uint64_t end) {
  while (at < end) {
    uint32_t nop = *CODE(at) == 0xcc || *CODE(at) == 0 ? 1 : patch_nop_bytes(CODE(at));
    if (!nop) return false;
    at += nop;
  }
  return true;
}

static bool is_entered(uint64_t place, uint64_t start, const move_map_t *map) {
  if (place != start && move_map_has(map, map->into, place)) return true;
  for (uint64_t at = place + 1; at < place + JUMP_BYTES; at++)
    if (move_map_has(map, map->into, at)) return true;
  return false;
}

/* True if the function jumps back to its own start, as a loop or a tail call of itself. */
static bool repeats(uint64_t start, uint64_t end, uint64_t place) {
  x86_insn_t insn;
  for (uint64_t at = start; at < end && decode(at, end, &insn); at += insn.length) {
    branch_t branch = branch_of(&insn);
    if (branch == BRANCH_NONE || branch == BRANCH_CALL) continue;
    uint64_t to = target_of(at, &insn);
    if (to == start || to == place) return true;
  }
  return false;
}

bool move_is_stub(uint64_t start) {
  const uint8_t *code = CODE(start + patch_mark_bytes(CODE(start)));
  if (*code == 0xf2) code++; /* bnd */
  return code[0] == 0xff && code[1] == 0x25;
}

static move_fault_t collect(uint64_t end, moved_t *out) {
  x86_insn_t insn;
  uint64_t at = out->place;
  for (; at < end && at - out->place < JUMP_BYTES; at += insn.length) {
    if (!decode(at, end, &insn) || must_stay(at, &insn)) return MOVE_INSTRUCTION;
    out->from[out->count++] = (uint8_t)(at - out->place);
    bool calls = is_indirect_call(&insn) || branch_of(&insn) == BRANCH_CALL;
    if (calls && at + insn.length - out->place < JUMP_BYTES) return MOVE_INSTRUCTION;
  }
  out->bytes = (uint8_t)(at - out->place);
  return out->bytes >= JUMP_BYTES || ends_block(&insn) ? MOVE_OK : MOVE_SHORT;
}

uint64_t move_leads_out(uint64_t place, const move_map_t *map) {
  x86_insn_t insn;
  if (!x86_decode(CODE(place), JUMP_BYTES, &insn) || branch_of(&insn) != BRANCH_JUMP) return 0;
  uint64_t to = target_of(place, &insn);
  return to < map->low || to >= map->high ? to : 0;
}

move_fault_t move_look(uint64_t start, uint64_t end, uint64_t limit, const move_map_t *map,
                       moved_t *out) {
  memset(out, 0, sizeof *out);
  out->place = start + patch_mark_bytes(CODE(start));
  if (out->place >= end) return MOVE_SHORT;
  move_fault_t fault = collect(end, out);
  if (fault) return fault;
  uint64_t changed = out->place + JUMP_BYTES;
  if (changed > end && (changed > limit || !is_padding(end, changed))) return MOVE_SHORT;
  if (is_entered(out->place, start, map) || repeats(start, end, out->place)) return MOVE_TARGET;
  if (!keeps_rbp(out->place, end) || !leaves_return_address(out->place, end))
    return MOVE_CONVENTION;
  return MOVE_OK;
}

/* ---- writing -------------------------------------------------------------------------------- */

typedef struct output {
  uint64_t start;
  uint32_t size;
  bool is_far, is_full;
} output_t;

static void put(output_t *o, const void *bytes, uint32_t count) {
  if (o->size + count > MOVE_STUB_BYTES) {
    o->is_full = true;
    return;
  }
  memcpy((uint8_t *)(uintptr_t)o->start + o->size, bytes, count);
  o->size += count;
}

/* The distance to TO from the end of an instruction whose last BYTES follow. */
static void put_distance(output_t *o, uint64_t to, uint32_t behind) {
  int64_t distance = (int64_t)(to - (o->start + o->size + 4 + behind));
  int32_t value = (int32_t)distance;
  o->is_far |= distance != value;
  put(o, &value, sizeof value);
}

static void put_jump(output_t *o, uint64_t to) {
  put(o, "\xe9", 1);
  put_distance(o, to, 0);
}

/* pushq $low (sign-extended); movl $high, 4(%rsp) */
static void put_push(output_t *o, uint64_t value) {
  uint32_t low = (uint32_t)value, high = (uint32_t)(value >> 32);
  put(o, "\x68", 1);
  put(o, &low, sizeof low);
  put(o, "\xc7\x44\x24\x04", 4);
  put(o, &high, sizeof high);
}

static bool is_relative(const x86_insn_t *insn) {
  return insn->has_modrm && insn->mod == 0 && (insn->rm & 7) == 5;
}

/* A copy of the instruction, with its address relative to the new place. CHANGED: bits to flip in
 * ModRM. */
static void put_copy(output_t *o, uint64_t at, const x86_insn_t *insn, uint8_t flip) {
  uint8_t copy[X86_INSN_BYTES];
  memcpy(copy, CODE(at), insn->length);
  if (flip) copy[insn->displacement_at ? insn->displacement_at - 1u : insn->length - 1u] ^= flip;
  if (!is_relative(insn)) {
    put(o, copy, insn->length);
    return;
  }
  uint32_t behind = insn->length - insn->displacement_at - 4u;
  put(o, copy, insn->displacement_at);
  put_distance(o, at + insn->length + (uint64_t)(int64_t)insn->displacement, behind);
  put(o, copy + insn->length - behind, behind);
}

/* call *operand becomes a push of the return address and jmp *operand: /2 becomes /4. Operands with
 * SIB do not come here. */
static void put_instruction(output_t *o, uint64_t at, const x86_insn_t *insn) {
  uint8_t jcc[2] = {0x0f, (uint8_t)(0x80 | (insn->opcode & 15))};
  switch (branch_of(insn)) {
  case BRANCH_JUMP: put_jump(o, target_of(at, insn)); return;
  case BRANCH_IF:
    put(o, jcc, sizeof jcc);
    put_distance(o, target_of(at, insn), 0);
    return;
  case BRANCH_CALL:
    put_push(o, at + insn->length);
    put_jump(o, target_of(at, insn));
    return;
  default: break;
  }
  if (is_indirect_call(insn)) {
    bool has_sib = insn->mod != 3 && (insn->rm & 7) == 4;
    o->is_full |= has_sib; /* not moved */
    put_push(o, at + insn->length);
    put_copy(o, at, insn, 0x10 ^ 0x20);
    return;
  }
  put_copy(o, at, insn, 0);
}

move_fault_t move_write(moved_t *moved, uint64_t stub, uint64_t word, uint64_t data,
                        uint64_t *target) {
  output_t o = {.start = stub};
  put(&o, "\x41\x53\x49\xbb", 4); /* pushq %r11; movabs $data, %r11 */
  put(&o, &data, sizeof data);
  put(&o, "\xff\x25", 2); /* jmp *word(%rip) */
  put_distance(&o, word, 0);
  put(&o, "\x41\x5b", TRAMPOLINE_POP_BYTES); /* popq %r11 */
  *target = stub + o.size;
  for (uint32_t i = 0; i < moved->count; i++) {
    uint64_t at = moved->place + moved->from[i];
    x86_insn_t insn;
    if (!x86_decode(CODE(at), X86_INSN_BYTES, &insn)) return MOVE_INSTRUCTION;
    moved->to[i] = (uint8_t)(stub + o.size - *target);
    put_instruction(&o, at, &insn);
  }
  moved->size = (uint8_t)(stub + o.size - *target);
  put_jump(&o, moved->place + moved->bytes);
  return o.is_full ? MOVE_INSTRUCTION : o.is_far ? MOVE_FAR : MOVE_OK;
}

uint32_t move_jump(uint64_t place, uint64_t stub, uint8_t *out) {
  int32_t distance = (int32_t)(stub - (place + JUMP_BYTES));
  out[0] = 0xe9;
  memcpy(out + 1, &distance, sizeof distance);
  return JUMP_BYTES;
}
