/* SPDX-License-Identifier: MIT
 *
 * Facts: DWARF 5, sections 4.1 (variables) and 5.7 (structures and their members).
 */
#include "symbol/dwarf/structures.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/message.h"

typedef struct search {
  structure_member_t *members;
  structure_variable_t *variables;
  size_t member_count, variable_count, missing;
} search_t;

static bool type_of(Dwarf_Die *die, Dwarf_Die *type) {
  Dwarf_Attribute attribute;
  return dwarf_attr_integrate(die, DW_AT_type, &attribute) && dwarf_formref_die(&attribute, type) &&
         dwarf_peel_type(type, type) == 0;
}

/* Finds the member of STRUCTURE with the name that is the first LENGTH bytes of NAME. */
static bool member_of(Dwarf_Die *structure, const char *name, size_t length, Dwarf_Die *member) {
  if (dwarf_child(structure, member) != 0) return false;
  do {
    const char *text = dwarf_diename(member);
    if (text && dwarf_tag(member) == DW_TAG_member && strlen(text) == length &&
        !memcmp(text, name, length))
      return true;
  } while (dwarf_siblingof(member, member) == 0);
  return false;
}

static bool find_member(Dwarf_Die *structure, structure_member_t *wanted) {
  Dwarf_Die at = *structure, member;
  uint64_t offset = 0;
  for (const char *name = wanted->path;;) {
    size_t length = strcspn(name, ".");
    Dwarf_Attribute place;
    Dwarf_Word bytes;
    if (!member_of(&at, name, length, &member) ||
        !dwarf_attr(&member, DW_AT_data_member_location, &place) ||
        dwarf_formudata(&place, &bytes) != 0)
      return false;
    offset += bytes;
    if (!name[length]) break;
    name += length + 1;
    if (!type_of(&member, &at)) return false;
  }
  wanted->offset = offset;
  return true;
}

/* Go's linker writes locations as plain blocks, which dwarf_getlocation refuses. */
static bool address_of(Dwarf_Attribute *location, uint64_t *out) {
  Dwarf_Block block;
  Dwarf_Op *ops;
  size_t count;
  if (dwarf_formblock(location, &block) == 0 && block.length == 1 + sizeof *out &&
      block.data[0] == DW_OP_addr) {
    memcpy(out, block.data + 1, sizeof *out);
    return true;
  }
  Dwarf_Attribute indexed; /* in .debug_addr, DWARF 5 section 2.5.1.1 */
  return dwarf_getlocation(location, &ops, &count) == 0 && count == 1 &&
         ops[0].atom == DW_OP_addrx && dwarf_getlocation_attr(location, ops, &indexed) == 0 &&
         dwarf_formaddr(&indexed, out) == 0;
}

static bool find_variable(Dwarf_Die *die, structure_variable_t *wanted) {
  Dwarf_Attribute location;
  Dwarf_Die type;
  return dwarf_attr(die, DW_AT_location, &location) && address_of(&location, &wanted->address) &&
         type_of(die, &type) && dwarf_aggregate_size(&type, &wanted->size) == 0;
}

static void look_at(search_t *s, Dwarf_Die *die) {
  int tag = dwarf_tag(die);
  const char *name =
      tag == DW_TAG_structure_type || tag == DW_TAG_variable ? dwarf_diename(die) : NULL;
  if (!name) return;
  for (size_t i = 0; tag == DW_TAG_structure_type && i < s->member_count; i++) {
    structure_member_t *m = &s->members[i];
    if (!m->is_known && !strcmp(m->structure, name) && find_member(die, m)) {
      m->is_known = true;
      s->missing--;
    }
  }
  for (size_t i = 0; tag == DW_TAG_variable && i < s->variable_count; i++) {
    structure_variable_t *v = &s->variables[i];
    if (!v->is_known && !strcmp(v->name, name) && find_variable(die, v)) {
      v->is_known = true;
      s->missing--;
    }
  }
}

static void look_at_unit(search_t *s, Dwarf_Die *unit) {
  Dwarf_Die die;
  if (dwarf_child(unit, &die) != 0) return;
  do
    look_at(s, &die);
  while (s->missing && dwarf_siblingof(&die, &die) == 0);
}

bool structures_find(const char *path, structure_member_t *members, size_t member_count,
                     structure_variable_t *variables, size_t variable_count) {
  search_t s = {members, variables, member_count, variable_count, member_count + variable_count};
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  Dwarf *dwarf = fd >= 0 ? dwarf_begin(fd, DWARF_C_READ) : NULL;
  if (dwarf) {
    Dwarf_CU *cu = NULL;
    Dwarf_Die unit;
    dwarf_new_oom_handler(dwarf, message_out_of_memory);
    while (s.missing && dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &unit, NULL) == 0)
      look_at_unit(&s, &unit);
    dwarf_end(dwarf);
  }
  if (fd >= 0) close(fd);
  return s.missing == 0;
}
