/* SPDX-License-Identifier: MIT */
#include "symbol/dwarf/names.h"

#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "symbol/demangle.h"

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

/* ---- lambdas ------------------------------------------------------------------------------- */

#define CALL "operator()"
enum { LAMBDA_DEPTH_MAX = 64, DEPTH_MAX = 512, HOPS_MAX = 8, SEARCHES_MAX = 4 };

/* Sets *CALL_DIE to the call operator of the class DIE, if that is a lambda. */
static bool is_lambda(Dwarf_Die *die, Dwarf_Die *call_die) {
  int tag = dwarf_tag(die);
  if ((tag != DW_TAG_structure_type && tag != DW_TAG_class_type) || own_name(die) ||
      dwarf_child(die, call_die) != 0)
    return false;
  do {
    const char *name = dwarf_tag(call_die) == DW_TAG_subprogram ? own_name(call_die) : NULL;
    if (name && strcmp(name, CALL) == 0) return true;
  } while (dwarf_siblingof(call_die, call_die) == 0);
  return false;
}

/* Where a lambda is written: the line and the column. */
static uint64_t place_of(Dwarf_Die *die) {
  int line = 0, column = 0;
  (void)dwarf_decl_line(die, &line);
  (void)dwarf_decl_column(die, &column);
  return (uint64_t)(uint32_t)line << 32 | (uint32_t)column;
}

/* Counts the lambdas in DIE and its siblings that are written before PLACE. */
static unsigned count_lambdas(Dwarf_Die *die, uint64_t place, int depth) {
  Dwarf_Die child;
  unsigned count = 0;
  do {
    int tag = dwarf_tag(die);
    if (is_lambda(die, &child)) count += place_of(die) < place;
    bool is_block =
        tag == DW_TAG_lexical_block || tag == DW_TAG_try_block || tag == DW_TAG_catch_block;
    if (is_block && depth < LAMBDA_DEPTH_MAX && dwarf_child(die, &child) == 0)
      count += count_lambdas(&child, place, depth + 1);
  } while (dwarf_siblingof(die, die) == 0);
  return count;
}

/* Appends "{lambda#1}" for the class DIE in FUNCTION, if it is one. gcc numbers the lambdas of a
 * function in the order in which they are written. */
static void join_lambda(char *path, size_t *size, size_t capacity, Dwarf_Die *die,
                        Dwarf_Die *function) {
  Dwarf_Die call, child;
  char name[32];
  if (!function->addr || !is_lambda(die, &call) || dwarf_child(function, &child) != 0) return;
  snprintf(name, sizeof name, "{lambda#%u}", 1 + count_lambdas(&child, place_of(die), 0));
  join(path, size, capacity, name);
}

/* ---- qualified names ----------------------------------------------------------------------- */

/* Appends the name of the namespace or class DIE, which FUNCTION may contain, to PATH. */
static void join_scope(char *path, size_t *size, size_t capacity, Dwarf_Die *die, int tag,
                       Dwarf_Die *function) {
  const char *name = own_name(die);
  if (!name && tag == DW_TAG_namespace) name = "(anonymous namespace)";
  if (name)
    join(path, size, capacity, name);
  else
    join_lambda(path, size, capacity, die, function);
}

static bool is_named_scope(int tag) {
  return tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_class_type ||
         tag == DW_TAG_structure_type || tag == DW_TAG_union_type || tag == DW_TAG_interface_type;
}

/* The entry that says what the function DIE is, over at most HOPS references. */
static void find_origin(Dwarf_Die *die, int hops) {
  Dwarf_Attribute attribute;
  Dwarf_Die other;
  while (hops-- > 0 && !own_name(die) &&
         (dwarf_attr(die, DW_AT_specification, &attribute) ||
          dwarf_attr(die, DW_AT_abstract_origin, &attribute)) &&
         dwarf_formref_die(&attribute, &other))
    *die = other;
}

static void search_name(dwarf_names_t *names, Dwarf_Die *die, const char *name, char *out,
                        size_t size);

/* Appends the name of FUNCTION, which contains what follows. */
static void join_function(dwarf_names_t *names, char *path, size_t *size, size_t capacity,
                          Dwarf_Die *function) {
  char full[1024];
  const char *raw = linkage_name(function);
  Dwarf_Die origin = *function;
  if (!raw && names->searches) {
    find_origin(&origin, HOPS_MAX);
    /* In a damaged file the entry that a function refers to may be inside of it. */
    if (!own_name(&origin) || names->searching == SEARCHES_MAX) return;
    names->searching++;
    search_name(names, &origin, own_name(&origin), full, sizeof full);
    names->searching--;
    join(path, size, capacity, full);
    return;
  }
  uint32_t offset = raw ? 0 : dwarf_name_of(names, function);
  if (offset) raw = strings_at(names->strings, offset);
  if (raw) join(path, size, capacity, demangle(raw, full, sizeof full) ? full : raw);
}

/* Sets *INNER to the child of OUTER that is or contains DIE. Entries are in the order of the tree,
 * so it is the last child that does not begin after DIE. */
static bool child_around(Dwarf_Die *outer, const Dwarf_Die *die, Dwarf_Die *inner) {
  Dwarf_Die child;
  bool found = false;
  if (dwarf_child(outer, &child) != 0) return false;
  do {
    if ((uintptr_t)child.addr > (uintptr_t)die->addr) break;
    *inner = child;
    found = true;
  } while (dwarf_siblingof(&child, &child) == 0);
  return found;
}

/* Writes the qualified name of DIE, called NAME, to OUT, by a search of its unit. */
static void search_name(dwarf_names_t *names, Dwarf_Die *die, const char *name, char *out,
                        size_t size) {
  size_t used = 0;
  Dwarf_Die scope, inner, function = {0};
  bool found = dwarf_cu_die(die->cu, &scope, NULL, NULL, NULL, NULL, NULL, NULL) != NULL;
  for (int depth = 0;
       found && child_around(&scope, die, &inner) && inner.addr != die->addr && depth < DEPTH_MAX;
       depth++) {
    int tag = dwarf_tag(&inner);
    if (tag == DW_TAG_subprogram) {
      function = inner;
      used = 0;
      join_function(names, out, &used, size / 2, &function);
    } else if (is_named_scope(tag)) {
      join_scope(out, &used, size / 2, &inner, tag, &function);
    }
    scope = inner;
  }
  snprintf(out + used, size - used, "%s", name);
}

/* Stores the name of an entry whose scopes were not entered: only one address is looked up, or the
 * entry is in a partial unit, which several units share (dwz) and which is not read as a whole. */
static uint32_t searched_name(dwarf_names_t *names, Dwarf_Die *die, const char *name) {
  char text[2048];
  search_name(names, die, name, text, sizeof text);
  size_t slot = name_slot(names, die); /* the table may have grown */
  return slot == SIZE_MAX ? 0 : store_name(names, slot, die, text);
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
  if (!text && (text = own_name(die)) && (names->searches || die->cu != names->cu))
    return searched_name(names, die, text);
  if (text && strcmp(text, CALL) == 0) {
    names->late = true;
    return 0;
  }
  if (!text && hops > 0 &&
      (dwarf_attr(die, DW_AT_specification, &attribute) ||
       dwarf_attr(die, DW_AT_abstract_origin, &attribute)) &&
      dwarf_formref_die(&attribute, &other)) {
    uint32_t offset = name_within(names, &other, hops - 1);
    slot = name_slot(names, die); /* the table may have grown */
    if (names->late) return 0;
    return slot == SIZE_MAX ? 0 : store_offset(names, slot, die, offset);
  }
  return store_name(names, slot, die, text);
}

uint32_t dwarf_name_of(dwarf_names_t *names, Dwarf_Die *die) {
  names->late = false;
  return name_within(names, die, HOPS_MAX);
}

uint32_t dwarf_name_of_late(dwarf_names_t *names, Dwarf_Die *die) {
  uint32_t offset = dwarf_name_of(names, die);
  if (!names->late) return offset;
  Dwarf_Die origin = *die;
  find_origin(&origin, HOPS_MAX);
  names->late = false;
  size_t slot = name_slot(names, &origin);
  return slot == SIZE_MAX ? 0 : store_name(names, slot, &origin, CALL);
}

void dwarf_names_note(dwarf_names_t *names, Dwarf_Die *die) {
  char text[2048];
  if (dwarf_hasattr(die, DW_AT_linkage_name) || dwarf_hasattr(die, DW_AT_MIPS_linkage_name) ||
      dwarf_hasattr(die, DW_AT_specification) || dwarf_hasattr(die, DW_AT_abstract_origin))
    return;
  const char *name = dwarf_diename(die);
  size_t slot = name ? name_slot(names, die) : SIZE_MAX;
  if (slot == SIZE_MAX || names->slots[slot].entry) return;
  size_t size = 0;
  Dwarf_Die function = names->function;
  if (function.addr) join_function(names, text, &size, sizeof text / 2, &function);
  slot = name_slot(names, die); /* the table may have grown */
  if (slot == SIZE_MAX) return;
  snprintf(text + size, sizeof text - size, "%.*s%s", (int)names->path_size, names->path, name);
  store_name(names, slot, die, text);
}

void dwarf_names_enter(dwarf_names_t *names, Dwarf_Die *die, int tag) {
  join_scope(names->path, &names->path_size, sizeof names->path, die, tag, &names->function);
}
