/* SPDX-License-Identifier: MIT
 *
 * infer_return for x86_64. Code restores the stack pointer and the registers that it saved before
 * it returns, on every path. So one path from the pc to a `ret` shows where the return address is.
 *
 * The path is executed with the frame's registers, as far as they are known. Only moves between
 * registers and stack, and additions, have an effect; any other result is unknown. Words that the
 * path stores are kept apart from memory. Calls are skipped. A path first falls through each
 * conditional jump. If it fails, the last jump that it did not take is taken, and so on.
 *
 * A call that never returns can be the last instruction of its function. The bytes after it are
 * another function's, so a path fails there: at padding, or at a push where functions start. The
 * return address that a path finds must follow a call that could have entered this code.
 */
#include "unwind/infer/infer.h"

#include <string.h>

#include "base/bits.h"
#include "unwind/infer/decode_x86_64.h"

/* Instructions to execute, on all paths together. */
#define INSNS_MAX 6000
/* Paths are chosen at this many conditional jumps. */
#define CHOICES_MAX 64
/* Words that a path stores, and backward jumps that it makes. */
#define STORES_MAX     32
#define BACK_JUMPS_MAX 8
#define CODE_BYTES     256
/* A frame is not larger. */
#define FRAME_BYTES_MAX (16u << 20)

typedef struct store {
  uint64_t address, value;
  bool is_known;
} store_t;

typedef struct code_path {
  const insn_code_t *code;
  const image_t *image;
  uint64_t at;
  /* As instructions number them; as bits, those whose value is known, and those that are a constant
   * above the stack pointer at the pc. */
  uint64_t registers[16];
  uint32_t known, over_sp;
  /* The frame register is as it was at the pc; otherwise where it was loaded from, or 0. */
  bool same_bp;
  uint64_t bp_from;
  store_t stores[STORES_MAX];
  int store_count;
  uint64_t back_jumps[BACK_JUMPS_MAX];
  int back_jump_count;
  /* Bit n: conditional jump n of the path is taken. */
  uint64_t choices;
  int choice_count;
  bool after_call;
  /* On some path the stack pointer depended on something unknown. */
  bool needs_register;
  int insns;
  uint8_t bytes[CODE_BYTES];
  uint64_t bytes_at;
  unsigned bytes_count;
} code_path_t;

typedef enum path_end { PATH_CONTINUES, PATH_FAILED, PATH_RETURNS } path_end_t;

/* DWARF's number of each register. */
static const uint8_t dwarf_number[16] = {0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15};

/* ---- code ----------------------------------------------------------------------------------- */

/* Returns the executable bytes from AT on, up to *COUNT; NULL if there are none. */
static const uint8_t *code_at(code_path_t *path, uint64_t at, unsigned *count) {
  uint64_t into = at - path->bytes_at;
  if (into >= path->bytes_count || path->bytes_count - into < X86_INSN_BYTES) {
    uint64_t linked = at - path->image->slide, left = 0;
    for (uint32_t i = 0; i < path->image->segment_count; i++) {
      const segment_t *s = &path->image->segments[i];
      if ((s->flags & 1) && linked >= s->address && linked - s->address < s->file_size) /* PF_X */
        left = s->file_size - (linked - s->address);
    }
    path->bytes_at = at;
    path->bytes_count = left < CODE_BYTES ? (unsigned)left : CODE_BYTES;
    into = 0;
    if (!left || !insn_read(path->code, at, path->bytes, path->bytes_count)) {
      path->bytes_count = 0;
      return NULL;
    }
  }
  *count = path->bytes_count - (unsigned)into;
  return path->bytes + into;
}

/* ---- registers and memory ------------------------------------------------------------------- */

static bool has(const code_path_t *path, unsigned n) { return path->known >> n & 1; }

static void forget(code_path_t *path, uint32_t written) {
  path->known &= ~written;
  path->over_sp &= ~written;
  if (!(written >> X86_BP & 1)) return;
  path->same_bp = false;
  path->bp_from = 0;
}

static void set(code_path_t *path, unsigned n, uint64_t value, bool is_known, bool over_sp) {
  forget(path, 1u << n);
  path->registers[n] = value;
  path->known |= (uint32_t)is_known << n;
  path->over_sp |= (uint32_t)(is_known && over_sp) << n;
}

static bool is_over_sp(const code_path_t *path, unsigned n) { return path->over_sp >> n & 1; }

/* Loads the word at ADDRESS. Returns false if it is unknown. */
static bool load(code_path_t *path, uint64_t address, uint64_t *value) {
  for (int i = 0; i < path->store_count; i++)
    if (path->stores[i].address == address) {
      *value = path->stores[i].value;
      return path->stores[i].is_known;
    }
  return path->code->memory->read(path->code->memory, address, value, 8);
}

static bool is_stored(const code_path_t *path, uint64_t address) {
  for (int i = 0; i < path->store_count; i++)
    if (path->stores[i].address == address) return true;
  return false;
}

/* Loads register N from ADDRESS. */
static void load_to(code_path_t *path, unsigned n, uint64_t address) {
  uint64_t value = 0;
  bool is_known = load(path, address, &value);
  set(path, n, value, is_known, false);
  if (n == X86_BP && is_known && !is_stored(path, address)) path->bp_from = address;
}

static bool store(code_path_t *path, uint64_t address, uint64_t value, bool is_known) {
  int i = 0;
  while (i < path->store_count && path->stores[i].address != address)
    i++;
  if (i == STORES_MAX) return false;
  if (i == path->store_count) path->store_count++;
  path->stores[i] = (store_t){address, value, is_known};
  return true;
}

/* Gets the address of a memory operand, if it is known. */
static bool operand_address(const code_path_t *path, const x86_insn_t *insn, uint64_t *address) {
  if (insn->mod == 3 || insn->base == X86_NO_REGISTER || insn->index != X86_NO_REGISTER ||
      !has(path, insn->base))
    return false;
  *address = path->registers[insn->base] + (uint64_t)(int64_t)insn->displacement;
  return true;
}

/* Words elsewhere are not read: they do not say where the stack is. */
static bool is_in_frame(const code_path_t *path, uint64_t address) {
  return address - path->registers[X86_SP] < FRAME_BYTES_MAX;
}

/* ---- instructions --------------------------------------------------------------------------- */

static path_end_t push(code_path_t *path, uint64_t value, bool is_known) {
  path->registers[X86_SP] -= 8;
  return store(path, path->registers[X86_SP], value, is_known) ? PATH_CONTINUES : PATH_FAILED;
}

static void pop(code_path_t *path, unsigned to) {
  uint64_t at = path->registers[X86_SP];
  path->registers[X86_SP] += 8;
  load_to(path, to, at);
}

static void copy(code_path_t *path, unsigned to, unsigned from) {
  set(path, to, path->registers[from], has(path, from), is_over_sp(path, from));
}

static void leave(code_path_t *path) {
  copy(path, X86_SP, X86_BP);
  if (has(path, X86_SP)) pop(path, X86_BP);
}

static void load_register(code_path_t *path, const x86_insn_t *insn) {
  uint64_t address;
  if (operand_address(path, insn, &address) && is_in_frame(path, address))
    load_to(path, insn->reg, address);
  else
    forget(path, 1u << insn->reg);
}

/* lea. */
static void load_address(code_path_t *path, const x86_insn_t *insn) {
  uint64_t address = 0;
  bool is_known = operand_address(path, insn, &address);
  set(path, insn->reg, address, is_known, is_known && is_over_sp(path, insn->base));
}

/* add, sub and and of TO and VALUE, which may be a constant. Returns false for other operations. */
static bool compute(code_path_t *path, unsigned to, unsigned operation, uint64_t value,
                    bool is_known, bool is_constant) {
  uint64_t old = path->registers[to];
  bool over_sp = is_constant && is_over_sp(path, to);
  is_known &= has(path, to);
  switch (operation) {
  case 0: set(path, to, old + value, is_known, over_sp); return true;
  case 4: set(path, to, old & value, is_known, false); return true;
  case 5: set(path, to, old - value, is_known, over_sp); return true;
  default: return false;
  }
}

/* Executes what moves words of 64 bits. Returns false if INSN is not such an instruction. */
static bool execute_move(code_path_t *path, const x86_insn_t *insn, path_end_t *end) {
  uint64_t address;
  if (!insn->wide || insn->map != X86_MAP_ONE_BYTE || !insn->has_modrm) return false;
  unsigned from = insn->reg, operation = insn->opcode >> 3 & 7;
  switch (insn->opcode) {
  case 0x89:
    if (insn->mod == 3)
      copy(path, insn->rm, from);
    else if (operand_address(path, insn, &address) && is_in_frame(path, address) &&
             !store(path, address, path->registers[from], has(path, from)))
      *end = PATH_FAILED;
    return true;
  case 0x8b:
    if (insn->mod == 3)
      copy(path, insn->reg, insn->rm);
    else
      load_register(path, insn);
    return true;
  case 0x8d: load_address(path, insn); return true;
  case 0x81:
  case 0x83:
    return insn->mod == 3 &&
           compute(path, insn->rm, insn->reg & 7, (uint64_t)insn->immediate, true, true);
  case 0x01:
  case 0x21:
  case 0x29:
    return insn->mod == 3 &&
           compute(path, insn->rm, operation, path->registers[from], has(path, from), false);
  case 0x03:
  case 0x23:
  case 0x2b:
    return insn->mod == 3 &&
           compute(path, from, operation, path->registers[insn->rm], has(path, insn->rm), false);
  default: return false;
  }
}

/* What a call need not preserve. */
static void forget_after_call(code_path_t *path) {
  forget(path, ~(1u << X86_BX | 1u << X86_SP | 1u << X86_BP | 0xf000u));
  path->after_call = true;
}

/* A path that jumps back to the same place again leads nowhere. */
static path_end_t jump(code_path_t *path, uint64_t to) {
  if (to < path->at) {
    for (int i = 0; i < path->back_jump_count; i++)
      if (path->back_jumps[i] == to) return PATH_FAILED;
    if (path->back_jump_count == BACK_JUMPS_MAX) return PATH_FAILED;
    path->back_jumps[path->back_jump_count++] = to;
  }
  path->at = to;
  return PATH_CONTINUES;
}

static path_end_t choose(code_path_t *path, uint64_t to) {
  if (path->choice_count >= CHOICES_MAX) return PATH_CONTINUES;
  bool take = path->choices >> path->choice_count++ & 1;
  return take ? jump(path, to) : PATH_CONTINUES;
}

/* Executes an instruction of the one-byte map that uses the stack or jumps. Returns false if INSN
 * is none. PATH->at is already the next instruction. */
static bool execute_flow(code_path_t *path, const x86_insn_t *insn, path_end_t *end) {
  uint64_t to = path->at + (uint64_t)insn->immediate;
  uint8_t opcode = insn->opcode, operation = insn->reg & 7;
  if (opcode >= 0x50 && opcode <= 0x57)
    *end = push(path, path->registers[insn->rm], has(path, insn->rm));
  else if (opcode >= 0x58 && opcode <= 0x5f)
    pop(path, insn->rm);
  else if (opcode == 0x68 || opcode == 0x6a)
    *end = push(path, (uint64_t)insn->immediate, true);
  else if (opcode == 0x8f)
    path->registers[X86_SP] += 8;
  else if ((opcode >= 0x70 && opcode <= 0x7f) || opcode == 0xe3)
    *end = choose(path, to);
  else if (opcode == 0xe9 || opcode == 0xeb)
    *end = jump(path, to);
  else if (opcode == 0xe8 || (opcode == 0xff && operation == 2))
    forget_after_call(path);
  else if (opcode == 0xff && operation == 6)
    *end = push(path, 0, false);
  else if (opcode == 0xc9)
    leave(path);
  else if (opcode == 0xc3 || opcode == 0xc2)
    *end = PATH_RETURNS;
  else if (opcode == 0xff && operation > 2)
    *end = PATH_FAILED; /* A switch, or a jump to an unknown function. */
  else
    return opcode == 0x90; /* nop */
  return true;
}

/* ud2, hlt, int3, enter, and returns of the kernel. */
static bool never_continues(const x86_insn_t *insn) {
  uint8_t opcode = insn->opcode;
  if (insn->map == X86_MAP_0F) return opcode == 0x0b || opcode == 0xb9 || opcode == 0xff;
  return insn->map == X86_MAP_ONE_BYTE &&
         (opcode == 0xcc || opcode == 0xf4 || opcode == 0xf1 || opcode == 0xc8 || opcode == 0xca ||
          opcode == 0xcb || opcode == 0xcf);
}

/* True if INSN, after a call, shows that the call never returns. */
static bool starts_function(const code_path_t *path, const x86_insn_t *insn) {
  uint8_t opcode = insn->opcode;
  if (insn->map == X86_MAP_0F) return opcode == 0x1f || opcode == 0x1e; /* Padding, endbr64. */
  if (insn->map != X86_MAP_ONE_BYTE) return false;
  if (opcode == 0x90) return true;
  bool grows =
      (opcode >= 0x50 && opcode <= 0x57) || ((opcode == 0x83 || opcode == 0x81) && insn->mod == 3 &&
                                             insn->rm == X86_SP && (insn->reg & 7) == 5);
  return grows && path->at % 16 == 0;
}

static path_end_t execute(code_path_t *path) {
  x86_insn_t insn;
  unsigned count;
  const uint8_t *bytes = code_at(path, path->at, &count);
  if (!bytes || path->insns++ >= INSNS_MAX || !x86_decode(bytes, count, &insn) ||
      never_continues(&insn) || (path->after_call && starts_function(path, &insn)))
    return PATH_FAILED;
  path->after_call = false;
  path->at += insn.length;
  path_end_t end = PATH_CONTINUES;
  if (insn.map == X86_MAP_ONE_BYTE && execute_flow(path, &insn, &end)) {
  } else if (insn.map == X86_MAP_0F && (insn.opcode & 0xf0) == 0x80 && !insn.is_vector)
    end = choose(path, path->at + (uint64_t)insn.immediate);
  else if (!execute_move(path, &insn, &end))
    forget(path, x86_written(&insn));
  if (has(path, X86_SP)) return end;
  path->needs_register = true;
  return PATH_FAILED;
}

/* ---- paths ---------------------------------------------------------------------------------- */

static void start_path(code_path_t *path, const regs_t *regs) {
  path->at = regs->pc;
  path->known = path->over_sp = 0;
  for (unsigned n = 0; n < 16; n++)
    set(path, n, regs->r[dwarf_number[n]], regs_has(regs, dwarf_number[n]), n == X86_SP);
  path->same_bp = true;
  path->store_count = path->back_jump_count = path->choice_count = 0;
  path->after_call = false;
}

/* Chooses the next path. Returns false if all were tried. */
static bool next_path(code_path_t *path) {
  int last = path->choice_count - 1;
  while (last >= 0 && path->choices >> last & 1)
    last--;
  if (last < 0) return false;
  path->choices = (path->choices & (((uint64_t)1 << last) - 1)) | (uint64_t)1 << last;
  return true;
}

/* True if the caller that PATH returns to is possible; it is then in NEXT. */
static bool finds_caller(code_path_t *path, const regs_t *regs, regs_t *next) {
  uint64_t sp = path->registers[X86_SP], pc;
  if (sp % 8 || sp < regs->r[X86_64_RSP] || sp - regs->r[X86_64_RSP] > FRAME_BYTES_MAX ||
      !load(path, sp, &pc) || !insn_may_return(path->code, pc, regs->pc))
    return false;
  *next = (regs_t){.pc = pc};
  regs_set(next, X86_64_RSP, sp + 8);
  for (unsigned n = 0; n < 16; n++)
    if (has(path, n) && (n == X86_BX || n == X86_BP || n >= 12))
      regs_set(next, dwarf_number[n], path->registers[n]);
  return true;
}

/* Returns what PATH shows as a rule, if that depends on nothing but the pc. */
static rule_t rule_of_path(const code_path_t *path, const regs_t *regs) {
  uint64_t cfa = path->registers[X86_SP] + 8, bytes = cfa - regs->r[X86_64_RSP];
  uint64_t save = path->same_bp ? 0 : cfa - path->bp_from;
  bool by_fp = path->bp_from == cfa - 16 && path->bp_from == regs->r[X86_64_RBP];
  if (by_fp && !is_over_sp(path, X86_SP)) return rule_make(RULE_INFERRED, 0, 0, 0);
  if (!is_over_sp(path, X86_SP) || !(path->same_bp || path->bp_from) || save % 8 || save > bytes ||
      bytes / 8 > RULE_CFA_WORDS_MAX || save / 8 > RULE_SAVE_WORDS_MAX)
    return rule_make(RULE_NONE, 0, 0, 0);
  return rule_make(RULE_INFERRED, (uint32_t)(bytes / 8), (uint32_t)(save / 8), RA_BELOW_CFA);
}

unwind_step_t infer_return(machine_t machine, memory_t *memory, images_t *images, regs_t *regs,
                           bool exact, rule_t *rule) {
  insn_code_t code = {machine, memory, images};
  code_path_t path;
  regs_t next;
  *rule = rule_make(RULE_NONE, 0, 0, 0);
  if (machine != MACHINE_X86_64 || !regs_has(regs, X86_64_RSP)) return STEP_NO_RULE;
  path.code = &code;
  path.image = images->find(images, exact ? regs->pc : regs->pc - 1);
  path.choices = 0;
  path.insns = 0;
  path.bytes_at = path.bytes_count = 0;
  path.needs_register = false;
  if (!path.image) return STEP_NO_RULE;
  do {
    start_path(&path, regs);
    path.after_call = !exact;
    path_end_t end = PATH_CONTINUES;
    while (end == PATH_CONTINUES)
      end = execute(&path);
    if (end == PATH_RETURNS && finds_caller(&path, regs, &next)) {
      *rule = rule_of_path(&path, regs);
      *regs = next;
      return STEP_CALLER;
    }
  } while (path.insns < INSNS_MAX && next_path(&path));
  if (path.needs_register) return STEP_UNKNOWN_REGISTER;
  *rule = rule_make(RULE_INFERRED, 0, 0, 0);
  return STEP_NO_RULE;
}
