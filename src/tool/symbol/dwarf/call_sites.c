/* SPDX-License-Identifier: MIT */
#include "symbol/dwarf/call_sites.h"

#include <dwarf.h>

/* Of nested scopes in a function. */
#define DEPTH_MAX 64

static bool is_call_site(int tag) { return tag == DW_TAG_call_site || tag == DW_TAG_GNU_call_site; }

static bool flag_of(Dwarf_Die *die, unsigned name) {
  Dwarf_Attribute attribute;
  bool value = false;
  return dwarf_attr(die, name, &attribute) && dwarf_formflag(&attribute, &value) == 0 && value;
}

static bool read_call_site(Dwarf_Die *die, call_site_t *site) {
  Dwarf_Attribute attribute;
  bool gnu = dwarf_tag(die) == DW_TAG_GNU_call_site;
  if (!dwarf_attr(die, gnu ? DW_AT_low_pc : DW_AT_call_return_pc, &attribute) ||
      dwarf_formaddr(&attribute, &site->after) != 0)
    return false;
  site->is_tail = flag_of(die, gnu ? DW_AT_GNU_tail_call : DW_AT_call_tail_call);
  site->has_target = dwarf_attr(die, gnu ? DW_AT_abstract_origin : DW_AT_call_origin, &attribute) &&
                     dwarf_formref_die(&attribute, &site->target);
  return true;
}

static bool each_call_site(Dwarf_Die *scope, int depth,
                           bool (*visit)(const call_site_t *site, void *context), void *context) {
  Dwarf_Die child;
  call_site_t site;
  if (depth == DEPTH_MAX || dwarf_child(scope, &child) != 0) return true;
  do {
    int tag = dwarf_tag(&child);
    bool is_scope = tag == DW_TAG_lexical_block || tag == DW_TAG_inlined_subroutine;
    if (is_call_site(tag) && read_call_site(&child, &site) && !visit(&site, context)) return false;
    if (is_scope && !each_call_site(&child, depth + 1, visit, context)) return false;
  } while (dwarf_siblingof(&child, &child) == 0);
  return true;
}

bool call_sites_each(Dwarf_Die *function, bool (*visit)(const call_site_t *site, void *context),
                     void *context) {
  return each_call_site(function, 0, visit, context);
}
