/* SPDX-License-Identifier: MIT
 *
 * Decodes a few machine instructions: calls, jumps, PLT entries. Instruction encodings: Intel SDM
 * volume 2, Arm ARM section C4.1.
 *
 * x86_64 code cannot be decoded backwards with certainty. So every call encoding that could end at
 * a return address counts, and a function is searched for jumps at every byte. A false find can
 * turn INSN_MATCH_NO into INSN_MATCH_POSSIBLE, never the reverse.
 */
#include "unwind/infer/insn.h"

#include <string.h>

#include "unwind/cfi.h"

/* Larger functions are not searched for jumps. */
#define FUNCTION_BYTES_MAX (64u << 10)
#define CHUNK              256
/* Number of functions that may jump on before the callee is reached. */
#define TAIL_DEPTH 2

/* ---- reading code --------------------------------------------------------------------------- */

/* Reads from the file if there is one: that needs no system call, and a file has no breakpoints of
 * a debugger. */
bool insn_read(const insn_code_t *code, uint64_t address, void *out, size_t size) {
  const image_t *image = code->images->find(code->images, address);
  if (image && image->file) {
    uint64_t linked = address - image->slide;
    for (uint32_t i = 0; i < image->segment_count; i++) {
      const segment_t *s = &image->segments[i];
      if (linked < s->address || linked - s->address >= s->file_size) continue;
      uint64_t at = linked - s->address;
      if (size > s->file_size - at || s->file_offset > image->file_size ||
          at + size > image->file_size - s->file_offset)
        return false;
      memcpy(out, image->file + s->file_offset + at, size);
      return true;
    }
  }
  return code->memory->read(code->memory, address, out, size);
}

bool insn_is_executable(images_t *images, uint64_t pc) {
  const image_t *image = images->find(images, pc);
  if (!image) return false;
  uint64_t linked = pc - image->slide;
  for (uint32_t i = 0; i < image->segment_count; i++) {
    const segment_t *s = &image->segments[i];
    if (linked >= s->address && linked - s->address < s->size) return s->flags & 1; /* PF_X */
  }
  return false;
}

bool insn_find_row(const insn_code_t *code, uint64_t pc, uint64_t *slide, cfi_row_t *row) {
  const image_t *image = code->images->find(code->images, pc);
  if (!image || cfi_find_row(image, pc - image->slide, row) != 0) return false;
  *slide = image->slide;
  return true;
}

bool insn_function(const insn_code_t *code, uint64_t pc, insn_range_t *function) {
  cfi_row_t row;
  uint64_t slide;
  if (!insn_find_row(code, pc, &slide, &row)) return false;
  function->start = row.function_start + slide;
  function->end = row.function_end + slide;
  return function->start < function->end;
}

static bool range_contains(insn_range_t range, uint64_t pc) {
  return pc >= range.start && pc < range.end;
}

static int32_t load32(const uint8_t *p) {
  int32_t value;
  memcpy(&value, p, 4);
  return value;
}

/* ---- targets of calls and jumps ------------------------------------------------------------- */

static insn_target_t load_target(const insn_code_t *code, uint64_t slot) {
  uint64_t address;
  if (!code->memory->read(code->memory, slot, &address, 8) || address == 0)
    return (insn_target_t){false, 0};
  return (insn_target_t){true, address};
}

insn_target_t insn_skip_stub(const insn_code_t *code, uint64_t address) {
  uint8_t b[16];
  size_t at = 0;
  if (code->machine != MACHINE_X86_64 || !insn_read(code, address, b, sizeof b))
    return (insn_target_t){true, address};
  if (b[0] == 0xf3 && b[1] == 0x0f && b[2] == 0x1e && b[3] == 0xfa) at = 4; /* endbr64 */
  if (b[at] == 0xf2) at++;                                                  /* bnd */
  if (b[at] == 0xe9)
    return (insn_target_t){true, address + at + 5 + (uint64_t)(int64_t)load32(b + at + 1)};
  if (b[at] != 0xff || b[at + 1] != 0x25) return (insn_target_t){true, address};
  insn_target_t target =
      load_target(code, address + at + 6 + (uint64_t)(int64_t)load32(b + at + 2));
  if (target.is_known && target.address - address < 64) target.is_known = false;
  return target;
}

static bool jumps_to(const insn_code_t *code, insn_range_t from, insn_range_t to, int depth);

/* Decides whether a call of ADDRESS could have led into FUNCTION. */
static insn_match_t may_reach(const insn_code_t *code, uint64_t address, insn_range_t function,
                              int depth) {
  if (range_contains(function, address)) return INSN_MATCH_CERTAIN;
  insn_target_t target = insn_skip_stub(code, address);
  if (!target.is_known) return INSN_MATCH_POSSIBLE;
  if (range_contains(function, target.address)) return INSN_MATCH_CERTAIN;
  insn_range_t entered;
  if (!insn_function(code, target.address, &entered)) return INSN_MATCH_POSSIBLE;
  return jumps_to(code, entered, function, depth) ? INSN_MATCH_POSSIBLE : INSN_MATCH_NO;
}

bool insn_has_no_frame(const insn_code_t *code, uint64_t at) {
  cfi_row_t row;
  uint64_t slide;
  if (!insn_find_row(code, at, &slide, &row)) return true;
  return !row.cfa_is_expression && row.cfa_register == machine_sp(code->machine) &&
         row.cfa_offset == (code->machine == MACHINE_X86_64 ? 8 : 0);
}

/* Decides whether a direct jump at AT could have led into FUNCTION. Only a jump out of the function
 * FROM, to the start of another function or to FUNCTION, is followed. */
static bool jump_may_reach(const insn_code_t *code, uint64_t at, uint64_t to, insn_range_t from,
                           insn_range_t function, int depth) {
  insn_range_t other;
  if (range_contains(function, to)) return true;
  if (range_contains(from, to) || !insn_is_executable(code->images, to) ||
      !insn_has_no_frame(code, at) || !insn_function(code, to, &other) || other.start != to)
    return false;
  return depth == 0 || may_reach(code, to, function, depth - 1) != INSN_MATCH_NO;
}

static insn_jump_t x86_64_jump(const insn_code_t *code, const uint8_t *p, uint64_t at, uint64_t *to,
                               unsigned *length) {
  *length = 6;
  if (p[0] == 0xe9 || p[0] == 0xeb || (p[0] & 0xf0) == 0x70) { /* jmp; short jmp and jcc */
    *length = p[0] == 0xe9 ? 5 : 2;
    *to = at + *length + (uint64_t)(int64_t)(p[0] == 0xe9 ? load32(p + 1) : (int8_t)p[1]);
    return INSN_JUMP_DIRECT;
  }
  if (p[0] == 0x0f && (p[1] & 0xf0) == 0x80) { /* jcc */
    *to = at + 6 + (uint64_t)(int64_t)load32(p + 2);
    return INSN_JUMP_DIRECT;
  }
  if (p[0] == 0xff && p[1] == 0x25) {
    insn_target_t target = load_target(code, at + 6 + (uint64_t)(int64_t)load32(p + 2));
    *to = target.address;
    return target.is_known ? INSN_JUMP_DIRECT : INSN_JUMP_INDIRECT;
  }
  if (p[0] == 0xff && (p[1] & 0x38) == 0x20) return INSN_JUMP_INDIRECT;
  /* mov %reg,(%rsp), then ret: how a retpoline jumps. */
  bool thunk =
      (p[0] == 0x48 || p[0] == 0x4c) && p[1] == 0x89 && (p[2] & 0xc7) == 0x04 && p[3] == 0x24;
  return thunk ? INSN_JUMP_RETPOLINE : INSN_JUMP_NONE;
}

static insn_jump_t aarch64_jump(const uint8_t *p, uint64_t at, uint64_t *to, unsigned *length) {
  uint32_t word = (uint32_t)load32(p);
  *length = 4;
  if ((word & 0xfc000000) == 0x14000000) { /* b */
    *to = at + (uint64_t)((int64_t)(int32_t)(word << 6) >> 4);
    return INSN_JUMP_DIRECT;
  }
  if ((word & 0xff000010) == 0x54000000) { /* b.cond */
    *to = at + (uint64_t)((int64_t)(int32_t)(word << 8) >> 13 << 2);
    return INSN_JUMP_DIRECT;
  }
  return (word & 0xfefff000) == 0xd61f0000 ? INSN_JUMP_INDIRECT : INSN_JUMP_NONE; /* br, braa, … */
}

insn_jump_t insn_jump(const insn_code_t *code, const uint8_t *p, uint64_t at, uint64_t *to,
                      unsigned *length) {
  return code->machine == MACHINE_X86_64 ? x86_64_jump(code, p, at, to, length)
                                         : aarch64_jump(p, at, to, length);
}

static bool insn_may_reach(const insn_code_t *code, const uint8_t *p, uint64_t at,
                           insn_range_t from, insn_range_t function, int depth) {
  uint64_t to;
  unsigned length;
  switch (insn_jump(code, p, at, &to, &length)) {
  case INSN_JUMP_DIRECT: return jump_may_reach(code, at, to, from, function, depth);
  case INSN_JUMP_INDIRECT: return insn_has_no_frame(code, at);
  case INSN_JUMP_RETPOLINE: return true;
  default: return false;
  }
}

static bool jumps_to(const insn_code_t *code, insn_range_t from, insn_range_t to, int depth) {
  uint8_t bytes[CHUNK + 8];
  bool x86_64 = code->machine == MACHINE_X86_64;
  if (from.end - from.start > FUNCTION_BYTES_MAX) return true;
  for (uint64_t at = from.start; at < from.end; at += CHUNK) {
    size_t size = from.end - at < sizeof bytes ? (size_t)(from.end - at) : sizeof bytes;
    memset(bytes, 0, sizeof bytes);
    if (!insn_read(code, at, bytes, size)) return true;
    for (size_t i = 0; i < CHUNK && i < size; i += x86_64 ? 1 : 4)
      if (insn_may_reach(code, bytes + i, at + i, from, to, depth)) return true;
  }
  return false;
}

/* ---- the call before a return address ------------------------------------------------------- */

static insn_match_t stronger(insn_match_t a, insn_match_t b) { return a > b ? a : b; }

/* True if a call through register or memory (ff /2) ends at the end of B, which holds the 8 bytes
 * before the return address. ModRM and SIB bytes give the length. */
static bool ends_in_indirect_call(const uint8_t b[8]) {
  for (int length = 2; length <= 7; length++) {
    const uint8_t *p = b + 8 - length;
    if (p[0] != 0xff || (p[1] & 0x38) != 0x10) continue;
    int mod = p[1] >> 6, rm = p[1] & 7, need = 2;
    if (mod != 3 && rm == 4) need++; /* SIB */
    if (mod == 1) need += 1;
    if (mod == 2 || (mod == 0 && rm == 5)) need += 4;
    if (mod == 0 && rm == 4 && length > 2 && (p[2] & 7) == 5) need += 4;
    if (need == length) return true;
  }
  return false;
}

insn_target_t insn_call_target(const insn_code_t *code, uint64_t return_address) {
  uint8_t b[8];
  if (!insn_read(code, return_address - 8, b, 8)) return (insn_target_t){false, 0};
  if (code->machine == MACHINE_AARCH64) {
    uint32_t word = (uint32_t)load32(b + 4);
    bool calls = (word & 0xfc000000) == 0x94000000;
    return (insn_target_t){calls,
                           return_address - 4 + (uint64_t)((int64_t)(int32_t)(word << 6) >> 4)};
  }
  insn_target_t target = {false, 0};
  if (b[2] == 0xff && b[3] == 0x15)
    target = load_target(code, return_address + (uint64_t)(int64_t)load32(b + 4));
  else if (b[3] == 0xe8)
    target = (insn_target_t){true, return_address + (uint64_t)(int64_t)load32(b + 4)};
  return target.is_known ? insn_skip_stub(code, target.address) : target;
}

static insn_match_t x86_64_link(const insn_code_t *code, uint64_t ra, insn_range_t function) {
  uint8_t b[8];
  insn_match_t link = INSN_MATCH_NO;
  if (!insn_read(code, ra - 8, b, 8)) return INSN_MATCH_POSSIBLE;
  if (b[3] == 0xe8)
    link = may_reach(code, ra + (uint64_t)(int64_t)load32(b + 4), function, TAIL_DEPTH);
  if (b[2] == 0xff && b[3] == 0x15) { /* call *slot(%rip): the GOT, or a variable */
    insn_target_t target = load_target(code, ra + (uint64_t)(int64_t)load32(b + 4));
    return stronger(link, target.is_known && range_contains(function, target.address)
                              ? INSN_MATCH_CERTAIN
                              : INSN_MATCH_POSSIBLE);
  }
  if (ends_in_indirect_call(b)) link = stronger(link, INSN_MATCH_POSSIBLE);
  return link;
}

static insn_match_t aarch64_link(const insn_code_t *code, uint64_t ra, insn_range_t function) {
  uint8_t b[4];
  if (!insn_read(code, ra - 4, b, 4)) return INSN_MATCH_POSSIBLE;
  uint32_t word = (uint32_t)load32(b);
  if ((word & 0xfc000000) == 0x94000000) /* bl */
    return may_reach(code, ra - 4 + (uint64_t)((int64_t)(int32_t)(word << 6) >> 4), function,
                     TAIL_DEPTH);
  return (word & 0xfefff000) == 0xd63f0000 ? INSN_MATCH_POSSIBLE
                                           : INSN_MATCH_NO; /* blr, blraa, … */
}

/* A signal trampoline and the first function of a fiber are entered by a return and never by a
 * call. The address is then a function's start, or the frame is the kernel's. */
static bool is_entered_by_return(const insn_code_t *code, uint64_t ra) {
  cfi_row_t row;
  uint64_t slide;
  if (!insn_find_row(code, ra, &slide, &row)) return false;
  return row.signal_frame || ra - slide - row.function_start <= 1;
}

insn_match_t insn_call_enters(const insn_code_t *code, uint64_t return_address,
                              insn_range_t function) {
  insn_match_t link = code->machine == MACHINE_X86_64
                          ? x86_64_link(code, return_address, function)
                          : aarch64_link(code, return_address, function);
  if (link == INSN_MATCH_NO && is_entered_by_return(code, return_address))
    return INSN_MATCH_POSSIBLE;
  return link;
}

bool insn_may_return(const insn_code_t *code, uint64_t return_address, uint64_t pc) {
  insn_range_t near = {pc < FUNCTION_BYTES_MAX ? 0 : pc - FUNCTION_BYTES_MAX,
                       pc + FUNCTION_BYTES_MAX};
  return return_address >= 4096 && insn_is_executable(code->images, return_address - 1) &&
         insn_call_enters(code, return_address, near) != INSN_MATCH_NO;
}
