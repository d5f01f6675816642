/* SPDX-License-Identifier: MIT
 *
 * infer_row. Linkers for aarch64 write no unwind rows for their stubs, C libraries none for _init
 * and _fini, and compilers none for the start-up code. All of it is straight code of a few
 * instructions, which shows what it does to the stack.
 *
 * Two paths are decoded, and a row is returned only if they agree: backward from the pc to the end
 * of the function before it, which shows what was pushed, and forward from the pc to the end of
 * this function, which shows what will be popped. If branches surround a part with a frame, one
 * path could be misread, but then the two do not agree. The first stub of a lazy table is
 * recognized by its own push of x16 and x30, since it enters the loader's resolver with them.
 */
#include "unwind/infer/infer.h"

#include <string.h>

#include "sonde/status.h"
#include "unwind/infer/stack_change_aarch64.h"

/* Instructions in each direction, and after each branch. */
#define READ_MAX 64
/* Branches to follow. */
#define HOPS_MAX 4

/* ---- instructions (Arm ARM, C6.2) ----------------------------------------------------------- */

static bool is_call(uint32_t w) {
  return (w & 0xfc000000) == 0x94000000 /* bl */ || (w & 0xfefff000) == 0xd63f0000 /* blr, blraa */;
}

/* b; br, ret and their signed forms; brk; udf, which linkers use as padding. */
static bool ends_flow(uint32_t w) {
  return (w & 0xfc000000) == 0x14000000 || (w & 0xfefff000) == 0xd61f0000 ||
         (w & 0xfefff000) == 0xd65f0000 || (w & 0xffe0001f) == 0xd4200000 || (w & 0xffff0000) == 0;
}

/* stp x16, x30, [sp, #-16]! */
#define PUSH_X16_X30 0xa9bf7bf0u
#define BR_X16       0xd61f0200u
#define BR_X17       0xd61f0220u

/* ---- code ----------------------------------------------------------------------------------- */

typedef struct code_window {
  uint32_t words[2 * READ_MAX];
  /* Run-time addresses of the words. */
  uint64_t start, end;
} code_window_t;

static uint32_t word_at(const code_window_t *l, uint64_t address) {
  return l->words[(address - l->start) / 4];
}

/* Reads the executable code within READ_MAX instructions of PC. */
static bool read_code(const image_t *image, memory_t *memory, uint64_t pc, code_window_t *l) {
  for (uint32_t i = 0; i < image->segment_count; i++) {
    const segment_t *s = &image->segments[i];
    uint64_t start = s->address + image->slide, end = start + s->size;
    if (!(s->flags & 1) || pc < start || pc >= end) continue; /* PF_X */
    l->start = pc - start > READ_MAX * 4 ? pc - READ_MAX * 4 : (start + 3) & ~(uint64_t)3;
    l->end = end - pc > READ_MAX * 4 ? pc + READ_MAX * 4 : end & ~(uint64_t)3;
    return l->start <= pc && l->end > pc &&
           memory->read(memory, l->start, l->words, l->end - l->start);
  }
  return false;
}

/* ---- the effect of a code path -------------------------------------------------------------- */

typedef struct code_path {
  /* Where the path ended. */
  uint64_t bound;
  /* Bytes pushed between there and the pc. */
  int64_t pushed;
  /* x30 is on the stack. */
  bool saved;
  /* An instruction showed whether it is. */
  bool known;
  bool with_fp;
  /* The stack pointer is moved in an unknown way. */
  bool failed;
  /* A function is called before x30 is saved. */
  bool called;
  /* The instruction that ended the path. */
  uint32_t last;
  /* At the pc. */
  int64_t x30_above_sp;
} code_path_t;

static bool scan_backward(const code_window_t *l, uint64_t pc, code_path_t *r) {
  *r = (code_path_t){.bound = pc};
  for (; r->bound > l->start; r->bound -= 4) {
    uint32_t w = word_at(l, r->bound - 4);
    if (ends_flow(w)) return true;
    stack_change_t c = stack_change_of(w);
    if (c.effect == STACK_EFFECT_UNKNOWN) return false;
    if (is_call(w) && !r->known) r->called = true;
    if (c.effect != STACK_EFFECT_NONE && !r->known) {
      r->known = true;
      r->saved = c.effect == STACK_EFFECT_SAVE;
      r->called &= !r->saved;
      r->with_fp = c.with_fp;
      r->last = w;
      r->x30_above_sp = r->pushed + c.x30_at;
    }
    r->pushed += c.pushed;
  }
  /* At the start of the segment, not of the window. */
  return pc - l->start < READ_MAX * 4;
}

/* True if the instruction W at ADDRESS is a `b`; *TO is its target. */
static bool is_branch(uint32_t w, uint64_t address, uint64_t *to) {
  *to = address + (uint64_t)(a64_field(w, 0, 26) * 4);
  return (w & 0xfc000000) == 0x14000000;
}

/* A function is left by ret, or by br through a register that no call preserves: x16 or x17. Any
 * other br may be a switch and lead to code with a frame. */
static bool leaves_function(uint32_t w) {
  return (w & 0xfefff000) == 0xd65f0000 || w == BR_X17 || w == BR_X16;
}

/* Applies the effect of W. Returns true if no later instruction matters: after a save, code
 * restores what it takes. */
static bool apply_insn(code_path_t *r, uint32_t w) {
  stack_change_t c = stack_change_of(w);
  r->failed |= c.effect == STACK_EFFECT_UNKNOWN;
  if (is_call(w) && !r->known) r->called = true;
  if (c.effect != STACK_EFFECT_NONE && !r->known) {
    r->known = true;
    r->saved = c.effect == STACK_EFFECT_RESTORE;
    r->with_fp = c.with_fp;
    r->x30_above_sp = c.x30_at - r->pushed;
    if (!r->saved) return true;
  }
  r->pushed += c.pushed;
  return false;
}

static bool scan_forward(const image_t *image, memory_t *memory, const code_window_t *first,
                         uint64_t pc, code_path_t *r) {
  code_window_t other;
  const code_window_t *l = first;
  uint64_t at = pc, to;
  *r = (code_path_t){.bound = 0};
  for (int hops = 0; at < l->end && !r->failed; at += 4) {
    r->last = word_at(l, at);
    bool branches = is_branch(r->last, at, &to);
    if (!r->bound && ends_flow(r->last)) r->bound = at + 4;
    if (leaves_function(r->last) || (!branches && apply_insn(r, r->last))) {
      if (!r->bound) r->bound = at + 4;
      return !r->failed;
    }
    if (ends_flow(r->last) && !branches) return false;
    if (!branches) continue;
    if (hops++ == HOPS_MAX || !read_code(image, memory, to, &other)) return false;
    l = &other;
    at = to - 4;
  }
  return false;
}

static bool paths_agree(const code_path_t *before, const code_path_t *after) {
  if (before->last == PUSH_X16_X30 && after->last == BR_X17)
    return before->pushed == 16 && after->pushed == 0 && !after->known;
  if (before->saved != after->saved) return false;
  if (after->known && !after->saved) return true; /* In a prologue, nothing is popped yet. */
  if (before->pushed != -after->pushed) return false;
  return !before->saved ||
         (before->with_fp == after->with_fp && before->x30_above_sp == after->x30_above_sp);
}

/* ---- the row -------------------------------------------------------------------------------- */

static void save_at(cfi_row_t *row, int n, int64_t above_sp) {
  row->rules[n] = (cfi_rule_t){.how = CFI_OFFSET, .offset = (int32_t)(above_sp - row->cfa_offset)};
}

/* In a function with a frame, callee-saved registers may be anywhere in it. */
static void fill_row(cfi_row_t *row, const code_path_t *before) {
  row->cfa_register = AARCH64_SP;
  row->cfa_offset = before->pushed;
  row->return_register = AARCH64_LR;
  if (!before->saved) return;
  for (int n = 19; n < AARCH64_FP; n++)
    row->rules[n].how = CFI_UNDEFINED;
  save_at(row, AARCH64_LR, before->x30_above_sp);
  if (before->with_fp) save_at(row, AARCH64_FP, before->x30_above_sp - 8);
}

int infer_row(const image_t *image, memory_t *memory, uint64_t pc, bool exact, cfi_row_t *row) {
  code_path_t before, after;
  code_window_t code;
  if (pc % 4 || !read_code(image, memory, pc, &code) || !scan_backward(&code, pc, &before) ||
      !scan_forward(image, memory, &code, pc, &after) || !paths_agree(&before, &after) ||
      before.pushed < 0)
    return SONDE_ENOTFOUND;
  /* A callee leaves its return address in x30. */
  if (!before.saved && (before.called || after.called || !exact)) return SONDE_ENOTFOUND;
  memset(row, 0, sizeof *row);
  row->function_start = row->row_start = before.bound - image->slide;
  row->function_end = row->row_end = after.bound - image->slide;
  fill_row(row, &before);
  return 0;
}
