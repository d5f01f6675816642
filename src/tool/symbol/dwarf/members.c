/* SPDX-License-Identifier: MIT
 *
 * Facts: DWARF 5, sections 4.1 (variables), 5.5 (arrays), 5.7 (structures, their members and base
 * classes).
 */
#include "symbol/dwarf/members.h"

#include <ctype.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/message.h"
#include "symbol/dwarf/names.h"

/* Nested scopes and nested types; deeper nesting is hostile. */
enum { DEPTH_MAX = 64 };

typedef struct variable {
  uint64_t address;
  Dwarf_Off entry;
} variable_t;

struct members {
  int fd;
  Dwarf *dwarf;
  variable_t *items; /* sorted by address */
  size_t count, capacity;
};

/* ---- variables ---------------------------------------------------------------------------- */

static bool has_address(Dwarf_Die *die, Dwarf_Addr *address) {
  Dwarf_Attribute location;
  Dwarf_Op *ops;
  size_t count;
  if (!dwarf_attr(die, DW_AT_location, &location) ||
      dwarf_getlocation(&location, &ops, &count) != 0 || count != 1)
    return false;
  *address = ops[0].number;
  if (ops[0].atom == DW_OP_addr) return true;
  Dwarf_Attribute indexed; /* in .debug_addr, DWARF 5 section 2.5.1.1 */
  return ops[0].atom == DW_OP_addrx && dwarf_getlocation_attr(&location, ops, &indexed) == 0 &&
         dwarf_formaddr(&indexed, address) == 0;
}

static bool add_variable(members_t *m, Dwarf_Die *die) {
  Dwarf_Addr address;
  if (!has_address(die, &address)) return true;
  if (!ARRAY_GROW(m->items, m->count, m->capacity)) return false;
  m->items[m->count++] = (variable_t){address, dwarf_dieoffset(die)};
  return true;
}

/* Entries that may contain variables. */
static bool is_scope(int tag) {
  return tag == DW_TAG_namespace || tag == DW_TAG_subprogram || tag == DW_TAG_lexical_block ||
         tag == DW_TAG_module;
}

static bool add_children(members_t *m, Dwarf_Die *parent, int depth) {
  Dwarf_Die die;
  if (depth == DEPTH_MAX || dwarf_child(parent, &die) != 0) return true;
  do {
    int tag = dwarf_tag(&die);
    if (tag == DW_TAG_variable && !add_variable(m, &die)) return false;
    if (is_scope(tag) && !add_children(m, &die, depth + 1)) return false;
  } while (dwarf_siblingof(&die, &die) == 0);
  return true;
}

static bool add_units(members_t *m) {
  Dwarf_CU *cu = NULL;
  Dwarf_Die die;
  while (dwarf_get_units(m->dwarf, cu, &cu, NULL, NULL, &die, NULL) == 0)
    if (!add_children(m, &die, 0)) return false;
  return true;
}

static int by_address(const void *left, const void *right) {
  const variable_t *a = left, *b = right;
  return a->address < b->address ? -1 : a->address > b->address;
}

members_t *members_open(const char *path) {
  members_t *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->fd = open(path, O_RDONLY | O_CLOEXEC);
  m->dwarf = m->fd >= 0 ? dwarf_begin(m->fd, DWARF_C_READ) : NULL;
  if (m->dwarf) dwarf_new_oom_handler(m->dwarf, message_out_of_memory);
  if (m->dwarf && add_units(m) && m->count) {
    qsort(m->items, m->count, sizeof *m->items, by_address);
    return m;
  }
  members_close(m);
  return NULL;
}

void members_close(members_t *m) {
  if (!m) return;
  if (m->dwarf) dwarf_end(m->dwarf);
  if (m->fd >= 0) close(m->fd);
  free(m->items);
  free(m);
}

/* ---- types -------------------------------------------------------------------------------- */

/* The type of DIE without its names, const and volatile. */
static bool type_of(Dwarf_Die *die, Dwarf_Die *type) {
  Dwarf_Attribute attribute;
  return dwarf_attr_integrate(die, DW_AT_type, &attribute) && dwarf_formref_die(&attribute, type) &&
         dwarf_peel_type(type, type) == 0;
}

/* Identifiers that C and C++ reserve for their libraries. */
static bool is_reserved(const char *name) {
  return name[0] == '_' && (name[1] == '_' || isupper((unsigned char)name[1]));
}

/* Whether NAME contains WORD, which is in lower case, in any case. */
static bool contains(const char *name, const char *word) {
  for (; *name; name++)
    if (strncasecmp(name, word, strlen(word)) == 0) return true;
  return false;
}

static bool is_lock(Dwarf_Die *type) {
  static const char *const words[] = {"mutex", "lock", "cond", "semaphore", "barrier"};
  const char *name = dwarf_diename(type);
  for (size_t i = 0; name && i < sizeof words / sizeof *words; i++)
    if (contains(name, words[i])) return true;
  return false;
}

/* Finds the member or base class of TYPE that contains byte OFFSET; *START is where it begins. */
static bool find_member(Dwarf_Die *type, uint64_t offset, Dwarf_Die *member, uint64_t *start) {
  Dwarf_Attribute attribute;
  Dwarf_Die at, of;
  Dwarf_Word size, begin;
  if (dwarf_child(type, member) != 0) return false;
  do {
    int tag = dwarf_tag(member);
    if ((tag != DW_TAG_member && tag != DW_TAG_inheritance) ||
        dwarf_hasattr(member, DW_AT_external) || dwarf_hasattr(member, DW_AT_bit_size))
      continue;
    begin = 0; /* of a union's members */
    if (dwarf_attr(member, DW_AT_data_member_location, &attribute) &&
        dwarf_formudata(&attribute, &begin) != 0)
      continue; /* a virtual base class */
    at = *member;
    if (!type_of(&at, &of) || dwarf_aggregate_size(&of, &size) != 0) continue;
    *start = begin;
    if (offset >= begin && offset - begin < size) return true;
  } while (dwarf_siblingof(member, member) == 0);
  return false;
}

/* The size of one item, which is an array itself in arrays of several dimensions; 0: unknown. */
static uint64_t item_size(Dwarf_Die *array) {
  Dwarf_Die child, of;
  Dwarf_Word size;
  unsigned dimensions = 0;
  if (dwarf_child(array, &child) == 0) do
      dimensions += dwarf_tag(&child) == DW_TAG_subrange_type;
    while (dwarf_siblingof(&child, &child) == 0);
  return dimensions == 1 && type_of(array, &of) && dwarf_aggregate_size(&of, &size) == 0 ? size : 0;
}

/* What has been written of a name. */
typedef struct written {
  char *out;
  size_t size, used;
  uint64_t offset; /* that is left */
} written_t;

static void add_text(written_t *w, const char *format, const char *text, uint64_t number) {
  int n = text ? snprintf(w->out + w->used, w->size - w->used, format, text)
               : snprintf(w->out + w->used, w->size - w->used, format, number);
  w->used += n > 0 ? (size_t)n : 0;
  if (w->used >= w->size) w->used = w->size - 1;
}

/* Goes from TYPE to the part that contains the offset; false: it has no parts, or none to name. */
static bool enter(Dwarf_Die *type, written_t *w) {
  Dwarf_Die member;
  uint64_t start, item;
  switch (dwarf_tag(type)) {
  case DW_TAG_array_type:
    item = item_size(type);
    if (!item) return false;
    add_text(w, "[%" PRIu64 "]", NULL, w->offset / item);
    w->offset %= item;
    return type_of(type, type);
  case DW_TAG_structure_type:
  case DW_TAG_class_type:
  case DW_TAG_union_type: {
    if ((!w->offset && is_lock(type)) || !find_member(type, w->offset, &member, &start))
      return false;
    const char *name = dwarf_tag(&member) == DW_TAG_member ? dwarf_diename(&member) : NULL;
    if (name && is_reserved(name)) return false;
    if (name) add_text(w, ".%s", name, 0);
    w->offset -= start;
    return type_of(&member, type);
  }
  default: return false;
  }
}

bool members_name(members_t *m, uint64_t address, uint64_t offset, char *out, size_t size) {
  size_t i = ARRAY_SEARCH(m->count, k, m->items[k].address < address);
  Dwarf_Die die, type;
  if (!size || i == m->count || m->items[i].address != address ||
      !dwarf_offdie(m->dwarf, m->items[i].entry, &die) || !type_of(&die, &type))
    return false;
  written_t w = {out, size, 0, offset};
  *out = 0;
  for (int depth = 0; depth < DEPTH_MAX && enter(&type, &w);)
    depth++;
  if (w.offset) add_text(&w, "+0x%" PRIx64, NULL, w.offset);
  return w.used + 1 < size;
}
