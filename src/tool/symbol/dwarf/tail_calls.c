/* SPDX-License-Identifier: MIT */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/message.h"
#include "symbol/dwarf/call_sites.h"
#include "symbol/dwarf/tail_calls.h"

/* Call sites visited by one search. */
#define VISITS_MAX 512

struct tail_calls {
  int fd;
  Dwarf *dwarf;
};

tail_calls_t *tail_calls_open(const char *path) {
  tail_calls_t *t = calloc(1, sizeof *t);
  if (!t) return NULL;
  t->fd = open(path, O_RDONLY | O_CLOEXEC);
  t->dwarf = t->fd >= 0 ? dwarf_begin(t->fd, DWARF_C_READ) : NULL;
  if (t->dwarf) {
    dwarf_new_oom_handler(t->dwarf, message_out_of_memory);
    return t;
  }
  tail_calls_close(t);
  return NULL;
}

void tail_calls_close(tail_calls_t *t) {
  if (!t) return;
  if (t->dwarf) dwarf_end(t->dwarf);
  if (t->fd >= 0) close(t->fd);
  free(t);
}

/* ---- functions ------------------------------------------------------------------------------ */

/* The concrete function that contains ADDRESS. The scopes of an address lead from an inlined
 * function to its definition; the scopes of a DIE lead to the function around it. */
static bool function_at(tail_calls_t *t, uint64_t address, Dwarf_Die *function) {
  Dwarf_Die unit, *innermost = NULL, *scopes = NULL;
  if (!dwarf_addrdie(t->dwarf, address, &unit)) return false;
  int count = dwarf_getscopes(&unit, address, &innermost);
  if (count > 0) count = dwarf_getscopes_die(&innermost[0], &scopes);
  bool found = false;
  for (int i = 0; i < count && !found; i++)
    if (dwarf_tag(&scopes[i]) == DW_TAG_subprogram) {
      *function = scopes[i];
      found = true;
    }
  free(innermost);
  free(scopes);
  return found;
}

static const char *linkage_name(Dwarf_Die *die) {
  Dwarf_Attribute attribute;
  if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) ||
      dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute))
    return dwarf_formstring(&attribute);
  return dwarf_diename(die);
}

typedef struct wanted_function {
  const char *name;
  Dwarf_Addr entry;
  int found;
} wanted_function_t;

static int match_function(Dwarf_Die *function, void *context) {
  wanted_function_t *wanted = context;
  Dwarf_Addr entry;
  const char *name = linkage_name(function);
  if (name && strcmp(name, wanted->name) == 0 && dwarf_entrypc(function, &entry) == 0 &&
      (!wanted->found || entry != wanted->entry)) {
    wanted->entry = entry;
    wanted->found++;
  }
  return wanted->found > 1 ? DWARF_CB_ABORT : DWARF_CB_OK;
}

/* Sets *ENTRY to the start of the function of DIE. DIE may be the concrete function, an abstract
 * instance in its unit, or a declaration of a function in another unit. */
static bool entry_of(tail_calls_t *t, Dwarf_Die *die, uint64_t *entry) {
  Dwarf_Addr address;
  if (dwarf_entrypc(die, &address) == 0) {
    *entry = address;
    return true;
  }
  wanted_function_t wanted = {.name = linkage_name(die)};
  Dwarf_Die own, unit;
  if (!wanted.name || !dwarf_diecu(die, &own, NULL, NULL)) return false;
  dwarf_getfuncs(&own, match_function, &wanted, 0);
  Dwarf_CU *at = NULL;
  while (!wanted.found && dwarf_get_units(t->dwarf, at, &at, NULL, NULL, &unit, NULL) == 0)
    dwarf_getfuncs(&unit, match_function, &wanted, 0);
  *entry = wanted.entry;
  return wanted.found == 1;
}

/* ---- the search ----------------------------------------------------------------------------- */

typedef struct chain_search {
  tail_calls_t *t;
  uint64_t goal;
  uint64_t path[TAIL_CALLS_MAX], found[TAIL_CALLS_MAX];
  int length, found_length, chains, visits;
} chain_search_t;

static void search_from(chain_search_t *search, uint64_t entry);

static bool try_tail_call(const call_site_t *site, void *context) {
  chain_search_t *search = context;
  uint64_t entry;
  if (++search->visits > VISITS_MAX) {
    search->chains = 2; /* too many to visit: a chain may not be the only one */
    return false;
  }
  Dwarf_Die target = site->target;
  if (!site->is_tail || !site->has_target || !entry_of(search->t, &target, &entry)) return true;
  search->path[search->length++] = site->after;
  if (entry == search->goal) {
    search->chains++;
    search->found_length = search->length;
    memcpy(search->found, search->path, sizeof search->found);
  } else
    search_from(search, entry);
  search->length--;
  return search->chains < 2;
}

static void search_from(chain_search_t *search, uint64_t entry) {
  Dwarf_Die function;
  if (search->length < TAIL_CALLS_MAX && function_at(search->t, entry, &function))
    call_sites_each(&function, try_tail_call, search);
}

typedef struct call_match {
  uint64_t after;
  call_site_t site;
  bool found;
} call_match_t;

static bool match_call(const call_site_t *site, void *context) {
  call_match_t *call = context;
  if (site->after != call->after) return true;
  call->site = *site;
  call->found = true;
  return false;
}

int tail_calls_between(tail_calls_t *t, uint64_t return_address, uint64_t entry,
                       uint64_t pcs[TAIL_CALLS_MAX]) {
  Dwarf_Die caller;
  call_match_t call = {.after = return_address};
  uint64_t called;
  if (!function_at(t, return_address - 1, &caller)) return 0;
  call_sites_each(&caller, match_call, &call);
  if (!call.found || !call.site.has_target || !entry_of(t, &call.site.target, &called) ||
      called == entry)
    return 0;
  chain_search_t search = {.t = t, .goal = entry};
  search_from(&search, called);
  if (search.chains != 1) return 0;
  for (int i = 0; i < search.found_length; i++)
    pcs[i] = search.found[search.found_length - 1 - i];
  return search.found_length;
}
