/* SPDX-License-Identifier: MIT
 *
 * Finds the row of an address: finds the FDE, reads its CIE, and executes their instructions up to
 * the address.
 *
 * A live image has a sorted table (.eh_frame_hdr), so a search takes a dozen probes. Without the
 * table (a stripped header, or .debug_frame) the section is read from its start. That takes linear
 * time; only the command meets such images.
 *
 * Entries are little-endian. Their offsets have 32 bits unless the extended length says otherwise.
 * A malicious section costs at most one pass over its bytes.
 */
#include "unwind/cfi.h"
#include "unwind/compact.h"
#include "unwind/byte_cursor.h"
#include "os/os.h"
#include "sonde/status.h"

/* Nesting limit of DW_CFA_remember_state; compilers use one level. */
#define STATES_MAX 4

typedef struct cie {
  const uint8_t *code, *code_end;
  uint64_t code_align;
  int64_t data_align;
  uint64_t return_register;
  /* Encoding of the FDEs' addresses. */
  uint8_t pointer_encoding;
  bool has_augmentation_data, signal_frame;
} cie_t;

typedef struct fde {
  cie_t cie;
  uint64_t start, end;
  const uint8_t *code, *code_end;
} fde_t;

/* ---- encoded pointers ----------------------------------------------------------------------- */

enum {
  PE_absptr = 0x00,
  PE_uleb128 = 0x01,
  PE_udata2 = 0x02,
  PE_udata4 = 0x03,
  PE_udata8 = 0x04,
  PE_sleb128 = 0x09,
  PE_sdata2 = 0x0a,
  PE_sdata4 = 0x0b,
  PE_sdata8 = 0x0c,
  PE_pcrel = 0x10,
  PE_datarel = 0x30,
  PE_omit = 0xff
};

/* Reads a pointer of ENCODING from C, which reads SECTION. DATA is the base of datarel. */
static uint64_t read_pointer(byte_cursor_t *c, const section_t *section, uint8_t encoding,
                             uint64_t data) {
  uint64_t here = section->address + (uint64_t)(c->p - section->data);
  uint64_t value;
  switch (encoding & 0x0f) {
  case PE_absptr:
  case PE_udata8:
  case PE_sdata8: value = byte_cursor_u64(c); break;
  case PE_uleb128: value = byte_cursor_uleb(c); break;
  case PE_sleb128: value = (uint64_t)byte_cursor_sleb(c); break;
  case PE_udata2: value = byte_cursor_u16(c); break;
  case PE_sdata2: value = (uint64_t)(int64_t)(int16_t)byte_cursor_u16(c); break;
  case PE_udata4: value = byte_cursor_u32(c); break;
  case PE_sdata4: value = (uint64_t)(int64_t)(int32_t)byte_cursor_u32(c); break;
  default: c->failed = true; return 0;
  }
  switch (encoding & 0x70) {
  case PE_pcrel: value += here; break;
  case PE_datarel: value += data; break;
  case 0: break;
  default: c->failed = true;
  }
  return value;
}

/* ---- entries -------------------------------------------------------------------------------- */

/* The header of an entry: its length and its id or back reference. */
typedef struct cfi_entry {
  /* After the id, and one past the entry. */
  const uint8_t *body, *end;
  /* Address of the id field, from which .eh_frame counts back. */
  const uint8_t *id_at;
  uint64_t id;
  bool is_64bit;
} cfi_entry_t;

static bool read_entry(const section_t *section, const uint8_t *at, bool is_eh,
                       cfi_entry_t *cfi_entry) {
  byte_cursor_t c = {at, section->data + section->size, false};
  if (at < section->data || at >= c.end) return false;
  uint64_t length = byte_cursor_u32(&c);
  cfi_entry->is_64bit = length == 0xffffffff;
  if (cfi_entry->is_64bit) length = byte_cursor_u64(&c);
  if (c.failed || length == 0 || length > byte_cursor_left(&c)) return false;
  cfi_entry->end = c.p + length;
  cfi_entry->id_at = c.p;
  c.end = cfi_entry->end;
  cfi_entry->id = cfi_entry->is_64bit && !is_eh ? byte_cursor_u64(&c) : byte_cursor_u32(&c);
  cfi_entry->body = c.p;
  return !c.failed;
}

static bool entry_is_cie(const cfi_entry_t *cfi_entry, bool is_eh) {
  if (is_eh) return cfi_entry->id == 0;
  return cfi_entry->is_64bit ? cfi_entry->id == ~(uint64_t)0 : cfi_entry->id == 0xffffffff;
}

static bool read_augmentation(byte_cursor_t *c, const char *text, const section_t *section,
                              cie_t *cie) {
  if (text[0] != 'z') return text[0] == 0;
  cie->has_augmentation_data = true;
  uint64_t size = byte_cursor_uleb(c);
  if (c->failed || size > byte_cursor_left(c)) return false;
  const uint8_t *after = c->p + size;
  for (const char *t = text + 1; *t; t++) {
    if (*t == 'R')
      cie->pointer_encoding = byte_cursor_u8(c);
    else if (*t == 'L')
      byte_cursor_u8(c);
    else if (*t == 'P') {
      uint8_t encoding = byte_cursor_u8(c);
      read_pointer(c, section, encoding & 0x7f, 0);
    } else if (*t == 'S')
      cie->signal_frame = true;
    else if (*t != 'B')
      break; /* An unknown letter. The size allows skipping the rest. */
  }
  c->p = after;
  return true;
}

static bool read_cie(const section_t *section, const uint8_t *at, bool is_eh, cie_t *cie) {
  cfi_entry_t cfi_entry;
  *cie = (cie_t){0};
  if (!read_entry(section, at, is_eh, &cfi_entry) || !entry_is_cie(&cfi_entry, is_eh)) return false;
  byte_cursor_t c = {cfi_entry.body, cfi_entry.end, false};
  uint8_t version = byte_cursor_u8(&c);
  if (version != 1 && version != 3 && version != 4) return false;
  const char *augmentation = (const char *)c.p;
  while (byte_cursor_u8(&c))
    ;
  if (c.failed) return false;
  if (version == 4) {
    uint8_t address_size = byte_cursor_u8(&c), segment_size = byte_cursor_u8(&c);
    if (address_size != 8 || segment_size != 0) return false;
  }
  cie->code_align = byte_cursor_uleb(&c);
  cie->data_align = byte_cursor_sleb(&c);
  cie->return_register = version == 1 ? byte_cursor_u8(&c) : byte_cursor_uleb(&c);
  if (!read_augmentation(&c, augmentation, section, cie)) return false;
  cie->code = c.p;
  cie->code_end = cfi_entry.end;
  return !c.failed && cie->return_register < REGS_COUNT;
}

/* Reads the FDE at AT. Returns false if there is none or it is a CIE. */
static bool read_fde(const section_t *section, const uint8_t *at, bool is_eh, fde_t *fde) {
  cfi_entry_t cfi_entry;
  if (!read_entry(section, at, is_eh, &cfi_entry) || entry_is_cie(&cfi_entry, is_eh)) return false;
  uint64_t back = (uint64_t)(cfi_entry.id_at - section->data);
  uint64_t cie_at = is_eh ? back - cfi_entry.id : cfi_entry.id;
  if ((is_eh && cfi_entry.id > back) || cie_at >= section->size) return false;
  if (!read_cie(section, section->data + cie_at, is_eh, &fde->cie)) return false;
  byte_cursor_t c = {cfi_entry.body, cfi_entry.end, false};
  fde->start = read_pointer(&c, section, fde->cie.pointer_encoding, 0);
  uint64_t size = read_pointer(&c, section, fde->cie.pointer_encoding & 0x0f, 0);
  fde->end = fde->start + size;
  if (fde->cie.has_augmentation_data) byte_cursor_skip(&c, byte_cursor_uleb(&c));
  fde->code = c.p;
  fde->code_end = cfi_entry.end;
  return !c.failed && fde->end >= fde->start;
}

/* ---- finding the FDE ------------------------------------------------------------------------ */

static bool fde_covers(const fde_t *fde, uint64_t address) {
  return address >= fde->start && address < fde->end;
}

/* Searches the table of .eh_frame_hdr if it has the form that every linker writes: sorted pairs of
 * 32-bit offsets from the header. */
static bool find_by_table(const section_t *hdr, const section_t *frames, bool is_eh,
                          uint64_t address, fde_t *fde, bool *has_table) {
  *has_table = false;
  if (!hdr->data || hdr->size < 12) return false;
  byte_cursor_t c = {hdr->data, hdr->data + hdr->size, false};
  uint8_t version = byte_cursor_u8(&c), frame_enc = byte_cursor_u8(&c),
          count_enc = byte_cursor_u8(&c), table_enc = byte_cursor_u8(&c);
  if (version != 1 || table_enc != (PE_datarel | PE_sdata4) || count_enc == PE_omit) return false;
  read_pointer(&c, hdr, frame_enc, hdr->address);
  uint64_t count = read_pointer(&c, hdr, count_enc, hdr->address);
  if (c.failed || count == 0 || count > byte_cursor_left(&c) / 8) return false;
  *has_table = true;
  const uint8_t *table = c.p;
  /* Finds the last entry whose start is at or below ADDRESS. */
  uint64_t low = 0, high = count;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    int32_t start;
    memcpy(&start, table + middle * 8, 4);
    if (hdr->address + (uint64_t)(int64_t)start <= address)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == 0) return false;
  int32_t offset;
  memcpy(&offset, table + (low - 1) * 8 + 4, 4);
  uint64_t fde_at = hdr->address + (uint64_t)(int64_t)offset - frames->address;
  if (!frames->data || fde_at >= frames->size) return false;
  return read_fde(frames, frames->data + fde_at, is_eh, fde) && fde_covers(fde, address);
}

static bool find_by_scan(const section_t *section, bool is_eh, uint64_t address, fde_t *fde) {
  const uint8_t *at = section->data;
  cfi_entry_t cfi_entry;
  while (at && read_entry(section, at, is_eh, &cfi_entry)) {
    if (read_fde(section, at, is_eh, fde) && fde_covers(fde, address)) return true;
    at = cfi_entry.end;
  }
  return false;
}

static bool find_in(const section_t *hdr, const section_t *frames, bool is_eh, uint64_t address,
                    fde_t *fde) {
  bool has_table;
  if (find_by_table(hdr, frames, is_eh, address, fde, &has_table)) return true;
  return !has_table && find_by_scan(frames, is_eh, address, fde);
}

static bool find_fde(const image_t *image, uint64_t address, fde_t *fde, const section_t **in) {
  *in = &image->eh_frame;
  if (find_in(&image->eh_frame_hdr, &image->eh_frame, true, address, fde)) return true;
  *in = &image->debug_frame;
  return find_in(&image->debug_frame_hdr, &image->debug_frame, false, address, fde);
}

/* ---- building a table ------------------------------------------------------------------------ */

typedef struct table_entry {
  int32_t start, fde;
} table_entry_t;

typedef struct built_table {
  uint8_t version, frame_encoding, count_encoding, table_encoding;
  uint32_t none; /* of the size that FRAME_ENCODING has */
  uint32_t count;
  table_entry_t entries[];
} built_table_t;

/* Lists at most ROOM entries, in the order of the section; without OUT, counts them. Returns their
 * number; UINT32_MAX: an address does not fit. */
static uint32_t list_fdes(const section_t *frames, bool is_eh, table_entry_t *out, uint32_t room) {
  const uint8_t *at = frames->data;
  uint32_t count = 0;
  cfi_entry_t cfi_entry;
  fde_t fde;
  for (; at && count < room && read_entry(frames, at, is_eh, &cfi_entry); at = cfi_entry.end) {
    if (!read_fde(frames, at, is_eh, &fde) || fde.start == fde.end) continue;
    int64_t start = (int64_t)(fde.start - frames->address), place = at - frames->data;
    if (start != (int32_t)start || place != (int32_t)place) return UINT32_MAX;
    if (out) out[count] = (table_entry_t){(int32_t)start, (int32_t)place};
    count++;
  }
  return count;
}

/* Moves the entry at AT down in the heap of COUNT. */
static void sift(table_entry_t *heap, uint32_t at, uint32_t count) {
  table_entry_t moved = heap[at];
  for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count && heap[child + 1].start > heap[child].start) child++;
    if (heap[child].start <= moved.start) break;
    heap[at] = heap[child];
  }
  heap[at] = moved;
}

static void sort(table_entry_t *items, uint32_t count) {
  for (uint32_t i = count / 2; i-- > 0;)
    sift(items, i, count);
  for (uint32_t left = count; left > 1;) {
    table_entry_t last = items[--left];
    items[left] = items[0];
    items[0] = last;
    sift(items, 0, left);
  }
}

/* In the form of .eh_frame_hdr, for find_by_table. */
static section_t build_table(const section_t *frames, bool is_eh) {
  uint32_t count = list_fdes(frames, is_eh, NULL, UINT32_MAX);
  if (count == 0 || count == UINT32_MAX) return (section_t){0};
  uint64_t bytes = sizeof(built_table_t) + (uint64_t)count * sizeof(table_entry_t);
  built_table_t *table = os_map(bytes);
  if (!table) return (section_t){0};
  *table = (built_table_t){1, PE_udata4, PE_udata4, PE_datarel | PE_sdata4, 0, count};
  if (list_fdes(frames, is_eh, table->entries, count) !=
      count) { /* the image was unloaded meanwhile */
    os_unmap(table, bytes);
    return (section_t){0};
  }
  sort(table->entries, count);
  return (section_t){(const uint8_t *)table, bytes, frames->address};
}

static void drop_table(section_t *hdr) {
  if (hdr->data) os_unmap((void *)(uintptr_t)hdr->data, hdr->size);
  *hdr = (section_t){0};
}

void cfi_index(image_t *image, bool build) {
  bool is_own = image->eh_frame_hdr.data && image->eh_frame_hdr.address == image->eh_frame.address;
  if (build) {
    if (!image->eh_frame_hdr.data) image->eh_frame_hdr = build_table(&image->eh_frame, true);
    if (!image->debug_frame_hdr.data)
      image->debug_frame_hdr = build_table(&image->debug_frame, false);
    return;
  }
  if (is_own) drop_table(&image->eh_frame_hdr);
  drop_table(&image->debug_frame_hdr);
}

/* ---- executing the instructions ------------------------------------------------------------- */

/* The part of a row that DW_CFA_remember_state saves. */
typedef struct cfi_state {
  cfi_rule_t rules[REGS_COUNT];
  bool cfa_is_expression, ra_signed;
  uint8_t cfa_register;
  uint16_t cfa_length;
  int64_t cfa_offset;
} cfi_state_t;

typedef struct cfi_run {
  const fde_t *fde;
  const section_t *section;
  /* The address whose row is searched. */
  uint64_t target;
  /* Start of the current row. */
  uint64_t location;
  /* Start of the next row, once known. */
  uint64_t next;
  cfi_state_t now, initial;
  cfi_state_t saved[STATES_MAX];
  int saved_count;
  bool bad;
} cfi_run_t;

enum {
  CFA_nop = 0x00,
  CFA_set_loc,
  CFA_advance_loc1,
  CFA_advance_loc2,
  CFA_advance_loc4,
  CFA_offset_extended,
  CFA_restore_extended,
  CFA_undefined,
  CFA_same_value,
  CFA_register,
  CFA_remember_state,
  CFA_restore_state,
  CFA_def_cfa,
  CFA_def_cfa_register,
  CFA_def_cfa_offset,
  CFA_def_cfa_expression,
  CFA_expression,
  CFA_offset_extended_sf,
  CFA_def_cfa_sf,
  CFA_def_cfa_offset_sf,
  CFA_val_offset,
  CFA_val_offset_sf,
  CFA_val_expression,
  CFA_AARCH64_negate_ra_state = 0x2d,
  CFA_GNU_args_size = 0x2e,
  CFA_GNU_negative_offset_extended = 0x2f
};

static void set_rule(cfi_run_t *run, uint64_t reg, cfi_how_t how, int64_t offset) {
  run->bad |= offset != (int32_t)offset;
  /* Vector registers and others do not matter to unwinding. */
  if (reg < REGS_COUNT)
    run->now.rules[reg] = (cfi_rule_t){.how = (uint8_t)how, .offset = (int32_t)offset};
}

static void restore_rule(cfi_run_t *run, uint64_t reg) {
  if (reg < REGS_COUNT) run->now.rules[reg] = run->initial.rules[reg];
}

/* Skips an expression. Returns its offset in the section. */
static int32_t read_block(cfi_run_t *run, byte_cursor_t *c, uint16_t *length) {
  uint64_t size = byte_cursor_uleb(c);
  int64_t at = c->p - run->section->data;
  byte_cursor_skip(c, size);
  run->bad |= c->failed || size > UINT16_MAX || at > INT32_MAX;
  *length = (uint16_t)size;
  return (int32_t)at;
}

static void set_expression(cfi_run_t *run, byte_cursor_t *c, cfi_how_t how) {
  uint64_t reg = byte_cursor_uleb(c);
  uint16_t length;
  int32_t block = read_block(run, c, &length);
  if (reg < REGS_COUNT)
    run->now.rules[reg] = (cfi_rule_t){.how = (uint8_t)how, .length = length, .offset = block};
}

static void set_cfa(cfi_run_t *run, uint64_t reg, int64_t offset) {
  run->bad |= reg >= REGS_COUNT;
  run->now.cfa_is_expression = false;
  run->now.cfa_register = (uint8_t)reg;
  run->now.cfa_offset = offset;
}

static void restore_state(cfi_run_t *run) {
  if (run->saved_count == 0)
    run->bad = true;
  else
    run->now = run->saved[--run->saved_count];
}

static void remember_state(cfi_run_t *run) {
  if (run->saved_count == STATES_MAX)
    run->bad = true;
  else
    run->saved[run->saved_count++] = run->now;
}

/* Executes a location instruction. Returns true if the row of the target is complete. */
static bool advance(cfi_run_t *run, uint64_t location) {
  if (location > run->target) {
    run->next = location;
    return true;
  }
  run->location = location;
  return false;
}

/* A factored offset, modulo 2^64 like the rest of the arithmetic. */
static int64_t scaled(uint64_t factor, const cie_t *cie) {
  return (int64_t)(factor * (uint64_t)cie->data_align);
}

/* Executes an instruction for the rule of one register. Returns false if OP is another instruction.
 */
static bool run_rule(cfi_run_t *run, byte_cursor_t *c, uint8_t op) {
  const cie_t *cie = &run->fde->cie;
  if (op == CFA_expression || op == CFA_val_expression) {
    set_expression(run, c, op == CFA_expression ? CFI_EXPRESSION : CFI_VAL_EXPRESSION);
    return true;
  }
  uint64_t reg = byte_cursor_uleb(c);
  switch (op) {
  case CFA_offset_extended: set_rule(run, reg, CFI_OFFSET, scaled(byte_cursor_uleb(c), cie)); break;
  case CFA_offset_extended_sf:
    set_rule(run, reg, CFI_OFFSET, scaled((uint64_t)byte_cursor_sleb(c), cie));
    break;
  case CFA_GNU_negative_offset_extended:
    set_rule(run, reg, CFI_OFFSET, scaled(0 - byte_cursor_uleb(c), cie));
    break;
  case CFA_val_offset: set_rule(run, reg, CFI_VAL_OFFSET, scaled(byte_cursor_uleb(c), cie)); break;
  case CFA_val_offset_sf:
    set_rule(run, reg, CFI_VAL_OFFSET, scaled((uint64_t)byte_cursor_sleb(c), cie));
    break;
  case CFA_restore_extended: restore_rule(run, reg); break;
  case CFA_undefined: set_rule(run, reg, CFI_UNDEFINED, 0); break;
  case CFA_same_value: set_rule(run, reg, CFI_SAME, 0); break;
  case CFA_register: set_rule(run, reg, CFI_REGISTER, (int64_t)byte_cursor_uleb(c)); break;
  default: return false;
  }
  return true;
}

/* Executes an instruction for the CFA. Returns false if OP is another instruction. */
static bool run_cfa(cfi_run_t *run, byte_cursor_t *c, uint8_t op) {
  const cie_t *cie = &run->fde->cie;
  uint64_t reg = op == CFA_def_cfa || op == CFA_def_cfa_sf || op == CFA_def_cfa_register
                     ? byte_cursor_uleb(c)
                     : run->now.cfa_register;
  switch (op) {
  case CFA_def_cfa:
  case CFA_def_cfa_offset: set_cfa(run, reg, (int64_t)byte_cursor_uleb(c)); break;
  case CFA_def_cfa_sf:
  case CFA_def_cfa_offset_sf: set_cfa(run, reg, scaled((uint64_t)byte_cursor_sleb(c), cie)); break;
  case CFA_def_cfa_register: set_cfa(run, reg, run->now.cfa_offset); break;
  case CFA_def_cfa_expression:
    run->now.cfa_offset = read_block(run, c, &run->now.cfa_length);
    run->now.cfa_is_expression = true;
    break;
  default: return false;
  }
  return true;
}

/* Executes one instruction. Returns true if the row of the target is complete. */
static bool run_one(cfi_run_t *run, byte_cursor_t *c) {
  const cie_t *cie = &run->fde->cie;
  uint8_t op = byte_cursor_u8(c);
  uint8_t low = op & 0x3f;
  switch (op & 0xc0) {
  case 0x40: return advance(run, run->location + low * cie->code_align);
  case 0x80: set_rule(run, low, CFI_OFFSET, scaled(byte_cursor_uleb(c), cie)); return false;
  case 0xc0: restore_rule(run, low); return false;
  }
  switch (op) {
  case CFA_nop: break;
  case CFA_set_loc: return advance(run, read_pointer(c, run->section, cie->pointer_encoding, 0));
  case CFA_advance_loc1: return advance(run, run->location + byte_cursor_u8(c) * cie->code_align);
  case CFA_advance_loc2: return advance(run, run->location + byte_cursor_u16(c) * cie->code_align);
  case CFA_advance_loc4: return advance(run, run->location + byte_cursor_u32(c) * cie->code_align);
  case CFA_remember_state: remember_state(run); break;
  case CFA_restore_state: restore_state(run); break;
  case CFA_AARCH64_negate_ra_state: run->now.ra_signed = !run->now.ra_signed; break;
  case CFA_GNU_args_size: byte_cursor_uleb(c); break;
  default: run->bad |= !run_cfa(run, c, op) && !run_rule(run, c, op);
  }
  return false;
}

static bool run_code(cfi_run_t *run, const uint8_t *code, const uint8_t *end) {
  byte_cursor_t c = {code, end, false};
  while (c.p < c.end && !run->bad) {
    if (run_one(run, &c)) break;
    run->bad |= c.failed;
  }
  return !run->bad;
}

int cfi_find_row(const image_t *image, uint64_t address, cfi_row_t *row) {
  fde_t fde;
  cfi_run_t run;
  run = (cfi_run_t){.fde = &fde, .target = ~(uint64_t)0};
  if (!find_fde(image, address, &fde, &run.section)) return SONDE_ENOTFOUND;
  if (!run_code(&run, fde.cie.code, fde.cie.code_end)) return SONDE_EFORMAT;
  run.initial = run.now;
  run.target = address;
  run.location = fde.start;
  run.next = fde.end;
  if (!run_code(&run, fde.code, fde.code_end)) return SONDE_EFORMAT;
  row->function_start = fde.start;
  row->function_end = fde.end;
  row->row_start = run.location;
  row->row_end = run.next;
  row->cfa_is_expression = run.now.cfa_is_expression;
  row->cfa_register = run.now.cfa_register;
  row->cfa_length = run.now.cfa_length;
  row->cfa_offset = run.now.cfa_offset;
  row->expressions = run.section->data;
  row->return_register = (uint8_t)fde.cie.return_register;
  row->signal_frame = fde.cie.signal_frame;
  row->ra_signed = run.now.ra_signed;
  memcpy(row->rules, run.now.rules, sizeof row->rules);
  return 0;
}

int cfi_find_frame_row(const image_t *image, machine_t machine, uint64_t pc, bool exact,
                       cfi_row_t *row) {
  if (image->is_macho) {
    int compact = compact_find_row(image, machine, pc, exact, row);
    if (compact == 0) return 0;
  }
  int status = cfi_find_row(image, exact ? pc : pc - 1, row);
  if (exact || status == SONDE_EFORMAT || (status == 0 && row->function_end > pc)) return status;
  cfi_row_t here;
  if (cfi_find_row(image, pc, &here)) return status;
  if (status && here.function_start == pc) here.rules[here.return_register].how = CFI_UNDEFINED;
  if (here.signal_frame || here.rules[here.return_register].how == CFI_UNDEFINED) {
    *row = here;
    return 0;
  }
  return status;
}
