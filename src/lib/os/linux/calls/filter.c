/* SPDX-License-Identifier: MIT
 *
 * An interpreter of classic BPF as seccomp restricts it (kernel/seccomp.c, seccomp_check_filter;
 * net/core/filter.c, bpf_check_classic and check_load_and_stores).
 *
 * A value is known or unknown. Where a jump depends on an unknown value, both ways are followed and
 * the more severe result counts. Jumps only go forward, so each path ends; their number is bounded
 * by STEPS_MAX.
 */
#include "os/linux/calls/filter.h"

#include <string.h>

#include "base/bits.h"

#define KILL_PROCESS 0x80000000u
#define KILL_THREAD  0u
#define LOG          0x7ffc0000u
#define ALLOW        0x7fff0000u
#define ACTION       0xffff0000u

#define CELLS     BPF_MEMWORDS
#define DATA_SIZE 64u /* struct seccomp_data */

/* Bounds for all paths together, and for branches that wait to be followed. */
#define STEPS_MAX 65536u
#define PATHS_MAX 64u

/* ---- which programs the kernel accepts ---------------------------------------------------- */

static bool code_is_known(uint16_t code) {
  switch (code) {
  case BPF_LD | BPF_W | BPF_ABS:
  case BPF_LD | BPF_W | BPF_LEN:
  case BPF_LDX | BPF_W | BPF_LEN:
  case BPF_LD | BPF_IMM:
  case BPF_LDX | BPF_IMM:
  case BPF_LD | BPF_MEM:
  case BPF_LDX | BPF_MEM:
  case BPF_ST:
  case BPF_STX:
  case BPF_MISC | BPF_TAX:
  case BPF_MISC | BPF_TXA:
  case BPF_RET | BPF_K:
  case BPF_RET | BPF_A:
  case BPF_ALU | BPF_NEG:
  case BPF_JMP | BPF_JA: return true;
  default: break;
  }
  uint16_t operation = BPF_OP(code);
  if (code & ~(uint16_t)0xff) return false;
  if (BPF_CLASS(code) == BPF_ALU) return operation <= BPF_RSH || operation == BPF_XOR;
  return BPF_CLASS(code) == BPF_JMP && operation >= BPF_JEQ && operation <= BPF_JSET;
}

/* The instruction alone; LEFT: the instructions behind it. */
static bool instruction_is_valid(const struct sock_filter *i, uint32_t left) {
  if (!code_is_known(i->code)) return false;
  switch (i->code) {
  case BPF_LD | BPF_W | BPF_ABS: return i->k < DATA_SIZE && i->k % 4 == 0;
  case BPF_LD | BPF_MEM:
  case BPF_LDX | BPF_MEM:
  case BPF_ST:
  case BPF_STX: return i->k < CELLS;
  case BPF_ALU | BPF_DIV | BPF_K: return i->k != 0;
  case BPF_ALU | BPF_LSH | BPF_K:
  case BPF_ALU | BPF_RSH | BPF_K: return i->k < 32;
  case BPF_JMP | BPF_JA: return i->k < left;
  default: return BPF_CLASS(i->code) != BPF_JMP || (i->jt < left && i->jf < left);
  }
}

/* A load from a cell that no path has stored to is refused. The cells that every path to an
 * instruction has stored to, one bit each. */
static bool cells_are_stored(const struct sock_filter *p, uint32_t count) {
  uint16_t stored[BPF_MAXINSNS];
  for (uint32_t i = 0; i < count; i++)
    stored[i] = UINT16_MAX;
  uint16_t now = 0;
  for (uint32_t i = 0; i < count; i++) {
    now &= stored[i];
    switch (p[i].code) {
    case BPF_ST:
    case BPF_STX: now |= (uint16_t)(1u << p[i].k); break;
    case BPF_LD | BPF_MEM:
    case BPF_LDX | BPF_MEM:
      if (!(now >> p[i].k & 1)) return false;
      break;
    case BPF_JMP | BPF_JA:
      stored[i + 1 + p[i].k] &= now;
      now = UINT16_MAX;
      break;
    default:
      if (BPF_CLASS(p[i].code) != BPF_JMP) break;
      stored[i + 1 + p[i].jt] &= now;
      stored[i + 1 + p[i].jf] &= now;
      now = UINT16_MAX;
    }
  }
  return true;
}

bool filter_is_valid(const struct sock_filter *p, uint32_t count) {
  if (count == 0 || count > BPF_MAXINSNS) return false;
  for (uint32_t i = 0; i < count; i++)
    if (!instruction_is_valid(&p[i], count - i - 1)) return false;
  return BPF_CLASS(p[count - 1].code) == BPF_RET && cells_are_stored(p, count);
}

/* ---- one path ------------------------------------------------------------------------------- */

typedef struct value {
  uint32_t bits;
  bool known;
} value_t;

typedef struct path {
  uint32_t at;
  value_t a, x, cells[CELLS];
} path_t;

typedef struct run {
  const struct sock_filter *program;
  uint32_t count;
  const filter_call_t *call;
  uint32_t steps, waiting, verdict;
  path_t paths[PATHS_MAX];
} run_t;

static value_t constant(uint32_t bits) { return (value_t){bits, true}; }

/* The word at OFFSET of struct seccomp_data: number, machine, pc, arguments; low words first. */
static value_t load_word(const filter_call_t *call, uint32_t offset) {
  const value_t unknown = {0, false};
  uint32_t shift = offset % 8 ? 32 : 0;
  if (offset == 0) return constant(call->number);
  if (offset == 4) return constant(call->machine);
  if (offset < 16) return call->pc_unknown ? unknown : constant((uint32_t)(call->pc >> shift));
  uint32_t argument = (offset - 16) / 8;
  if (!(call->known >> argument & 1)) return unknown;
  return constant((uint32_t)(call->arguments[argument] >> shift));
}

/* The kernel compares actions as signed numbers: the smallest is the most severe. */
static void end_path(run_t *r, value_t value) {
  uint32_t verdict = value.known ? value.bits : KILL_PROCESS;
  if ((int32_t)(verdict & ACTION) <= (int32_t)(r->verdict & ACTION)) r->verdict = verdict;
}

/* Returns false if the path ends here: a division by zero kills. */
static bool calculate(run_t *r, path_t *p, uint16_t code, value_t operand) {
  uint32_t a = p->a.bits, b = operand.bits;
  bool divides = BPF_OP(code) == BPF_DIV;
  if (divides && (!operand.known || b == 0)) end_path(r, constant(KILL_THREAD));
  if (divides && operand.known && b == 0) return false;
  p->a.known = p->a.known && operand.known;
  if (!p->a.known) return true;
  switch (BPF_OP(code)) {
  case BPF_ADD: a += b; break;
  case BPF_SUB: a -= b; break;
  case BPF_MUL: a *= b; break;
  case BPF_DIV: a /= b; break;
  case BPF_AND: a &= b; break;
  case BPF_OR: a |= b; break;
  case BPF_XOR: a ^= b; break;
  case BPF_LSH: a <<= b & 31; break;
  case BPF_RSH: a >>= b & 31; break;
  default: a = (uint32_t)-a; break; /* BPF_NEG */
  }
  p->a.bits = a;
  return true;
}

static bool is_taken(uint16_t code, uint32_t a, uint32_t b) {
  switch (BPF_OP(code)) {
  case BPF_JEQ: return a == b;
  case BPF_JGT: return a > b;
  case BPF_JGE: return a >= b;
  default: return (a & b) != 0; /* BPF_JSET */
  }
}

/* Continues at the target of the jump I; of two, the other one waits. Behind a comparison for
 * equality that holds, the value is known. */
static void jump(run_t *r, path_t *p, const struct sock_filter *i) {
  value_t b = BPF_SRC(i->code) == BPF_X ? p->x : constant(i->k);
  if (BPF_OP(i->code) == BPF_JA) {
    p->at += i->k;
  } else if (p->a.known && b.known) {
    p->at += is_taken(i->code, p->a.bits, b.bits) ? i->jt : i->jf;
  } else if (i->jt == i->jf) {
    p->at += i->jt;
  } else if (r->waiting == PATHS_MAX) {
    r->steps = STEPS_MAX;
  } else {
    path_t *other = &r->paths[r->waiting++];
    *other = *p;
    other->at += i->jf;
    p->at += i->jt;
    if (BPF_OP(i->code) == BPF_JEQ && b.known) p->a = b;
  }
}

/* Executes one instruction. Returns false if the path ends. */
static bool step(run_t *r, path_t *p) {
  const struct sock_filter *i = &r->program[p->at++];
  switch (i->code) {
  case BPF_LD | BPF_W | BPF_ABS: p->a = load_word(r->call, i->k); return true;
  case BPF_LD | BPF_W | BPF_LEN: p->a = constant(DATA_SIZE); return true;
  case BPF_LDX | BPF_W | BPF_LEN: p->x = constant(DATA_SIZE); return true;
  case BPF_LD | BPF_IMM: p->a = constant(i->k); return true;
  case BPF_LDX | BPF_IMM: p->x = constant(i->k); return true;
  case BPF_LD | BPF_MEM: p->a = p->cells[i->k]; return true;
  case BPF_LDX | BPF_MEM: p->x = p->cells[i->k]; return true;
  case BPF_ST: p->cells[i->k] = p->a; return true;
  case BPF_STX: p->cells[i->k] = p->x; return true;
  case BPF_MISC | BPF_TAX: p->x = p->a; return true;
  case BPF_MISC | BPF_TXA: p->a = p->x; return true;
  case BPF_RET | BPF_K: end_path(r, constant(i->k)); return false;
  case BPF_RET | BPF_A: end_path(r, p->a); return false;
  default: break;
  }
  if (BPF_CLASS(i->code) == BPF_ALU)
    return calculate(r, p, i->code, BPF_SRC(i->code) == BPF_X ? p->x : constant(i->k));
  jump(r, p, i);
  return true;
}

uint32_t filter_verdict(const struct sock_filter *program, uint32_t count,
                        const filter_call_t *call) {
  run_t r;
  r.program = program;
  r.count = count;
  r.call = call;
  r.steps = 0;
  r.waiting = 1;
  r.verdict = ALLOW | 0xffffu;
  memset(&r.paths[0], 0, sizeof r.paths[0]);
  r.paths[0].a = r.paths[0].x = constant(0);
  while (r.waiting > 0) {
    path_t path = r.paths[--r.waiting];
    do
      if (r.steps++ >= STEPS_MAX) return KILL_PROCESS;
    while (step(&r, &path));
  }
  return r.verdict;
}

bool filter_verdict_allows(uint32_t verdict) {
  uint32_t action = verdict & ACTION;
  return action == ALLOW || action == LOG;
}
