/* SPDX-License-Identifier: MIT
 *
 * Bind opcodes (mach-o/loader.h, BIND_OPCODE_…): programs for a small machine that moves an address
 * through a segment and binds a symbol there. The high half of a byte is the operation, the low
 * half its operand. Lazy binds are many short programs, each of which dyld runs at a first call;
 * they are read in order. See macho/slots.h.
 */
#include "base/bits.h"
#include "image/macho/slots.h"

enum {
  OP_DONE = 0x00,
  OP_LIBRARY = 0x10,
  OP_LIBRARY_ULEB = 0x20,
  OP_LIBRARY_SPECIAL = 0x30,
  OP_SYMBOL = 0x40,
  OP_TYPE = 0x50,
  OP_ADDEND = 0x60,
  OP_SEGMENT = 0x70,
  OP_ADD = 0x80,
  OP_BIND = 0x90,
  OP_BIND_ADD = 0xa0,
  OP_BIND_ADD_SCALED = 0xb0,
  OP_BIND_TIMES = 0xc0,
  OP_THREADED = 0xd0,
};
#define SYMBOL_IS_WEAK 1u
#define TYPE_POINTER   1u

typedef struct machine {
  macho_slot_list_t *list;
  section_t code, names; /* the code; NAMES ends at its last string */
  uint64_t at;
  macho_slot_t slot;  /* the current state of the binding */
  uint64_t low, high; /* of the current segment */
  unsigned type, width;
  bool failed; /* the code ended early, or left the segments */
  bool no_memory;
} machine_t;

static uint64_t read_uleb(machine_t *m) {
  uint64_t value = 0;
  for (unsigned shift = 0; m->at < m->code.size; shift += 7) {
    uint8_t byte = m->code.data[m->at++];
    if (shift < 64) value |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return value;
  }
  m->failed = true;
  return 0;
}

static int64_t read_sleb(machine_t *m) {
  uint64_t value = 0;
  for (unsigned shift = 0; m->at < m->code.size;) {
    uint8_t byte = m->code.data[m->at++];
    if (shift < 64) value |= (uint64_t)(byte & 0x7f) << shift;
    shift += 7;
    if (byte & 0x80) continue;
    if (shift < 64 && (byte & 0x40)) value |= ~(uint64_t)0 << shift;
    return (int64_t)value;
  }
  m->failed = true;
  return 0;
}

static void read_symbol(machine_t *m, unsigned flags) {
  m->slot.name = macho_text_at(&m->names, m->at);
  m->slot.is_weak = flags & SYMBOL_IS_WEAK;
  m->failed |= !m->slot.name;
  while (m->at < m->code.size && m->code.data[m->at++])
    continue;
}

static void enter_segment(machine_t *m, unsigned number) {
  uint64_t offset = read_uleb(m);
  if (number >= m->list->segment_count) {
    m->failed = true;
    return;
  }
  m->low = m->list->segment_address[number];
  m->high = m->low + m->list->segment_size[number];
  m->slot.address = m->low + offset;
}

/* Binds the word at the current address and advances past it and by ADVANCE. */
static void bind(machine_t *m, uint64_t advance) {
  if (m->slot.address < m->low || m->slot.address >= m->high) m->failed = true;
  if (m->failed) return;
  if (m->type == TYPE_POINTER && !macho_slots_add(m->list, &m->slot)) m->no_memory = true;
  m->slot.address += m->width + advance;
}

static void bind_times(machine_t *m) {
  uint64_t count = read_uleb(m), skip = read_uleb(m);
  if (skip > m->high - m->low)
    m->failed |= count > 1; /* the next iteration ends at the segment's end */
  while (count-- > 0 && !m->failed && !m->no_memory)
    bind(m, skip);
}

static void step(machine_t *m, unsigned found) {
  uint8_t byte = m->code.data[m->at++];
  unsigned operand = byte & 15;
  switch (byte & 0xf0) {
  case OP_DONE:
    if (found != MACHO_SLOT_LAZY_BIND) m->at = m->code.size;
    break;
  case OP_LIBRARY: m->slot.library = (int32_t)operand; break;
  case OP_LIBRARY_ULEB: m->slot.library = (int32_t)(read_uleb(m) & 0xffff); break;
  case OP_LIBRARY_SPECIAL: m->slot.library = operand ? (int32_t)operand - 16 : 0; break;
  case OP_SYMBOL: read_symbol(m, operand); break;
  case OP_TYPE: m->type = operand; break;
  case OP_ADDEND: m->slot.addend = read_sleb(m); break;
  case OP_SEGMENT: enter_segment(m, operand); break;
  case OP_ADD: m->slot.address += read_uleb(m); break;
  case OP_BIND: bind(m, 0); break;
  case OP_BIND_ADD: bind(m, read_uleb(m)); break;
  case OP_BIND_ADD_SCALED: bind(m, (uint64_t)operand * m->width); break;
  case OP_BIND_TIMES: bind_times(m); break;
  case OP_THREADED: m->list->has_threaded = true; /* fall through */
  default: m->failed = true; break;
  }
}

static bool run(macho_slot_list_t *list, const section_t *code, unsigned found) {
  machine_t m = {.list = list,
                 .code = *code,
                 .names = macho_text(*code),
                 .type = TYPE_POINTER,
                 .width = list->image->is_64bit ? 8 : 4,
                 .slot = {.found = (uint8_t)found}};
  if (found == MACHO_SLOT_WEAK_BIND) m.slot.library = MACHO_LIBRARY_UNKNOWN;
  while (m.at < m.code.size && !m.failed && !m.no_memory)
    step(&m, found);
  list->broken += m.failed && !list->has_threaded;
  return !m.no_memory;
}

bool macho_slots_read_binds(macho_slot_list_t *list) {
  const macho_tables_t *tables = &list->image->macho;
  return run(list, &tables->bind, MACHO_SLOT_BIND) &&
         run(list, &tables->lazy_bind, MACHO_SLOT_LAZY_BIND) &&
         run(list, &tables->weak_bind, MACHO_SLOT_WEAK_BIND);
}
