/* SPDX-License-Identifier: MIT
 *
 * The table has two levels. The first is sorted by function and leads to pages. A page is sorted
 * too. It consists either of pairs (function, encoding), or of words with 24 bits of function and 8
 * bits of an index of an encoding; an encoding is common to all pages or the page's own. Every
 * search is a binary search, checked against the section's bounds. A function without an entry uses
 * the entry before it. Encoding 0 means that nothing is known.
 */
#include "unwind/compact.h"

#include <string.h>

#include "image/macho/macho.h"
#include "sonde/status.h"
#include "unwind/compact_code.h"

/* ---- the table ------------------------------------------------------------------------------ */

#define PAGE_PAIRS      2u
#define PAGE_COMPRESSED 3u

static uint32_t word_at(const section_t *s, uint64_t offset) {
  uint32_t value = 0;
  if (offset <= s->size && s->size - offset >= 4) memcpy(&value, s->data + offset, 4);
  return value;
}

static uint16_t half_at(const section_t *s, uint64_t offset) {
  uint16_t value = 0;
  if (offset <= s->size && s->size - offset >= 2) memcpy(&value, s->data + offset, 2);
  return value;
}

/* Returns the last of COUNT entries, STRIDE bytes apart from START on, whose bits in MASK are at
 * most WANTED; COUNT if there is none. */
static uint32_t last_at_most(const section_t *s, uint64_t start, uint32_t count, uint32_t stride,
                             uint32_t mask, uint32_t wanted) {
  uint32_t low = 0, high = count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if ((word_at(s, start + (uint64_t)middle * stride) & mask) <= wanted)
      low = middle + 1;
    else
      high = middle;
  }
  return low ? low - 1 : count;
}

static bool fits(const section_t *s, uint64_t start, uint32_t count, uint32_t stride) {
  return start <= s->size && count <= (s->size - start) / stride;
}

typedef struct compact_entry {
  /* Of the function, from the image's header. */
  uint32_t start, end;
  uint32_t encoding;
} compact_entry_t;

static bool find_pair(const section_t *s, uint64_t page, uint32_t offset, compact_entry_t *out) {
  uint64_t entries = page + half_at(s, page + 4);
  uint32_t count = half_at(s, page + 6);
  if (!fits(s, entries, count, 8)) return false;
  uint32_t i = last_at_most(s, entries, count, 8, UINT32_MAX, offset);
  if (i == count) return false;
  out->start = word_at(s, entries + 8ull * i);
  out->encoding = word_at(s, entries + 8ull * i + 4);
  if (i + 1 < count) out->end = word_at(s, entries + 8ull * (i + 1));
  return true;
}

static bool find_compressed(const section_t *s, uint64_t page, uint32_t base, uint32_t offset,
                            compact_entry_t *out) {
  uint64_t entries = page + half_at(s, page + 4), own = page + half_at(s, page + 8);
  uint32_t count = half_at(s, page + 6), own_count = half_at(s, page + 10);
  uint32_t common = word_at(s, 4), common_count = word_at(s, 8);
  if (!fits(s, entries, count, 4) || !fits(s, own, own_count, 4) ||
      !fits(s, common, common_count, 4) || offset < base)
    return false;
  uint32_t i = last_at_most(s, entries, count, 4, 0xffffff, offset - base);
  if (i == count) return false;
  uint32_t entry = word_at(s, entries + 4ull * i), number = entry >> 24;
  out->start = base + (entry & 0xffffff);
  if (i + 1 < count) out->end = base + (word_at(s, entries + 4ull * (i + 1)) & 0xffffff);
  if (number < common_count)
    out->encoding = word_at(s, common + 4ull * number);
  else if (number - common_count < own_count)
    out->encoding = word_at(s, own + 4ull * (number - common_count));
  else
    return false;
  return true;
}

/* The last entry of the first level only ends the one before it. */
static bool find_entry(const section_t *s, uint32_t offset, compact_entry_t *out) {
  uint32_t index = word_at(s, 20), count = word_at(s, 24);
  if (s->size < 28 || word_at(s, 0) != 1 || count < 2 || !fits(s, index, count, 12)) return false;
  uint32_t i = last_at_most(s, index, count, 12, UINT32_MAX, offset);
  if (i >= count - 1) return false;
  uint32_t base = word_at(s, index + 12ull * i), page = word_at(s, index + 12ull * i + 4);
  out->end = word_at(s, index + 12ull * (i + 1));
  if (!page) return false;
  switch (word_at(s, page)) {
  case PAGE_PAIRS: return find_pair(s, page, offset, out);
  case PAGE_COMPRESSED: return find_compressed(s, page, base, offset, out);
  default: return false;
  }
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void set_saved(cfi_row_t *row, int n, int64_t below_cfa) {
  row->rules[n] = (cfi_rule_t){.how = CFI_OFFSET, .offset = (int32_t)-below_cfa};
}

static void set_cfa(cfi_row_t *row, int n, uint64_t offset) {
  row->cfa_register = (uint8_t)n;
  row->cfa_offset = (int64_t)offset;
}

#define X86_64_RBP_FRAME 1u
#define X86_64_IMMEDIATE 2u
#define X86_64_INDIRECT  3u
#define X86_64_DWARF     4u
#define ARM64_FRAMELESS  2u
#define ARM64_DWARF      3u
#define ARM64_FRAME      4u

/* rbx, r12 to r15, rbp, as the encodings number them from 1; -1: none. */
static int x86_64_register(uint32_t number) {
  static const int8_t dwarf[8] = {-1, 3, 12, 13, 14, 15, X86_64_RBP, -1};
  return dwarf[number & 7];
}

static void x86_64_framed(cfi_row_t *row, uint32_t encoding) {
  set_cfa(row, X86_64_RBP, 16);
  set_saved(row, X86_64_RBP, 16);
  int64_t below = 16 + (int64_t)(encoding >> 16 & 0xff) * 8;
  for (unsigned i = 0; i < 5; i++, below -= 8) {
    int n = x86_64_register(encoding >> (3 * i));
    if (n >= 0) set_saved(row, n, below);
  }
}

/* The registers that a frameless function pushed are encoded as one number: a permutation of those
 * that remain after each choice. */
static bool x86_64_pushed(cfi_row_t *row, uint32_t count, uint32_t permutation) {
  static const uint32_t weight[7][6] = {
      {0}, {1}, {5, 1}, {20, 4, 1}, {60, 12, 3, 1}, {120, 24, 6, 2, 1}, {120, 24, 6, 2, 1, 0}};
  bool used[7] = {false};
  if (count > 6) return false;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t left = weight[count][i] ? permutation / weight[count][i] : 0, number = 1;
    permutation -= left * weight[count][i];
    for (; number < 7; number++)
      if (!used[number] && left-- == 0) break;
    if (number == 7) return false;
    used[number] = true;
    set_saved(row, x86_64_register(number), 8 + (int64_t)(count - i) * 8);
  }
  return true;
}

static void arm64_saved_pairs(cfi_row_t *row, uint32_t encoding, int64_t below) {
  /* x19 and x20 to x27 and x28: the first pair is highest. */
  for (unsigned i = 0; i < 5; i++) {
    if (!(encoding >> i & 1)) continue;
    set_saved(row, (int)(19 + 2 * i), below);
    set_saved(row, (int)(20 + 2 * i), below + 8);
    below += 16;
  }
}

/* The size of a large x86_64 frame is in the instruction that makes it. */
static bool frameless_bytes(const compact_code_t *code, uint32_t encoding, uint64_t *out) {
  uint64_t at = encoding >> 16 & 0xff;
  uint32_t size;
  if (encoding >> 24 == X86_64_IMMEDIATE) {
    *out = at * 8;
    return true;
  }
  if (at + 4 > code->size) return false;
  memcpy(&size, code->bytes + at, 4);
  *out = (uint64_t)size + (encoding >> 13 & 7) * 8;
  return size < 1u << 30;
}

/* Sets the row before the frame is made and after it is released. */
static void apply_frame(cfi_row_t *row, machine_t machine, const compact_frame_t *frame) {
  memset(row->rules, 0, sizeof row->rules);
  set_cfa(row, machine_sp(machine), frame->cfa_bytes);
  if (machine == MACHINE_X86_64) set_saved(row, X86_64_RA, 8);
  if (!frame->has_saved_fp) return;
  set_saved(row, machine_fp(machine), (int64_t)frame->saved);
  if (machine == MACHINE_AARCH64) set_saved(row, AARCH64_LR, (int64_t)frame->saved - 8);
}

static int x86_64_row(cfi_row_t *row, uint32_t encoding, const compact_code_t *code, bool exact) {
  compact_frame_t frame = {.is_body = true};
  uint64_t size;
  set_saved(row, X86_64_RA, 8);
  switch (encoding >> 24) {
  case X86_64_RBP_FRAME:
    x86_64_framed(row, encoding);
    if (exact) frame = compact_frame_with_fp(MACHINE_X86_64, code);
    break;
  case X86_64_IMMEDIATE:
  case X86_64_INDIRECT:
    if (!frameless_bytes(code, encoding, &size) || size < 8 ||
        !x86_64_pushed(row, encoding >> 10 & 7, encoding & 0x3ff))
      return SONDE_EFORMAT;
    set_cfa(row, X86_64_RSP, size);
    if (exact) frame = compact_frame_without_fp(MACHINE_X86_64, code, size);
    break;
  case X86_64_DWARF: return SONDE_EUNSUPPORTED;
  default: return SONDE_ENOTFOUND;
  }
  if (!frame.is_body) apply_frame(row, MACHINE_X86_64, &frame);
  return 0;
}

static int arm64_row(cfi_row_t *row, uint32_t encoding, const compact_code_t *code, bool exact) {
  compact_frame_t frame = {.is_body = true};
  uint64_t size = (encoding >> 12 & 0xfff) * 16;
  switch (encoding >> 24) {
  case ARM64_FRAME:
    set_cfa(row, AARCH64_FP, 16);
    set_saved(row, AARCH64_FP, 16);
    set_saved(row, AARCH64_LR, 8);
    /* Each further pair is below the last. */
    for (int64_t i = 0, below = 16; i < 5; i++) {
      if (!(encoding >> i & 1)) continue;
      below += 16;
      set_saved(row, (int)(19 + 2 * i), below - 8);
      set_saved(row, (int)(20 + 2 * i), below);
    }
    if (exact) frame = compact_frame_with_fp(MACHINE_AARCH64, code);
    break;
  case ARM64_FRAMELESS:
    set_cfa(row, AARCH64_SP, size);
    arm64_saved_pairs(row, encoding, 8);
    if (exact) frame = compact_frame_without_fp(MACHINE_AARCH64, code, size);
    break;
  case ARM64_DWARF: return SONDE_EUNSUPPORTED;
  default: return SONDE_ENOTFOUND;
  }
  if (!frame.is_body) apply_frame(row, MACHINE_AARCH64, &frame);
  return 0;
}

/* ---- the function's code -------------------------------------------------------------------- */

/* The linker merges the entries of neighbors with the same encoding. Another table says which of
 * them contains PC. */
static void narrow_to_function(const image_t *image, uint64_t pc, cfi_row_t *row) {
  uint64_t at = 0, address = macho_header_address(image);
  while (macho_next_function(&image->macho.function_starts, &at, &address)) {
    if (address > pc) {
      if (address < row->function_end) row->function_end = row->row_end = address;
      return;
    }
    if (address > row->function_start) row->function_start = row->row_start = address;
  }
}

/* The code of a live image is where it is mapped, that of a file in the file. */
static compact_code_t code_of(const image_t *image, uint64_t start, uint64_t end, uint64_t pc) {
  compact_code_t code = {NULL, 0, 0};
  for (uint32_t i = 0; i < image->segment_count; i++) {
    const segment_t *s = &image->segments[i];
    uint64_t size = s->file_size < s->size ? s->file_size : s->size;
    if (!(s->flags & 1) || start < s->address || start - s->address >= size) continue; /* PF_X */
    if (end - s->address > size) end = s->address + size;
    if (end <= start || pc < start || pc > end) continue;
    if (image->file &&
        (s->file_offset > image->file_size || size > image->file_size - s->file_offset))
      continue;
    code.bytes = image->file ? image->file + s->file_offset + (start - s->address)
                             : (const uint8_t *)(uintptr_t)(start + image->slide);
    code.size = end - start;
    code.at = pc - start;
  }
  return code;
}

int compact_find_row(const image_t *image, machine_t machine, uint64_t pc, bool exact,
                     cfi_row_t *row) {
  const section_t *table = &image->macho.unwind_info;
  uint64_t base = macho_header_address(image), inside = exact ? pc : pc - 1;
  compact_entry_t entry = {0, 0, 0};
  if (!table->data || inside < base || inside - base > UINT32_MAX) return SONDE_ENOTFOUND;
  if (!find_entry(table, (uint32_t)(inside - base), &entry) || entry.end <= entry.start ||
      inside - base >= entry.end)
    return SONDE_ENOTFOUND;
  memset(row, 0, sizeof *row);
  row->function_start = row->row_start = base + entry.start;
  row->function_end = row->row_end = base + entry.end;
  row->return_register = (uint8_t)machine_ra(machine);
  bool is_large = machine == MACHINE_X86_64 && (entry.encoding >> 24 & 15) == X86_64_INDIRECT;
  if (exact || is_large) narrow_to_function(image, inside, row);
  compact_code_t code = code_of(image, row->function_start, row->function_end, pc);
  if (!code.bytes) return SONDE_EFORMAT;
  /* The bits above name a personality and mark a function's start. */
  uint32_t encoding = entry.encoding & 0x0fffffff;
  return machine == MACHINE_X86_64 ? x86_64_row(row, encoding, &code, exact)
                                   : arm64_row(row, encoding, &code, exact);
}
