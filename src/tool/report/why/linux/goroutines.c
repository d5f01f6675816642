/* SPDX-License-Identifier: MIT */
#include "report/why/goroutines.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/why/rules.h"
#include "report/stacks/goroutines.h"

enum { DEPTH = 64, PLACES_SHOWN = 3 };

/* Goroutines that wait for one reason in one function. */
typedef struct waiting_place {
  const char *wait;
  why_function_t function;
  size_t count;
} waiting_place_t;

typedef struct waiting_places {
  ARRAY(waiting_place_t) all;
  size_t count; /* of goroutines */
} waiting_places_t;

/* Of the functions of the program, the innermost; else the innermost of all. False: no name. */
static bool find_function(const thread_t *stack, stack_symbolizer_t *symbolizer,
                          why_function_of_t *function_of, why_function_t *out) {
  bool found = false;
  for (uint32_t i = 0; i < stack->frame_count; i++) {
    const symbolized_pc_t *named = stack_symbolizer_lookup(symbolizer, &stack->frames[i]);
    for (int k = 0; named && k < named->count; k++) {
      const why_function_t function = function_of(named, &named->functions[k]);
      if (!found || function.own) *out = function;
      found = true;
      if (function.own) return true;
    }
  }
  return found;
}

static bool is_same(const waiting_place_t *a, const waiting_place_t *b) {
  return !strcmp(a->wait, b->wait) && a->function.line == b->function.line &&
         why_same_function(&a->function, &b->function);
}

static void add(waiting_places_t *places, const waiting_place_t *place) {
  places->count++;
  for (size_t i = 0; i < places->all.count; i++)
    if (is_same(&places->all.items[i], place)) {
      places->all.items[i].count++;
      return;
    }
  waiting_place_t *added = ARRAY_ADD(places->all);
  if (added) *added = *place;
}

static int most_first(const void *left, const void *right) {
  const waiting_place_t *a = left, *b = right;
  if (a->count != b->count) return a->count > b->count ? -1 : 1;
  int order = strcmp(a->function.name, b->function.name);
  return order ? order : strcmp(a->wait, b->wait);
}

/* 3 goroutines wait in main.worker (w.go:12) for "chan receive", 1 in main.main for "select" */
static void describe(const waiting_places_t *places, finding_t *f) {
  size_t named = 0, shown = 0;
  for (; shown < places->all.count && shown < PLACES_SHOWN; shown++) {
    const waiting_place_t *p = &places->all.items[shown];
    char place[WHY_NAME_MAX];
    size_t used = strlen(f->what);
    snprintf(f->what + used, sizeof f->what - used, "%s%zu%s in %s for \"%s\"", shown ? ", " : "",
             p->count,
             shown           ? ""
             : p->count == 1 ? " goroutine waits"
                             : " goroutines wait",
             why_function_text(&p->function, place), p->wait);
    named += p->count;
  }
  size_t used = strlen(f->what);
  if (named < places->count)
    snprintf(f->what + used, sizeof f->what - used, ", and %zu elsewhere", places->count - named);
}

static void replace_note(findings_list_t *list, const finding_t *f) {
  size_t kept = 0;
  for (size_t i = 0; i < list->count; i++)
    if (!list->items[i].is_note || list->items[i].kind != WHY_BLOCKED)
      list->items[kept++] = list->items[i];
  list->count = kept;
  findings_list_add(list, f);
  findings_list_rank(list);
}

static void add_note(why_report_t *why, waiting_places_t *places, size_t goroutines) {
  if (!places->all.count) return;
  qsort(places->all.items, places->all.count, sizeof *places->all.items, most_first);
  finding_t f = {.kind = WHY_BLOCKED,
                 .is_note = true,
                 .score = 15,
                 .culprit = why_keep_function(&why->facts, &places->all.items[0].function),
                 .amount = (double)places->count,
                 .unit = "goroutines"};
  describe(places, &f);
  WHY_SAY(f.evidence, "%zu of %zu goroutines wait", places->count, goroutines);
  replace_note(&why->findings, &f);
}

void why_goroutines(why_report_t *why, target_t *target, stack_symbolizer_t *symbolizer,
                    why_function_of_t *function_of) {
  goroutines_t all;
  size_t count = 0;
  goroutines_read(&all, target, symbolizer, DEPTH);
  waiting_places_t places = {.count = 0};
  for (size_t i = 0; i < all.count; i++) {
    const goroutine_t *g = &all.items[i];
    waiting_place_t place = {.wait = why_copy_text(&why->facts, g->wait), .count = 1};
    if (g->is_system) continue;
    count++;
    bool is_read = g->stack.ending == ENDING_COMPLETE || g->stack.ending == ENDING_TRUNCATED;
    if (!is_read || !g->wait[0] || strcmp(g->state, "waiting") != 0) continue;
    if (find_function(&g->stack, symbolizer, function_of, &place.function)) add(&places, &place);
  }
  add_note(why, &places, count);
  why->has_goroutines = places.all.count > 0;
  free(places.all.items);
  goroutines_free(&all);
}
