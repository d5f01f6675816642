/* SPDX-License-Identifier: MIT
 *
 * Decodes only the forms that compilers for macOS write. Any other code counts as the function's
 * body, where the table is valid.
 *
 * On x86_64 these are: `push %rbp; mov %rsp,%rbp` at the start or, in a function whose early exits
 * have no frame, before the pc; early exits behind the body, which return without a pop; pushes and
 * `sub $n,%rsp`; their reversal, up to a return or a jump out of the function. On arm64 two paths
 * are decoded: from the start to the pc, and from the pc to where the function is left.
 */
#include "unwind/compact_code.h"

#include <string.h>

#include "unwind/infer/decode_x86_64.h"
#include "unwind/infer/stack_change_aarch64.h"

static const compact_frame_t body = {.is_body = true};

/* ---- x86_64 --------------------------------------------------------------------------------- */

static bool has(const compact_code_t *c, uint64_t at, const char *bytes, uint64_t count) {
  return at <= c->size && c->size - at >= count && memcmp(c->bytes + at, bytes, count) == 0;
}

static uint64_t x86_64_start(const compact_code_t *c) {
  return has(c, 0, "\xf3\x0f\x1e\xfa", 4) ? 4 : 0; /* endbr64 */
}

/* Returns the offset of `push %rbp; mov %rsp,%rbp`; the function's size if there is none. */
static uint64_t x86_64_frame_made(const compact_code_t *c) {
  uint64_t at = x86_64_start(c);
  while (at < c->size && !has(c, at, "\x55\x48\x89\xe5", 4))
    at++;
  return at;
}

/* True if a jump at AT leaves the function. */
static bool x86_64_jumps_out(const compact_code_t *c, uint64_t at) {
  int64_t to;
  if (at + 2 <= c->size && c->bytes[at] == 0xeb) {
    to = (int64_t)at + 2 + (int8_t)c->bytes[at + 1];
  } else if (at + 5 <= c->size && c->bytes[at] == 0xe9) {
    int32_t distance;
    memcpy(&distance, c->bytes + at + 1, 4);
    to = (int64_t)at + 5 + distance;
  } else {
    return has(c, at, "\xff\x25", 2) || has(c, at, "\xff\xe0", 2) || has(c, at, "\x41\xff", 2);
  }
  return to < 0 || (uint64_t)to >= c->size;
}

static bool x86_64_returns(const compact_code_t *c, uint64_t at) {
  return has(c, at, "\xc3", 1) || has(c, at, "\xc2", 1) || has(c, at, "\xf3\xc3", 2);
}

/* True if the code returns from the pc without restoring the frame register: an early exit. */
static bool x86_64_exits_early(const compact_code_t *c) {
  x86_insn_t insn;
  for (uint64_t at = c->at; at < c->size; at += insn.length) {
    if (x86_64_returns(c, at)) return true;
    uint64_t rest = c->size - at;
    unsigned have = rest < X86_INSN_BYTES ? (unsigned)rest : X86_INSN_BYTES;
    if (!x86_decode(c->bytes + at, have, &insn) || !x86_is_plain(&insn)) return false;
  }
  return false;
}

static compact_frame_t x86_64_framed(const compact_code_t *c) {
  uint64_t made = x86_64_frame_made(c);
  if (c->at <= made && made < c->size) return (compact_frame_t){.cfa_bytes = 8};
  if (c->at == made + 1)
    return (compact_frame_t){.cfa_bytes = 16, .has_saved_fp = true, .saved = 16};
  if (x86_64_exits_early(c)) return (compact_frame_t){.cfa_bytes = 8};
  bool popped = c->at > 0 && c->bytes[c->at - 1] == 0x5d;
  if (popped && x86_64_jumps_out(c, c->at)) return (compact_frame_t){.cfa_bytes = 8};
  return body;
}

/* Length of a push or pop of a general register (BASE: 0x50 or 0x58) at AT; 0 if there is none. */
static uint64_t x86_64_one(const compact_code_t *c, uint64_t at, uint8_t base) {
  if (at < c->size && (c->bytes[at] & 0xf8) == base) return 1;
  return at + 1 < c->size && c->bytes[at] == 0x41 && (c->bytes[at + 1] & 0xf8) == base ? 2 : 0;
}

/* Length of `sub $n,%rsp` or `add $n,%rsp` (LAST is its third byte) at AT; 0 if there is none. */
static uint64_t x86_64_adjust(const compact_code_t *c, uint64_t at, uint8_t last, uint64_t *bytes) {
  int32_t wide;
  if (at + 4 > c->size || c->bytes[at] != 0x48 || c->bytes[at + 2] != last) return 0;
  if (c->bytes[at + 1] == 0x83) {
    *bytes = (uint64_t)(int64_t)(int8_t)c->bytes[at + 3];
    return 4;
  }
  if (c->bytes[at + 1] != 0x81 || at + 7 > c->size) return 0;
  memcpy(&wide, c->bytes + at + 3, 4);
  *bytes = (uint64_t)(int64_t)wide;
  return 7;
}

/* True if the code from the pc to the return only releases the frame. *REMAINING is the size of the
 * frame at the pc. */
static bool x86_64_leaves(const compact_code_t *c, uint64_t *remaining) {
  uint64_t at = c->at, length, bytes = 0;
  for (*remaining = 8;; at += length) {
    if ((length = x86_64_one(c, at, 0x58)) != 0)
      *remaining += 8;
    else if ((length = x86_64_adjust(c, at, 0xc4, &bytes)) != 0)
      *remaining += bytes;
    else
      return x86_64_returns(c, at) || (at > c->at && x86_64_jumps_out(c, at));
  }
}

static compact_frame_t x86_64_frameless(const compact_code_t *c, uint64_t full) {
  uint64_t at = x86_64_start(c), size = 8, length, bytes;
  while (at < c->at && size < full) {
    if ((length = x86_64_one(c, at, 0x50)) != 0)
      size += 8;
    else if ((length = x86_64_adjust(c, at, 0xec, &bytes)) != 0)
      size += bytes;
    else
      break;
    at += length;
  }
  if (at >= c->at && size < full) return (compact_frame_t){.cfa_bytes = size};
  if (x86_64_leaves(c, &size) && size < full) return (compact_frame_t){.cfa_bytes = size};
  return body;
}

/* ---- arm64 ---------------------------------------------------------------------------------- */

/* Instructions of an epilogue. */
#define AHEAD_MAX 16

static uint32_t instruction(const compact_code_t *c, uint64_t at) {
  uint32_t word;
  memcpy(&word, c->bytes + at, 4);
  return word;
}

static bool arm64_is_branch(uint32_t w) {
  return (w & 0x7c000000) == 0x14000000 /* b, bl */ || (w & 0xfe000000) == 0x54000000 /* b.c */ ||
         (w & 0x7c000000) == 0x34000000 /* cbz, cbnz, tbz, tbnz */ ||
         (w & 0xfe000000) == 0xd6000000 /* br, blr, ret and signed forms */;
}

/* True if execution may continue at the next instruction. */
static bool arm64_is_conditional(uint32_t w) {
  return (w & 0xfe000000) == 0x54000000 || (w & 0x7c000000) == 0x34000000;
}

static bool arm64_leaves(const compact_code_t *c, uint64_t at, uint32_t w) {
  if ((w & 0xfefff000) == 0xd65f0000) return true; /* ret, retaa, retab */
  if ((w & 0xfffffc1f) == 0xd61f0000) return true; /* br: a tail call through a register */
  if ((w & 0xfc000000) != 0x14000000) return false;
  int64_t to = (int64_t)at + a64_field(w, 0, 26) * 4;
  return to < 0 || (uint64_t)to >= c->size;
}

/* True for add x29, sp, #n, which sets the frame register. */
static bool arm64_makes_frame(uint32_t w) { return (w & 0xffc003ff) == 0x910003fd; }

/* Decodes the prologue, from the start to the pc; early exits may branch off. Returns false if the
 * pc is after the prologue. */
static bool arm64_before(const compact_code_t *c, compact_frame_t *out) {
  int64_t pushed = 0, saved = 0;
  bool has_saved_fp = false;
  for (uint64_t at = 0; at + 4 <= c->at; at += 4) {
    uint32_t w = instruction(c, at);
    stack_change_t change = stack_change_of(w);
    bool elsewhere = arm64_is_branch(w) && !arm64_is_conditional(w);
    if (arm64_makes_frame(w) || elsewhere || change.effect == STACK_EFFECT_UNKNOWN) return false;
    pushed += change.pushed;
    if (change.effect == STACK_EFFECT_SAVE && change.with_fp) {
      has_saved_fp = true;
      saved = pushed - (change.x30_at - 8);
    }
  }
  *out = (compact_frame_t){
      .cfa_bytes = (uint64_t)pushed, .has_saved_fp = has_saved_fp, .saved = (uint64_t)saved};
  return pushed >= 0;
}

/* Decodes the path from the pc to the function's end. Returns false if it is not straight.
 * *RESTORES_FP: x29 and x30 are restored on it, so the frame still exists here. */
static bool arm64_after(const compact_code_t *c, uint64_t *remaining, bool *restores_fp) {
  *remaining = 0;
  *restores_fp = false;
  for (uint64_t at = c->at, end = at + 4 * AHEAD_MAX; at < end && at + 4 <= c->size; at += 4) {
    uint32_t w = instruction(c, at);
    if (arm64_leaves(c, at, w)) return true;
    stack_change_t change = stack_change_of(w);
    if (arm64_is_branch(w) || change.effect == STACK_EFFECT_UNKNOWN || change.pushed > 0)
      return false;
    *restores_fp |= change.effect == STACK_EFFECT_RESTORE;
    *remaining += (uint64_t)-change.pushed;
  }
  return false;
}

static compact_frame_t arm64_framed(const compact_code_t *c) {
  compact_frame_t frame;
  uint64_t remaining;
  bool restores_fp;
  if (c->at % 4) return body;
  if (arm64_before(c, &frame)) return frame;
  if (arm64_after(c, &remaining, &restores_fp) && !restores_fp)
    return (compact_frame_t){.cfa_bytes = remaining};
  return body;
}

static compact_frame_t arm64_frameless(const compact_code_t *c, uint64_t full) {
  compact_frame_t frame;
  uint64_t remaining;
  bool restores_fp;
  if (c->at % 4) return body;
  if (arm64_before(c, &frame) && frame.cfa_bytes < full) return frame;
  if (arm64_after(c, &remaining, &restores_fp) && remaining < full)
    return (compact_frame_t){.cfa_bytes = remaining};
  return body;
}

compact_frame_t compact_frame_with_fp(machine_t machine, const compact_code_t *code) {
  return machine == MACHINE_X86_64 ? x86_64_framed(code) : arm64_framed(code);
}

compact_frame_t compact_frame_without_fp(machine_t machine, const compact_code_t *code,
                                         uint64_t full) {
  return machine == MACHINE_X86_64 ? x86_64_frameless(code, full) : arm64_frameless(code, full);
}
