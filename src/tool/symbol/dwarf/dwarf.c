/* SPDX-License-Identifier: MIT
 *
 * Reads DWARF through libdw: DWARF 2 to 5, compressed sections, split units (.dwo), supplementary
 * files (dwz). A scope is a DW_TAG_subprogram or DW_TAG_inlined_subroutine entry with code; the
 * parent of an inlined scope is the scope around it (DWARF 5 section 3.3.8).
 */
#include "symbol/dwarf/dwarf.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/message.h"
#include "base/room.h"
#include "symbol/dwarf/lines.h"
#include "symbol/dwarf/names.h"

/* Of nested entries; deeper nesting is hostile. */
#define DEPTH_MAX 512

typedef struct unit {
  Dwarf_Die die;   /* of the unit with the ranges and the lines */
  Dwarf_Die split; /* of the unit with the functions, if that is another one */
  bool split_searched;
  bool was_read;
} unit_t;

struct debug_info {
  Dwarf *dwarf;
  Elf *elf; /* NULL: libdw closes it */
  code_range_t code;
  unit_t *units;
  size_t unit_count, unit_capacity, read_count;
  unit_range_t *ranges; /* of all units, sorted by low; built at first use */
  size_t range_count, range_capacity;
  bool ranges_built;
};

/* The attributes of one entry, read in one pass. */
typedef struct die_attributes {
  Dwarf_Attribute low, high, ranges, origin, linkage_name, call_file, call_line, call_column;
  bool has_low, has_high, has_ranges, has_origin, has_linkage_name, has_file, has_line, has_column;
} die_attributes_t;

typedef struct unit_reader {
  debug_info_t *info;
  facts_t *facts;
  const char *folder; /* where the unit was compiled; relative paths begin there */
  Dwarf_Files *files;
  size_t file_count;
  const uint64_t *only;
  bool skips; /* types, and functions without code */
  uint32_t unit;
  dwarf_names_t names;
  struct late_scope {
    uint32_t scope;
    Dwarf_Die function;
  } * late; /* scopes that get their names at the end of the unit */
  size_t late_count, late_capacity;
  bool failed;
} unit_reader_t;

/* ---- units -------------------------------------------------------------------------------- */

static bool list_units(debug_info_t *info) {
  Dwarf_CU *cu = NULL;
  Dwarf_Die die;
  uint8_t type;
  while (dwarf_get_units(info->dwarf, cu, &cu, NULL, &type, &die, NULL) == 0) {
    room_need(DWARF_ROOM);
    if (type == DW_UT_type || type == DW_UT_split_type || type == DW_UT_partial) continue;
    if (!ARRAY_GROW(info->units, info->unit_count, info->unit_capacity)) return false;
    info->units[info->unit_count++] = (unit_t){.die = die};
  }
  return true;
}

/* libdw goes on without a compressed section that it cannot decompress; then names or lines would
 * be missing. Without .debug_info it opens nothing. Whether it was memory that it lacked is seen
 * when a section is tried again. IS_OPEN: libdw has opened ELF. */
static bool lacks_memory(Elf *elf, bool is_open) {
  static const char needed[] = " .debug_info .debug_abbrev .debug_line .debug_line_str .debug_str "
                               ".debug_str_offsets .debug_addr .debug_ranges .debug_rnglists ";
  size_t strings;
  GElf_Shdr header;
  if (!elf || elf_getshdrstrndx(elf, &strings) != 0) return false;
  for (Elf_Scn *s = elf_nextscn(elf, NULL); s; s = elf_nextscn(elf, s)) {
    if (!gelf_getshdr(s, &header) || !(header.sh_flags & SHF_COMPRESSED)) continue;
    const char *name = elf_strptr(elf, strings, header.sh_name);
    char word[32];
    snprintf(word, sizeof word, " %.28s ", name ? name : "");
    if (!name || !strstr(needed, word)) continue;
    errno = 0;
    int status = elf_compress(s, 0, 0);
    if (status < 0 ? errno == ENOMEM : is_open) return true;
  }
  return false;
}

/* Takes ownership of DWARF, and of ELF if it is not NULL, also on failure. */
static debug_info_t *open_dwarf(Dwarf *dwarf, Elf *elf, code_range_t code) {
  debug_info_t *info = dwarf ? calloc(1, sizeof *info) : NULL;
  if (!info) {
    if (dwarf) dwarf_end(dwarf);
    if (elf) elf_end(elf);
    return NULL;
  }
  dwarf_new_oom_handler(dwarf, message_out_of_memory);
  if (lacks_memory(dwarf_getelf(dwarf), true)) message_out_of_memory();
  *info = (debug_info_t){.dwarf = dwarf, .elf = elf, .code = code};
  if (list_units(info) && info->unit_count) return info;
  debug_info_close(info);
  return NULL;
}

debug_info_t *debug_info_open(int fd, code_range_t code) {
  room_need_file(fd);
  Dwarf *dwarf = dwarf_begin(fd, DWARF_C_READ);
  if (!dwarf) {
    Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    if (lacks_memory(elf, false)) message_out_of_memory();
    elf_end(elf);
  }
  return open_dwarf(dwarf, NULL, code);
}

debug_info_t *debug_info_open_bytes(const uint8_t *bytes, size_t size, code_range_t code) {
  elf_version(EV_CURRENT);
  Elf *elf = elf_memory((char *)(uintptr_t)bytes, size);
  return open_dwarf(elf ? dwarf_begin_elf(elf, DWARF_C_READ, NULL) : NULL, elf, code);
}

void debug_info_close(debug_info_t *info) {
  if (!info) return;
  dwarf_end(info->dwarf);
  if (info->elf) elf_end(info->elf);
  free(info->units);
  free(info->ranges);
  free(info);
}

size_t debug_info_units(const debug_info_t *info) { return info->unit_count; }

size_t debug_info_units_read(const debug_info_t *info) { return info->read_count; }

static int compare_ranges(const void *left, const void *right) {
  const unit_range_t *a = left, *b = right;
  if (a->low != b->low) return a->low < b->low ? -1 : 1;
  return a->unit < b->unit ? -1 : a->unit > b->unit;
}

/* Adds those ranges of a unit that are code of the image. */
static bool add_unit_ranges(debug_info_t *info, size_t unit, unit_range_t **ranges, size_t *count,
                            size_t *capacity) {
  Dwarf_Addr base, low, high;
  ptrdiff_t next = 0;
  room_need(DWARF_ROOM);
  while ((next = dwarf_ranges(&info->units[unit].die, next, &base, &low, &high)) > 0) {
    low += info->code.bias;
    high += info->code.bias;
    if (low >= high || low < info->code.low || high > info->code.high) continue;
    if (!ARRAY_GROW(*ranges, *count, *capacity)) return false;
    (*ranges)[(*count)++] = (unit_range_t){low, high, (uint32_t)unit};
  }
  return true;
}

static void build_ranges(debug_info_t *info) {
  info->ranges_built = true;
  for (size_t i = 0; i < info->unit_count; i++)
    if (!add_unit_ranges(info, i, &info->ranges, &info->range_count, &info->range_capacity)) return;
  if (info->range_count)
    qsort(info->ranges, info->range_count, sizeof *info->ranges, compare_ranges);
}

/* Tries the nearest ranges that start at or below ADDRESS; units hardly overlap. */
static bool search_ranges(debug_info_t *info, uint64_t address, size_t *unit) {
  if (!info->ranges_built) build_ranges(info);
  size_t low = ARRAY_SEARCH(info->range_count, i, info->ranges[i].low <= address);
  for (int tries = 0; low-- > 0 && tries < 16; tries++)
    if (address < info->ranges[low].high) {
      *unit = info->ranges[low].unit;
      return true;
    }
  return false;
}

static bool search_aranges(debug_info_t *info, uint64_t address, size_t *unit) {
  Dwarf_Aranges *aranges;
  Dwarf_Off offset;
  if (dwarf_getaranges(info->dwarf, &aranges, NULL) != 0) return false;
  Dwarf_Arange *arange = dwarf_getarange_addr(aranges, address - info->code.bias);
  if (!arange || dwarf_getarangeinfo(arange, NULL, NULL, &offset) != 0) return false;
  size_t low = ARRAY_SEARCH(info->unit_count, i, dwarf_dieoffset(&info->units[i].die) < offset);
  if (low == info->unit_count || dwarf_dieoffset(&info->units[low].die) != offset) return false;
  *unit = low;
  return true;
}

bool debug_info_unit_of(debug_info_t *info, uint64_t address, size_t *unit) {
  return search_aranges(info, address, unit) || search_ranges(info, address, unit);
}

/* ---- scopes ------------------------------------------------------------------------------- */

static int read_attribute(Dwarf_Attribute *attribute, void *context) {
  die_attributes_t *entry = context;
#define READ(code, field, flag)                                                                    \
  case code:                                                                                       \
    entry->field = *attribute;                                                                     \
    entry->flag = true;                                                                            \
    break;
  switch (dwarf_whatattr(attribute)) {
    READ(DW_AT_low_pc, low, has_low)
    READ(DW_AT_high_pc, high, has_high)
    READ(DW_AT_ranges, ranges, has_ranges)
    READ(DW_AT_abstract_origin, origin, has_origin)
    READ(DW_AT_linkage_name, linkage_name, has_linkage_name)
    READ(DW_AT_call_file, call_file, has_file)
    READ(DW_AT_call_line, call_line, has_line)
    READ(DW_AT_call_column, call_column, has_column)
  }
#undef READ
  return DWARF_CB_OK;
}

static uint32_t number(Dwarf_Attribute *attribute, bool present) {
  Dwarf_Word value = 0;
  if (!present || dwarf_formudata(attribute, &value) != 0 || value > UINT32_MAX) return 0;
  return (uint32_t)value;
}

typedef bool range_fn(unit_reader_t *reading, uint64_t low, uint64_t high, void *context);

/* Calls VISIT for every range of the entry that is code of the image, until it returns false. */
static void visit_ranges(unit_reader_t *reading, Dwarf_Die *die, die_attributes_t *entry,
                         range_fn *visit, void *context) {
  const code_range_t *code = &reading->info->code;
  Dwarf_Addr base, low, high;
  if (entry->has_ranges) {
    ptrdiff_t next = 0;
    while ((next = dwarf_ranges(die, next, &base, &low, &high)) > 0) {
      low += code->bias;
      high += code->bias;
      if (low >= code->low && high <= code->high && low < high &&
          !visit(reading, low, high, context))
        return;
    }
  } else if (entry->has_low && entry->has_high && dwarf_formaddr(&entry->low, &low) == 0) {
    Dwarf_Word size;
    if (dwarf_formaddr(&entry->high, &high) != 0) { /* a constant is the size, DWARF 5, 2.17.2 */
      if (dwarf_formudata(&entry->high, &size) != 0) return;
      high = low + size;
    }
    low += code->bias;
    high += code->bias;
    if (low >= code->low && high <= code->high && low < high) visit(reading, low, high, context);
  }
}

typedef struct found {
  bool any, contains;
  uint64_t lowest, first;
  uint32_t scope; /* that the ranges belong to */
} found_t;

static bool check_range(unit_reader_t *reading, uint64_t low, uint64_t high, void *context) {
  found_t *found = context;
  if (!found->any) found->first = found->lowest = low;
  if (low < found->lowest) found->lowest = low;
  found->any = true;
  if (reading->only && low <= *reading->only && *reading->only < high) found->contains = true;
  return true;
}

static bool add_range(unit_reader_t *reading, uint64_t low, uint64_t high, void *context) {
  const found_t *found = context;
  if (!facts_range(reading->facts, low, high, found->scope)) reading->failed = true;
  return !reading->failed;
}

static uint32_t call_file(unit_reader_t *reading, die_attributes_t *entry) {
  uint32_t index = number(&entry->call_file, entry->has_file);
  if (!entry->has_file || index >= reading->file_count) return 0;
  const char *path = dwarf_filesrc(reading->files, index, NULL, NULL);
  uint32_t offset = 0;
  if (path && !dwarf_path(reading->facts, reading->folder, path, &offset)) reading->failed = true;
  return offset;
}

static bool add_late(unit_reader_t *reading, uint32_t scope, const Dwarf_Die *function) {
  reading->failed |= !ARRAY_GROW(reading->late, reading->late_count, reading->late_capacity);
  if (!reading->failed)
    reading->late[reading->late_count++] = (struct late_scope){scope, *function};
  return !reading->failed;
}

static void name_late(unit_reader_t *reading) {
  for (size_t i = 0; i < reading->late_count; i++)
    reading->facts->scopes[reading->late[i].scope].name =
        dwarf_name_of_late(&reading->names, &reading->late[i].function);
  free(reading->late);
}

/* Adds the scope of DIE. NOT_WANTED: it has no code of the image, or not the address looked up. */
typedef enum added { ADDED, NO_CODE, NOT_WANTED } added_t;
static added_t add_scope(unit_reader_t *reading, Dwarf_Die *die, bool inlined, uint32_t parent,
                         uint32_t *index) {
  die_attributes_t entry;
  entry.has_low = entry.has_high = entry.has_ranges = entry.has_origin = entry.has_linkage_name =
      false;
  entry.has_file = entry.has_line = entry.has_column = false;
  dwarf_getattrs(die, read_attribute, &entry, 0);
  if (!entry.has_ranges && !entry.has_low) return NO_CODE;
  found_t found = {0};
  visit_ranges(reading, die, &entry, check_range, &found);
  if (!found.any || (reading->only && !found.contains)) return NOT_WANTED;

  Dwarf_Die origin;
  bool named_by_origin =
      entry.has_origin && !entry.has_linkage_name && dwarf_formref_die(&entry.origin, &origin);
  scope_t scope = {.unit = reading->unit, .entry = found.first};
  scope.name = dwarf_name_of(&reading->names, named_by_origin ? &origin : die);
  bool late = reading->names.late;
  if (named_by_origin && !scope.name && !late) scope.name = dwarf_name_of(&reading->names, die);
  if (inlined) {
    scope.parent = parent;
    scope.call_file = call_file(reading, &entry);
    scope.call_line = number(&entry.call_line, entry.has_line);
    scope.call_column = number(&entry.call_column, entry.has_column);
  }
  if (reading->names.failed) reading->failed = true;
  if (reading->failed || !facts_scope(reading->facts, &scope, index)) {
    reading->failed = true;
    return NOT_WANTED;
  }
  if (late && !add_late(reading, *index, named_by_origin ? &origin : die)) return NOT_WANTED;
  found.scope = *index;
  visit_ranges(reading, die, &entry, add_range, &found);
  return ADDED;
}

/* Enters what contains functions without being one. False: the entry is not entered. */
static bool enter(unit_reader_t *reading, Dwarf_Die *die, int tag) {
  switch (tag) {
  case DW_TAG_class_type:
  case DW_TAG_structure_type:
  case DW_TAG_union_type:
  case DW_TAG_interface_type:
    if (reading->skips) return false;
    /* fall through */
  case DW_TAG_namespace:
  case DW_TAG_module:
    if (!reading->only) dwarf_names_enter(&reading->names, die, tag);
    return true;
  case DW_TAG_lexical_block:
  case DW_TAG_try_block:
  case DW_TAG_catch_block:
  case DW_TAG_with_stmt: return true;
  default: return false;
  }
}

/* Reads DIE and its siblings. PARENT is the index + 1 of the scope around them. */
static void read_entries(unit_reader_t *reading, Dwarf_Die *die, uint32_t parent, int depth) {
  if (depth > DEPTH_MAX) return;
  do {
    Dwarf_Die child;
    uint32_t index, inner = parent;
    size_t path_size = reading->names.path_size;
    Dwarf_Die function = reading->names.function;
    int tag = dwarf_tag(die);
    if (tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine) {
      if (tag == DW_TAG_subprogram && !reading->only && (path_size || function.addr))
        dwarf_names_note(&reading->names, die);
      switch (add_scope(reading, die, tag == DW_TAG_inlined_subroutine && parent, parent, &index)) {
      case ADDED: inner = index + 1; break;
      case NO_CODE: /* an abstract instance may contain a lambda with code */
        if (reading->skips) continue;
        inner = 0;
        break;
      case NOT_WANTED: continue;
      }
      reading->names.path_size = 0;
      if (tag == DW_TAG_subprogram) reading->names.function = *die;
    } else if (!enter(reading, die, tag)) {
      continue;
    }
    if (dwarf_child(die, &child) == 0) read_entries(reading, &child, inner, depth + 1);
    reading->names.path_size = path_size;
    reading->names.function = function;
  } while (!reading->failed && dwarf_siblingof(die, die) == 0);
}

/* ---- one unit ----------------------------------------------------------------------------- */

/* The functions of a skeleton unit are in its .dwo file (DWARF 5 section 7.3.2; a GNU extension of
 * DWARF 4). libdw finds the file by name and, since 0.192, in a package (.dwp). Without it the unit
 * still has its lines. */
static void find_split(unit_t *unit) {
  Dwarf_Die other = {0};
  uint8_t type;
  if (unit->split_searched) return;
  unit->split_searched = true;
  if (dwarf_cu_info(unit->die.cu, NULL, &type, NULL, &other, NULL, NULL, NULL) == 0 &&
      type == DW_UT_skeleton && other.addr)
    unit->split = other;
}

/* A single address is first searched where most functions are. */
static void read_functions(unit_reader_t *reading, Dwarf_Die *unit) {
  Dwarf_Die child;
  size_t before = reading->facts->scope_count;
  reading->names.cu = unit->cu;
  reading->names.searches = reading->skips = reading->only != NULL;
  if (dwarf_child(unit, &child) != 0) return;
  Dwarf_Die first = child;
  read_entries(reading, &child, 0, 0);
  if (reading->skips && reading->facts->scope_count == before) {
    reading->skips = false;
    read_entries(reading, &first, 0, 0);
  }
  name_late(reading);
}

static bool read_lines(unit_reader_t *reading, size_t unit) {
  debug_info_t *info = reading->info;
  unit_range_t *ranges = NULL;
  size_t count = 0, capacity = 0;
  bool done = add_unit_ranges(info, unit, &ranges, &count, &capacity);
  if (done && count) qsort(ranges, count, sizeof *ranges, compare_ranges);
  const dwarf_lines_t lines = {.dwarf = info->dwarf,
                               .bias = info->code.bias,
                               .ranges = ranges,
                               .range_count = count,
                               .folder = reading->folder,
                               .unit = reading->unit,
                               .only = reading->only};
  done = done && dwarf_lines_read(&lines, &info->units[unit].die, reading->facts);
  free(ranges);
  return done;
}

bool debug_info_read(debug_info_t *info, size_t unit_index, const uint64_t *only, facts_t *facts) {
  unit_t *unit = &info->units[unit_index];
  unit_reader_t reading = {.info = info,
                           .facts = facts,
                           .only = only,
                           .unit = (uint32_t)unit_index,
                           .names = {.strings = &facts->strings}};
  info->read_count += !unit->was_read;
  unit->was_read = true;
  find_split(unit);
  Dwarf_Attribute folder;
  reading.folder = dwarf_formstring(dwarf_attr(&unit->die, DW_AT_comp_dir, &folder));
  if (!read_lines(&reading, unit_index)) return false;
  if (dwarf_getsrcfiles(&unit->die, &reading.files, &reading.file_count) != 0)
    reading.file_count = 0;
  read_functions(&reading, unit->split.addr ? &unit->split : &unit->die);
  dwarf_names_free(&reading.names);
  return !reading.failed && !reading.names.failed;
}
