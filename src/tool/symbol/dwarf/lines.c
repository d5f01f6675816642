/* SPDX-License-Identifier: MIT */
#include "symbol/dwarf/lines.h"

#include <dwarf.h>
#include <gelf.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/room.h"

/* What libdw allocates for a byte of a line table at most: a list entry, a row and a pointer. */
#define ROOM_LINE_BYTE 128

typedef struct line_reader {
  const dwarf_lines_t *from;
  facts_t *facts;
  bool row_found; /* that of the address looked up */
  bool failed;
} line_reader_t;

/* libdw joins a file with its directory, but not with a relative compilation folder, which
 * reproducible builds have. */
bool dwarf_path(facts_t *facts, const char *folder, const char *path, uint32_t *offset) {
  char joined[PATH_MAX];
  if (path[0] != '/' && folder && *folder &&
      (size_t)snprintf(joined, sizeof joined, "%s/%s", folder, path) < sizeof joined)
    path = joined;
  return strings_add(&facts->strings, path, offset);
}

static void add_row(line_reader_t *reading, const line_row_t *row) {
  if (!facts_row(reading->facts, row)) reading->failed = true;
}

/* Adds ROW. If one address is looked up, adds only the row that covers it, as a sequence, when the
 * next row is read. HELD is the candidate. */
static void add_or_hold_row(line_reader_t *reading, const line_row_t *row, line_row_t *held) {
  if (!reading->from->only) {
    add_row(reading, row);
    return;
  }
  uint64_t wanted = *reading->from->only;
  if (held->address <= wanted && row->address > wanted && !held->end) {
    line_row_t end = *row;
    end.end = 1;
    add_row(reading, held);
    add_row(reading, &end);
    reading->row_found = true;
  }
  *held = *row;
}

/* libdw merges the sequences of a unit and sorts the rows. Then an empty sequence, whose end sorts
 * before its row, would seem to continue, and so would the sequence of a discarded function. So
 * rows are limited to the unit's own ranges. */
typedef struct line_state {
  uint64_t limit;  /* where the range of the last row ends */
  line_row_t last; /* the current row, if `open` */
  bool open;
  line_row_t held; /* see add_or_hold_row */
  const char *last_path;
  uint32_t last_file;
} line_state_t;

static void close_sequence(line_reader_t *reading, line_state_t *state, uint64_t address) {
  if (!state->open) return;
  line_row_t row = state->last;
  row.address = address < state->limit ? address : state->limit;
  row.end = 1;
  add_or_hold_row(reading, &row, &state->held);
  state->open = false;
}

/* The unit's range that contains ADDRESS; NULL: none does. */
static const unit_range_t *range_of(const line_reader_t *reading, uint64_t address) {
  const unit_range_t *ranges = reading->from->ranges;
  size_t low = ARRAY_SEARCH(reading->from->range_count, i, ranges[i].low <= address);
  return low && address < ranges[low - 1].high ? &ranges[low - 1] : NULL;
}

/* Where it ends; 0: there is none. */
static uint64_t range_end(const line_reader_t *reading, uint64_t address) {
  const unit_range_t *range = range_of(reading, address);
  return range ? range->high : 0;
}

static void read_line(line_reader_t *reading, Dwarf_Line *line, line_state_t *state) {
  Dwarf_Addr address;
  bool end = false;
  int number = 0, column = 0;
  if (!line || dwarf_lineaddr(line, &address) != 0) return;
  address += reading->from->bias;
  dwarf_lineendsequence(line, &end);
  uint64_t limit = end ? 0 : range_end(reading, address);
  if (address >= state->limit || !limit) close_sequence(reading, state, address);
  if (!limit) return;
  dwarf_lineno(line, &number);
  dwarf_linecol(line, &column);
  const char *path = dwarf_linesrc(line, NULL, NULL);
  if (path && path != state->last_path) {
    if (!dwarf_path(reading->facts, reading->from->folder, path, &state->last_file))
      reading->failed = true;
    state->last_path = path;
  }
  state->last = (line_row_t){.address = address,
                             .file = path ? state->last_file : 0,
                             .line = (uint32_t)number,
                             .column = (uint32_t)column,
                             .unit = reading->from->unit & 0x7fffffff};
  add_or_hold_row(reading, &state->last, &state->held);
  state->limit = limit;
  state->open = true;
}

/* Returns the bytes of the line table of DIE: its unit_length (DWARF 5 section 6.2.4). Returns the
 * section's size for 64-bit DWARF, for another byte order, and for a table that is not there. */
static uint64_t line_table_bytes(Dwarf *dwarf, Dwarf_Die *die) {
  Elf *elf = dwarf_getelf(dwarf);
  size_t names;
  GElf_Shdr header;
  Dwarf_Attribute attribute;
  Dwarf_Word at;
  const char *ident = elf_getident(elf, NULL);
  bool is_native = ident && ident[EI_DATA] == ELFDATA2LSB;
  if (elf_getshdrstrndx(elf, &names) != 0) return 0;
  for (Elf_Scn *s = elf_nextscn(elf, NULL); s; s = elf_nextscn(elf, s)) {
    const char *name = gelf_getshdr(s, &header) ? elf_strptr(elf, names, header.sh_name) : NULL;
    Elf_Data *data = name && !strcmp(name, ".debug_line") ? elf_rawdata(s, NULL) : NULL;
    if (!data) continue;
    uint32_t length = UINT32_MAX;
    if (is_native && dwarf_formudata(dwarf_attr(die, DW_AT_stmt_list, &attribute), &at) == 0 &&
        at <= data->d_size && data->d_size - at >= sizeof length)
      memcpy(&length, (const uint8_t *)data->d_buf + at, sizeof length);
    return length < data->d_size ? length : data->d_size;
  }
  return 0;
}

/* libdw ends with fewer rows, or crashes, when memory runs out while it reads lines. */
static void need_room_for_lines(Dwarf *dwarf, Dwarf_Die *die) {
  if (room_is_limited()) room_need(line_table_bytes(dwarf, die) * ROOM_LINE_BYTE + DWARF_ROOM);
}

static Dwarf_Addr address_of(Dwarf_Lines *lines, size_t index) {
  Dwarf_Addr address = 0;
  (void)dwarf_lineaddr(dwarf_onesrcline(lines, index), &address);
  return address;
}

/* Returns the first row of the range that contains the address looked up. */
static size_t first_line(const line_reader_t *reading, Dwarf_Lines *lines, size_t count) {
  const unit_range_t *range = range_of(reading, *reading->from->only);
  uint64_t low = range ? range->low - reading->from->bias : 0;
  return range ? ARRAY_SEARCH(count, i, address_of(lines, i) < low) : count;
}

bool dwarf_lines_read(const dwarf_lines_t *from, Dwarf_Die *unit, facts_t *facts) {
  line_state_t state = {.held = {.end = 1}};
  line_reader_t reading = {.from = from, .facts = facts};
  Dwarf_Lines *lines;
  size_t count;
  need_room_for_lines(from->dwarf, unit);
  if (dwarf_getsrclines(unit, &lines, &count) != 0) return true;
  size_t i = from->only ? first_line(&reading, lines, count) : 0;
  for (; i < count && !reading.failed && !reading.row_found; i++)
    read_line(&reading, dwarf_onesrcline(lines, i), &state);
  close_sequence(&reading, &state, UINT64_MAX);
  return !reading.failed;
}
