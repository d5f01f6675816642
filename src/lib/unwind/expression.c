/* SPDX-License-Identifier: MIT
 *
 * The DWARF expression machine (DWARF 5 section 2.5), as far as call frame information uses it.
 *
 * The stack has 32 entries and an evaluation at most 512 steps; compilers use four entries and
 * about ten steps. All arithmetic is 64-bit modulo 2^64, as for the generic type of the standard.
 */
#include "unwind/cfi.h"
#include "unwind/byte_cursor.h"
#include "sonde/status.h"

#define STACK_MAX 32
#define STEPS_MAX 512

enum {
  OP_addr = 0x03,
  OP_deref = 0x06,
  OP_const1u = 0x08,
  OP_const1s,
  OP_const2u,
  OP_const2s,
  OP_const4u,
  OP_const4s,
  OP_const8u,
  OP_const8s,
  OP_constu,
  OP_consts,
  OP_dup,
  OP_drop,
  OP_over,
  OP_pick,
  OP_swap,
  OP_rot,
  OP_abs = 0x19,
  OP_and,
  OP_div,
  OP_minus,
  OP_mod,
  OP_mul,
  OP_neg,
  OP_not,
  OP_or,
  OP_plus,
  OP_plus_uconst,
  OP_shl,
  OP_shr,
  OP_shra,
  OP_xor,
  OP_bra,
  OP_eq,
  OP_ge,
  OP_gt,
  OP_le,
  OP_lt,
  OP_ne,
  OP_skip,
  OP_lit0 = 0x30,
  OP_lit31 = 0x4f,
  OP_breg0 = 0x70,
  OP_breg31 = 0x8f,
  OP_bregx = 0x92,
  OP_deref_size = 0x94,
  OP_nop = 0x96
};

typedef struct evaluation {
  byte_cursor_t code;
  const uint8_t *start;
  uint64_t stack[STACK_MAX];
  int depth;
  machine_t machine;
  const regs_t *regs;
  memory_t *memory;
  unsigned touched;
  int status;
} evaluation_t;

static void push(evaluation_t *e, uint64_t value) {
  if (e->depth >= STACK_MAX)
    e->status = SONDE_EFORMAT;
  else
    e->stack[e->depth++] = value;
}

static uint64_t pop(evaluation_t *e) {
  if (e->depth == 0) {
    e->status = SONDE_EFORMAT;
    return 0;
  }
  return e->stack[--e->depth];
}

static void push_register(evaluation_t *e, uint64_t n, int64_t offset) {
  bool is_pc = n == (e->machine == MACHINE_X86_64 ? X86_64_RA : AARCH64_PC);
  if (is_pc) {
    push(e, e->regs->pc + (uint64_t)offset);
    return;
  }
  if (n >= REGS_COUNT || !regs_has(e->regs, (int)n)) {
    e->touched |= EXPRESSION_READ_OTHER;
    e->status = n >= REGS_COUNT ? SONDE_EFORMAT : SONDE_ENOTFOUND;
    return;
  }
  if ((int)n != machine_sp(e->machine)) e->touched |= EXPRESSION_READ_OTHER;
  push(e, e->regs->r[n] + (uint64_t)offset);
}

static void dereference(evaluation_t *e, unsigned size) {
  uint64_t address = pop(e), value = 0;
  e->touched |= EXPRESSION_READ_MEMORY;
  if (e->status) return;
  if (size == 0 || size > 8)
    e->status = SONDE_EFORMAT;
  else if (!e->memory || !e->memory->read(e->memory, address, &value, size))
    e->status = SONDE_EFAULT;
  else
    push(e, value);
}

static void pick(evaluation_t *e, unsigned index) {
  if ((int)index >= e->depth)
    e->status = SONDE_EFORMAT;
  else
    push(e, e->stack[e->depth - 1 - (int)index]);
}

static void jump(evaluation_t *e, int16_t distance) {
  int64_t target = (e->code.p - e->start) + distance;
  if (target < 0 || target > e->code.end - e->start)
    e->status = SONDE_EFORMAT;
  else
    e->code.p = e->start + target;
}

/* Operators with two operands; B was on top. */
static void binary(evaluation_t *e, uint8_t op) {
  uint64_t b = pop(e), a = pop(e);
  int64_t sa = (int64_t)a, sb = (int64_t)b;
  if (e->status) return;
  switch (op) {
  case OP_and: push(e, a & b); break;
  case OP_or: push(e, a | b); break;
  case OP_xor: push(e, a ^ b); break;
  case OP_plus: push(e, a + b); break;
  case OP_minus: push(e, a - b); break;
  case OP_mul: push(e, a * b); break;
  case OP_div:
    if (b == 0)
      e->status = SONDE_EFORMAT;
    else
      push(e, sb == -1 ? (uint64_t)0 - a : (uint64_t)(sa / sb));
    break;
  case OP_mod:
    if (b == 0)
      e->status = SONDE_EFORMAT;
    else
      push(e, a % b);
    break;
  case OP_shl: push(e, b < 64 ? a << b : 0); break;
  case OP_shr: push(e, b < 64 ? a >> b : 0); break;
  case OP_shra: push(e, (uint64_t)(sa >> (b < 64 ? b : 63))); break;
  case OP_eq: push(e, a == b); break;
  case OP_ne: push(e, a != b); break;
  case OP_ge: push(e, sa >= sb); break;
  case OP_gt: push(e, sa > sb); break;
  case OP_le: push(e, sa <= sb); break;
  case OP_lt: push(e, sa < sb); break;
  default: e->status = SONDE_EFORMAT;
  }
}

static void rotate(evaluation_t *e) {
  uint64_t a = pop(e), b = pop(e), c = pop(e);
  push(e, a);
  push(e, c);
  push(e, b);
}

static void swap(evaluation_t *e) {
  uint64_t a = pop(e), b = pop(e);
  push(e, a);
  push(e, b);
}

static void step(evaluation_t *e) {
  byte_cursor_t *c = &e->code;
  uint8_t op = byte_cursor_u8(c);
  if (op >= OP_lit0 && op <= OP_lit31) {
    push(e, op - (uint64_t)OP_lit0);
    return;
  }
  if (op >= OP_breg0 && op <= OP_breg31) {
    push_register(e, op - (uint64_t)OP_breg0, byte_cursor_sleb(c));
    return;
  }
  switch (op) {
  case OP_nop: break;
  case OP_addr: push(e, byte_cursor_u64(c)); break;
  case OP_const1u: push(e, byte_cursor_u8(c)); break;
  case OP_const1s: push(e, (uint64_t)(int64_t)(int8_t)byte_cursor_u8(c)); break;
  case OP_const2u: push(e, byte_cursor_u16(c)); break;
  case OP_const2s: push(e, (uint64_t)(int64_t)(int16_t)byte_cursor_u16(c)); break;
  case OP_const4u: push(e, byte_cursor_u32(c)); break;
  case OP_const4s: push(e, (uint64_t)(int64_t)(int32_t)byte_cursor_u32(c)); break;
  case OP_const8u:
  case OP_const8s: push(e, byte_cursor_u64(c)); break;
  case OP_constu: push(e, byte_cursor_uleb(c)); break;
  case OP_consts: push(e, (uint64_t)byte_cursor_sleb(c)); break;
  case OP_dup: pick(e, 0); break;
  case OP_over: pick(e, 1); break;
  case OP_pick: pick(e, byte_cursor_u8(c)); break;
  case OP_drop: pop(e); break;
  case OP_swap: swap(e); break;
  case OP_rot: rotate(e); break;
  case OP_deref: dereference(e, 8); break;
  case OP_deref_size: dereference(e, byte_cursor_u8(c)); break;
  case OP_bregx: {
    uint64_t n = byte_cursor_uleb(c);
    push_register(e, n, byte_cursor_sleb(c));
    break;
  }
  case OP_plus_uconst: {
    uint64_t constant = byte_cursor_uleb(c);
    push(e, pop(e) + constant);
    break;
  }
  case OP_neg: push(e, (uint64_t)0 - pop(e)); break;
  case OP_not: push(e, ~pop(e)); break;
  case OP_abs: {
    uint64_t a = pop(e);
    push(e, (int64_t)a < 0 ? (uint64_t)0 - a : a);
    break;
  }
  case OP_skip: jump(e, (int16_t)byte_cursor_u16(c)); break;
  case OP_bra: {
    int16_t distance = (int16_t)byte_cursor_u16(c);
    if (pop(e)) jump(e, distance);
    break;
  }
  default: binary(e, op);
  }
}

int cfi_evaluate(const uint8_t *expression, uint64_t length, machine_t machine, const regs_t *regs,
                 memory_t *memory, const uint64_t *initial, uint64_t *result, unsigned *touched) {
  evaluation_t e = {.code = {expression, expression + length, false},
                    .start = expression,
                    .machine = machine,
                    .regs = regs,
                    .memory = memory};
  if (initial) push(&e, *initial);
  for (int steps = 0; e.code.p < e.code.end && !e.status; steps++) {
    if (steps == STEPS_MAX) return SONDE_EFORMAT;
    step(&e);
    if (e.code.failed) e.status = SONDE_EFORMAT;
  }
  *result = pop(&e);
  if (touched) *touched = e.touched;
  return e.status;
}
