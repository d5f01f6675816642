/* SPDX-License-Identifier: MIT */
#include "symbol/dwarf/names.h"

#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/message.h"

static size_t hash(const void *entry) { return (size_t)hash_number((uintptr_t)entry); }

static bool grow(dwarf_names_t *names) {
  size_t count = names->count ? names->count * 2 : 256;
  dwarf_name_t *slots = calloc(count, sizeof *slots);
  if (!slots) return false;
  for (size_t i = 0; i < names->count; i++) {
    if (!names->slots[i].entry) continue;
    size_t at = hash(names->slots[i].entry) & (count - 1);
    while (slots[at].entry)
      at = (at + 1) & (count - 1);
    slots[at] = names->slots[i];
  }
  free(names->slots);
  names->slots = slots;
  names->count = count;
  return true;
}

void dwarf_out_of_memory(void) { exit(message_fail("out of memory")); }

void dwarf_names_free(dwarf_names_t *names) { free(names->slots); }

static const char *linkage_name(Dwarf_Die *die) {
  static const unsigned linkage[] = {DW_AT_linkage_name, DW_AT_MIPS_linkage_name};
  Dwarf_Attribute attribute;
  for (int i = 0; i < 2; i++) {
    const char *text = dwarf_formstring(dwarf_attr_integrate(die, linkage[i], &attribute));
    if (text && *text) return text;
  }
  return NULL;
}

static const char *own_name(Dwarf_Die *die) {
  Dwarf_Attribute attribute;
  return dwarf_formstring(dwarf_attr(die, DW_AT_name, &attribute));
}

/* The slot of DIE, or the free slot where it belongs; SIZE_MAX when memory runs out. */
static size_t name_slot(dwarf_names_t *names, const Dwarf_Die *die) {
  if (names->used * 2 >= names->count && !grow(names)) {
    names->failed = true;
    return SIZE_MAX;
  }
  size_t at = hash(die->addr) & (names->count - 1);
  while (names->slots[at].entry && names->slots[at].entry != die->addr)
    at = (at + 1) & (names->count - 1);
  return at;
}

static uint32_t store_offset(dwarf_names_t *names, size_t slot, const Dwarf_Die *die,
                             uint32_t offset) {
  names->slots[slot].entry = die->addr;
  names->slots[slot].name = offset;
  names->used++;
  return offset;
}

static uint32_t store_name(dwarf_names_t *names, size_t slot, const Dwarf_Die *die,
                           const char *text) {
  uint32_t offset = 0;
  if (text && !strings_add(names->strings, text, &offset)) names->failed = true;
  return store_offset(names, slot, die, offset);
}

static void join(char *path, size_t *size, size_t capacity, const char *name) {
  size_t length = strlen(name);
  if (*size + length + 2 >= capacity) return;
  memcpy(path + *size, name, length);
  memcpy(path + *size + length, "::", 2);
  *size += length + 2;
}

/* Appends the name of the namespace or class DIE to PATH. */
static void join_scope(char *path, size_t *size, size_t capacity, Dwarf_Die *die, int tag) {
  const char *name = own_name(die);
  if (!name && tag == DW_TAG_namespace) name = "(anonymous namespace)";
  if (name) join(path, size, capacity, name); /* a class without a name is a lambda */
}

static bool is_named_scope(int tag) {
  return tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_class_type ||
         tag == DW_TAG_structure_type || tag == DW_TAG_union_type || tag == DW_TAG_interface_type;
}

/* The qualified name of DIE, called NAME, in a partial unit. Partial units contain entries that
 * several units share (dwz) and are not read as a whole. */
static uint32_t shared_name(dwarf_names_t *names, size_t slot, Dwarf_Die *die, const char *name) {
  char text[2048];
  size_t size = 0;
  Dwarf_Die *scopes = NULL;
  int count = dwarf_getscopes_die(die, &scopes);
  for (int i = count; i-- > 1;) {
    int tag = dwarf_tag(&scopes[i]);
    if (is_named_scope(tag)) join_scope(text, &size, sizeof text / 2, &scopes[i], tag);
  }
  free(scopes);
  snprintf(text + size, sizeof text - size, "%s", name);
  return store_name(names, slot, die, text);
}

/* The name of DIE, or of the entry that it specifies or instantiates, over at most HOPS references.
 */
static uint32_t name_within(dwarf_names_t *names, Dwarf_Die *die, int hops) {
  Dwarf_Attribute attribute;
  Dwarf_Die other;
  size_t slot = name_slot(names, die);
  if (slot == SIZE_MAX) return 0;
  if (names->slots[slot].entry) return names->slots[slot].name;
  const char *text = linkage_name(die);
  if (!text && (text = own_name(die)) && die->cu != names->cu)
    return shared_name(names, slot, die, text);
  if (!text && hops > 0 &&
      (dwarf_attr(die, DW_AT_specification, &attribute) ||
       dwarf_attr(die, DW_AT_abstract_origin, &attribute)) &&
      dwarf_formref_die(&attribute, &other)) {
    uint32_t offset = name_within(names, &other, hops - 1);
    slot = name_slot(names, die); /* the table may have grown */
    return slot == SIZE_MAX ? 0 : store_offset(names, slot, die, offset);
  }
  return store_name(names, slot, die, text);
}

uint32_t dwarf_name_of(dwarf_names_t *names, Dwarf_Die *die) { return name_within(names, die, 8); }

void dwarf_names_note(dwarf_names_t *names, Dwarf_Die *die) {
  char text[2048];
  if (dwarf_hasattr(die, DW_AT_linkage_name) || dwarf_hasattr(die, DW_AT_MIPS_linkage_name) ||
      dwarf_hasattr(die, DW_AT_specification) || dwarf_hasattr(die, DW_AT_abstract_origin))
    return;
  const char *name = dwarf_diename(die);
  size_t slot = name ? name_slot(names, die) : SIZE_MAX;
  if (slot == SIZE_MAX || names->slots[slot].entry) return;
  snprintf(text, sizeof text, "%.*s%s", (int)names->path_size, names->path, name);
  store_name(names, slot, die, text);
}

void dwarf_names_enter(dwarf_names_t *names, Dwarf_Die *die, int tag) {
  join_scope(names->path, &names->path_size, sizeof names->path, die, tag);
}
