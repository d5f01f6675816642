/* SPDX-License-Identifier: MIT */
#include "symbol/dwarf/callers.h"

#include <dwarf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/message.h"
#include "symbol/dwarf/call_sites.h"

typedef struct search {
  const char *const *names;
  caller_t *out;
  unsigned callers;
  size_t functions, sites; /* of the unit */
  bool calls;              /* the current function */
} search_t;

static bool visit_site(const call_site_t *site, void *context) {
  search_t *s = context;
  Dwarf_Die target = site->target;
  const char *name = site->has_target ? dwarf_diename(&target) : NULL;
  s->sites++;
  for (const char *const *n = s->names; name && *n; n++)
    s->calls |= strcmp(name, *n) == 0;
  return true;
}

static void set_caller(Dwarf_Die *function, caller_t *out) {
  const char *name = dwarf_diename(function), *file = dwarf_decl_file(function);
  int line = 0;
  snprintf(out->name, sizeof out->name, "%s", name ? name : "");
  snprintf(out->file, sizeof out->file, "%s", file ? file : "");
  out->line = dwarf_decl_line(function, &line) == 0 && line > 0 ? (uint32_t)line : 0;
}

static int visit_function(Dwarf_Die *function, void *context) {
  search_t *s = context;
  Dwarf_Addr entry;
  if (dwarf_entrypc(function, &entry) != 0) return DWARF_CB_OK; /* an abstract instance */
  s->functions++;
  s->calls = false;
  (void)call_sites_each(function, visit_site, s);
  if (s->calls && s->callers++ == 0) set_caller(function, s->out);
  return DWARF_CB_OK;
}

/* Whether the compiler would have described call sites: gcc lists its options. */
static bool is_optimized(Dwarf_Die *unit) {
  Dwarf_Attribute attribute;
  const char *producer =
      dwarf_attr(unit, DW_AT_producer, &attribute) ? dwarf_formstring(&attribute) : NULL;
  const char *option = producer ? strstr(producer, " -O") : NULL;
  return option && option[3] != '0';
}

static bool search_units(Dwarf *dwarf, search_t *s) {
  Dwarf_CU *at = NULL;
  Dwarf_Die unit;
  size_t units = 0;
  while (dwarf_get_units(dwarf, at, &at, NULL, NULL, &unit, NULL) == 0) {
    s->functions = s->sites = 0;
    dwarf_getfuncs(&unit, visit_function, s, 0);
    if (s->functions && !s->sites && !is_optimized(&unit)) return false;
    units += s->functions != 0;
  }
  return units != 0;
}

bool caller_only(const char *path, const char *const *names, caller_t *out) {
  search_t s = {.names = names, .out = out};
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  Dwarf *dwarf = fd >= 0 ? dwarf_begin(fd, DWARF_C_READ) : NULL;
  if (dwarf) dwarf_new_oom_handler(dwarf, message_out_of_memory);
  bool good = dwarf && search_units(dwarf, &s) && s.callers == 1 && *out->name;
  if (dwarf) dwarf_end(dwarf);
  if (fd >= 0) close(fd);
  return good;
}
